// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package hetznerfake is a fake of a Hetzner Cloud project: the part of the HTTP API that Drover uses, with state, served
// on loopback to the real SDK. Every request is checked against the cloud's own OpenAPI description. Actions may take
// time, requests may be refused and throttled, lists may be stale and answers lost. Time is counted in requests, so
// tests do not wait.
package hetznerfake

import (
	"cmp"
	"maps"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/getkin/kin-openapi/routers"
	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
)

// Token is the API token of the project.
const Token = "fake-token"

// Options configure the fake.
type Options struct {
	// ActionDelay is the number of requests until an action completes. Its resource is locked until then.
	ActionDelay int
	// ReadOnly makes the token read-only.
	ReadOnly bool
}

// Cloud is a running project.
type Cloud struct {
	// Endpoint is the URL of the API.
	Endpoint string

	options Options
	http    *httptest.Server
	router  routers.Router

	mu         sync.Mutex
	requests   int
	calls      []string
	violations []string
	resets     int
	faults     faults

	servers    map[int64]*server
	volumes    map[int64]*volume
	primaryIPs map[int64]*schema.PrimaryIP

	serverTypes     []schema.ServerType
	images          []schema.Image
	locations       []schema.Location
	networks        []schema.Network
	firewalls       []schema.Firewall
	sshKeys         []schema.SSHKey
	placementGroups []*schema.PlacementGroup
}

// server is a server with its pending action.
type server struct {
	schema.Server
	UserData  string
	SSHKeys   []int64
	Firewalls []int64
	busy      int
	next      string
	hidden    bool
}

// volume is a volume with its pending action.
type volume struct {
	schema.Volume
	Automount bool
	busy      int
	detaching bool
}

// Start serves a project with the default resources.
func Start(options Options) (*Cloud, error) {
	c := &Cloud{
		options: options,
		servers: map[int64]*server{}, volumes: map[int64]*volume{}, primaryIPs: map[int64]*schema.PrimaryIP{},
	}
	c.addDefaults()
	c.http = httptest.NewServer(c)
	c.Endpoint = c.http.URL + "/v1"
	router, err := newRouter(c.Endpoint)
	if err != nil {
		c.Close()
		return nil, err
	}
	c.router = router
	return c, nil
}

// Close stops the server.
func (c *Cloud) Close() { c.http.Close() }

// Calls returns the requests so far, as method and path without IDs.
func (c *Cloud) Calls() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Violations returns the requests that violate the description.
func (c *Cloud) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations)
}

// Leftovers returns everything that was created and is billed: servers, volumes, and the addresses that were created
// with a server.
func (c *Cloud) Leftovers() (left []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, created := range c.servers {
		left = append(left, "server "+created.Name)
	}
	for _, created := range c.volumes {
		left = append(left, "volume "+created.Name)
	}
	for _, ip := range c.primaryIPs {
		if ip.AutoDelete {
			left = append(left, "primary IP "+ip.Name)
		}
	}
	slices.Sort(left)
	return left
}

// CreatedServer is a server with the parameters of its creation.
type CreatedServer struct {
	Server    schema.Server
	UserData  string
	SSHKeys   []int64
	Firewalls []int64
	Volumes   []schema.Volume
}

// CreatedServers returns the servers that exist, in the order of their creation.
func (c *Cloud) CreatedServers() (all []CreatedServer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, created := range c.sorted() {
		server := CreatedServer{Server: created.Server, UserData: created.UserData, SSHKeys: created.SSHKeys, Firewalls: created.Firewalls}
		for _, id := range created.Volumes {
			server.Volumes = append(server.Volumes, c.volumes[id].Volume)
		}
		all = append(all, server)
	}
	return all
}

// Volumes returns the volumes that exist.
func (c *Cloud) Volumes() (all []schema.Volume) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(c.volumes)) {
		all = append(all, c.volumes[id].Volume)
	}
	return all
}

