// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package openstackfake is a fake of OpenStack over HTTP, in memory: the parts of Keystone, Nova, Neutron, Glance and
// Cinder that the driver uses, written from their published API references. It has state, refuses what the services
// refuse with their messages, returns lists in small pages, creates servers and volumes with a delay, and attaches a port
// to one server only.
//
// The same test suite runs against real services, which checks its behaviour.
package openstackfake

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Credentials of a login, and its token.
const (
	User     = "demo"
	Password = "secret"
	token    = "token"
	project  = "0123456789abcdef0123456789abcdef"
	// Region is the region of the services.
	Region = "RegionOne"
)

// object is a resource in the form of the services.
type object = map[string]any

// Cloud is the fake. Its handler serves every service under one address.
type Cloud struct {
	mux *http.ServeMux
	// address is the base URL.
	address string

	mu     sync.Mutex
	serial int
	// things are the resources by kind and ID.
	things map[string]map[string]object
	// hidden is the state of servers that answers do not have, by ID.
	hidden map[string]*hiddenState
	// password is that of the login.
	password string
	logins   int
	changes  atomic.Int64
	// groupMembers is the maximum number of servers in a group.
	groupMembers int
	reboots      int
	output       string
}

// New returns a cloud with flavors, images and networks, to be served at an address.
func New() *Cloud {
	c := &Cloud{mux: http.NewServeMux(), things: map[string]map[string]object{}, hidden: map[string]*hiddenState{}, password: Password, groupMembers: 100}
	c.addDefaults()
	c.keystone()
	c.nova()
	c.neutron()
	c.glance()
	c.cinder()
	return c
}

// Serve sets the base URL of the cloud.
func (c *Cloud) Serve(address string) { c.address = address }

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if Changes(r) {
		c.changes.Add(1)
	}
	c.mux.ServeHTTP(w, r)
}

// Changes returns the number of requests that change something.
func (c *Cloud) Changes() int { return int(c.changes.Load()) }

// ChangePassword invalidates every token and the old password.
func (c *Cloud) ChangePassword(password string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.password = password
	c.logins++
}

// LimitGroups sets the maximum number of servers in a group; 10 is the default of Nova.
func (c *Cloud) LimitGroups(members int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.groupMembers = members
}

// Leftovers returns everything that a user created, by kind.
func (c *Cloud) Leftovers() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kind := range []string{"servers", "ports", "floatingips", "volumes", "os-server-groups"} {
		for _, id := range slices.Sorted(maps.Keys(c.things[kind])) {
			if created := c.things[kind][id]; created["furnished"] == nil {
				all = append(all, fmt.Sprintf("%s %v %s", kind, created["name"], id))
			}
		}
	}
	return all
}

// Resource returns the only resource of a kind that a user created, in the form of the service. It fails when there is
// none or more than one.
func (c *Cloud) Resource(kind string) (object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	created := c.list(kind, func(thing object) bool { return thing["furnished"] == nil })
	if len(created) != 1 {
		return nil, fmt.Errorf("there are %d %s, not one", len(created), kind)
	}
	return maps.Clone(created[0]), nil
}

// Change changes the resources of a kind without a request.
func (c *Cloud) Change(kind string, change func(object)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, created := range c.things[kind] {
		change(created)
	}
}

// Write replaces the output on the consoles of all servers.
func (c *Cloud) Write(output string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.output = output
}

// Reboots returns the number of reboots of servers.
func (c *Cloud) Reboots() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reboots
}

// DuplicateServer adds a newer server of the same machine to the only one.
func (c *Cloud) DuplicateServer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, known := range maps.Clone(c.things["servers"]) {
		double, hidden := maps.Clone(known), *c.hidden[id]
		hidden.ports = nil
		double["id"], double["created"] = c.id(), time.Now().Add(time.Minute).UTC().Format(time.RFC3339)
		c.put("servers", double)
		c.hidden[double["id"].(string)] = &hidden
	}
}

// ServerRequest returns the body of the request that created the only server.
func (c *Cloud) ServerRequest() object {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, created := range c.hidden {
		return created.requested
	}
	return nil
}

// id returns a new UUID; they are ascending.
func (c *Cloud) id() string {
	c.serial++
	return fmt.Sprintf("%08x-0000-4000-9000-%012x", c.serial, c.serial)
}

func (c *Cloud) put(kind string, thing object) object {
	if c.things[kind] == nil {
		c.things[kind] = map[string]object{}
	}
	if thing["id"] == nil {
		thing["id"] = c.id()
	}
	c.things[kind][thing["id"].(string)] = thing
	return thing
}

// refusal is an error answer.
type refusal struct {
	status int
	body   object
}

func fault(status int, name, message string) *refusal {
	return &refusal{status, object{name: object{"code": status, "message": message}}}
}

func badRequest(format string, arguments ...any) *refusal {
	return fault(http.StatusBadRequest, "badRequest", fmt.Sprintf(format, arguments...))
}

func notFound(what string) *refusal {
	return fault(http.StatusNotFound, "itemNotFound", what+" could not be found.")
}

// call is one request of a service.
type call struct {
	*http.Request
	body object
	// status is that of a success.
	status *int
}

// handle registers a call that needs a token and answers with a status and a body.
func (c *Cloud) handle(pattern string, status int, do func(call) (object, *refusal)) {
	c.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if r.Header.Get("X-Auth-Token") != c.token() {
			write(w, http.StatusUnauthorized, object{"error": object{"code": 401, "message": "The request you have created requires authentication."}})
			return
		}
		success := status
		in := call{Request: r, body: object{}, status: &success}
		if r.Method == http.MethodPost || r.Method == http.MethodPut {
			if err := json.NewDecoder(r.Body).Decode(&in.body); err != nil {
				write(w, http.StatusBadRequest, badRequest("Malformed request body").body)
				return
			}
		}
		out, no := do(in)
		if no != nil {
			write(w, no.status, no.body)
			return
		}
		write(w, success, out)
	})
}

func (c *Cloud) token() string { return fmt.Sprintf("%s-%d", token, c.logins) }

func write(w http.ResponseWriter, status int, body object) {
	w.Header().Set("Content-Type", "application/json")
	if body == nil {
		w.WriteHeader(status)
		return
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// page returns one small page of a list with the link to the next one.
func (c *Cloud) page(r *http.Request, all []object, of string) object {
	const size = 7
	slices.SortFunc(all, func(a, b object) int {
		if a["id"].(string) < b["id"].(string) {
			return -1
		}
		return 1
	})
	if marker := r.URL.Query().Get("marker"); marker != "" {
		at := slices.IndexFunc(all, func(o object) bool { return o["id"] == marker })
		all = all[at+1:]
	}
	if len(all) <= size {
		return object{of: shown(all)}
	}
	next := *r.URL
	query := next.Query()
	query.Set("marker", all[size-1]["id"].(string))
	next.RawQuery = query.Encode()
	links := []object{{"rel": "next", "href": c.address + next.String()}}
	return object{of: shown(all[:size]), of + "_links": links}
}

// shown never encodes as null, which the services never send for a list.
func shown(all []object) []object { return append([]object{}, all...) }

// list returns the resources of a kind that match.
func (c *Cloud) list(kind string, fits func(object) bool) (found []object) {
	for _, thing := range c.things[kind] {
		if fits(thing) {
			found = append(found, thing)
		}
	}
	return found
}

func timestamp() string { return time.Now().UTC().Format("2006-01-02T15:04:05Z") }