// ImageOf returns the ID of the image that a server was created from.
func (c *Cloud) ImageOf(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, known := range c.servers {
		if strconv.FormatInt(known.ID, 10) == id {
			return strconv.FormatInt(known.Image.ID, 10)
		}
	}
	return ""
}

// Change changes a server without a request.
func (c *Cloud) Change(name string, change func(*schema.Server)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, created := range c.servers {
		if created.Name == name {
			change(&created.Server)
		}
	}
}

// Stop powers off all servers immediately, as an operator would.
func (c *Cloud) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, created := range c.servers {
		created.Status, created.Locked, created.busy, created.next = "off", false, 0, ""
	}
}

// Resets returns the number of resets of servers.
func (c *Cloud) Resets() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resets
}

// Remove deletes a server immediately, as another client of the project would.
func (c *Cloud) Remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, created := range c.sorted() {
		if created.Name == name {
			c.deleteServer(created)
		}
	}
}

func (c *Cloud) sorted() []*server {
	return slices.SortedFunc(maps.Values(c.servers), func(a, b *server) int { return cmp.Compare(a.ID, b.ID) })
}

// lastID is shared by all projects: IDs are unique over all projects of the cloud.
var lastID atomic.Int64

func newID() int64 { return 1000 + lastID.Add(1) }

// finishActions completes the actions that are due.
func (c *Cloud) finishActions() {
	for _, created := range c.sorted() {
		if created.busy == 0 || created.busy > c.requests {
			continue
		}
		created.busy, created.Locked = 0, false
		if created.next == "deleted" {
			c.deleteServer(created)
		} else if created.next != "" {
			created.Status = created.next
		}
		created.next = ""
	}
	for _, created := range c.volumes {
		if created.busy == 0 || created.busy > c.requests {
			continue
		}
		created.busy, created.Status = 0, "available"
		if created.detaching {
			c.detach(created)
		}
	}
}

// startAction starts an action on a server and sets the status during and after it; an empty status is no change.
func (c *Cloud) startAction(on *server, command, meanwhile, then string) schema.Action {
	action := c.action(command, schema.ActionResourceReference{ID: on.ID, Type: "server"})
	if meanwhile != "" {
		on.Status = meanwhile
	}
	on.busy, on.next, on.Locked = c.requests+c.options.ActionDelay, then, true
	c.finishActions()
	return action
}

func (c *Cloud) action(command string, on schema.ActionResourceReference) schema.Action {
	action := schema.Action{ID: newID(), Status: "running", Command: command, Started: time.Now(), Resources: []schema.ActionResourceReference{on}}
	if c.options.ActionDelay == 0 {
		action.Status, action.Progress = "success", 100
	}
	return action
}

// deleteServer deletes a server with its addresses and detaches its volumes.
func (c *Cloud) deleteServer(deleted *server) {
	delete(c.servers, deleted.ID)
	for _, attached := range c.volumes {
		if attached.Server != nil && *attached.Server == deleted.ID {
			attached.Server, attached.detaching = nil, false
		}
	}
	for id, ip := range c.primaryIPs {
		if ip.AssigneeID != nil && *ip.AssigneeID == deleted.ID {
			if ip.AssigneeID = nil; ip.AutoDelete {
				delete(c.primaryIPs, id)
			}
		}
	}
	for _, group := range c.placementGroups {
		group.Servers = slices.DeleteFunc(group.Servers, func(id int64) bool { return id == deleted.ID })
	}
}

func (c *Cloud) detach(from *volume) {
	if holder := c.servers[*from.Server]; holder != nil {
		holder.Volumes = slices.DeleteFunc(holder.Volumes, func(id int64) bool { return id == from.ID })
	}
	from.Server, from.detaching = nil, false
}

// withoutIDs returns the name of an operation.
func withoutIDs(method, path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "/v1"), "/")
	for i, part := range parts {
		if _, err := strconv.Atoi(part); err == nil {
			parts[i] = "{id}"
		}
	}
	return method + " " + strings.Join(parts, "/")
}
