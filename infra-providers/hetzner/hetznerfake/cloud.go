// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package hetznerfake is a Hetzner Cloud project for tests: the part of the HTTP API that Drover uses, with
// state, served on loopback to the real SDK. Every request is checked against the cloud's own OpenAPI
// description. It can be slow, refuse, throttle, lag and lose answers. Time passes by requests, not by the
// clock, so tests do not wait.
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

// Options say how the cloud behaves.
type Options struct {
	// Slow is how many requests pass until an action is done. Meanwhile what it works on is locked.
	Slow int
	// ReadOnly makes the token one that may only read.
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
	tick       int
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

// server is one server and what happens to it next.
type server struct {
	schema.Server
	UserData  string
	SSHKeys   []int64
	Firewalls []int64
	busy      int
	next      string
	hidden    bool
}

// volume is one volume and what happens to it next.
type volume struct {
	schema.Volume
	Automount bool
	busy      int
	detaching bool
}

// Start serves a project with nothing of ours in it.
func Start(options Options) (*Cloud, error) {
	c := &Cloud{
		options: options,
		servers: map[int64]*server{}, volumes: map[int64]*volume{}, primaryIPs: map[int64]*schema.PrimaryIP{},
	}
	c.seed()
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

// Close ends the service.
func (c *Cloud) Close() { c.http.Close() }

// Calls are the requests so far, as method and path without IDs.
func (c *Cloud) Calls() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Violations are the requests that break the description.
func (c *Cloud) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations)
}

// Leftovers are everything that is made and paid for by the project: servers, volumes, and the addresses
// that were made with a server.
func (c *Cloud) Leftovers() (left []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, made := range c.servers {
		left = append(left, "server "+made.Name)
	}
	for _, made := range c.volumes {
		left = append(left, "volume "+made.Name)
	}
	for _, ip := range c.primaryIPs {
		if ip.AutoDelete {
			left = append(left, "primary IP "+ip.Name)
		}
	}
	slices.Sort(left)
	return left
}

// Order is what a server was ordered with.
type Order struct {
	Server    schema.Server
	UserData  string
	SSHKeys   []int64
	Firewalls []int64
	Volumes   []schema.Volume
}

// Orders are the servers that exist, in the order they were made.
func (c *Cloud) Orders() (all []Order) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, made := range c.sorted() {
		order := Order{Server: made.Server, UserData: made.UserData, SSHKeys: made.SSHKeys, Firewalls: made.Firewalls}
		for _, id := range made.Volumes {
			order.Volumes = append(order.Volumes, c.volumes[id].Volume)
		}
		all = append(all, order)
	}
	return all
}

// Volumes are the volumes that exist.
func (c *Cloud) Volumes() (all []schema.Volume) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(c.volumes)) {
		all = append(all, c.volumes[id].Volume)
	}
	return all
}

// ImageOf returns the ID of the image that a server was made from.
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

// Change changes a server behind everybody's back.
func (c *Cloud) Change(name string, change func(*schema.Server)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, made := range c.servers {
		if made.Name == name {
			change(&made.Server)
		}
	}
}

// Stop powers all servers off as an operator would, at once.
func (c *Cloud) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, made := range c.servers {
		made.Status, made.Locked, made.busy, made.next = "off", false, 0, ""
	}
}

// Resets counts the servers that were reset.
func (c *Cloud) Resets() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resets
}

// Remove deletes a server as somebody else would, at once.
func (c *Cloud) Remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, made := range c.sorted() {
		if made.Name == name {
			c.drop(made)
		}
	}
}

func (c *Cloud) sorted() []*server {
	return slices.SortedFunc(maps.Values(c.servers), func(a, b *server) int { return cmp.Compare(a.ID, b.ID) })
}

// lastID counts for all projects: the cloud gives no ID twice, in whatever project.
var lastID atomic.Int64

func newID() int64 { return 1000 + lastID.Add(1) }

// settle ends the actions whose time has come.
func (c *Cloud) settle() {
	for _, made := range c.sorted() {
		if made.busy == 0 || made.busy > c.tick {
			continue
		}
		made.busy, made.Locked = 0, false
		if made.next == "gone" {
			c.drop(made)
		} else if made.next != "" {
			made.Status = made.next
		}
		made.next = ""
	}
	for _, made := range c.volumes {
		if made.busy == 0 || made.busy > c.tick {
			continue
		}
		made.busy, made.Status = 0, "available"
		if made.detaching {
			c.detach(made)
		}
	}
}

// work starts an action on a server, which ends in a status; an empty one stays as it is.
func (c *Cloud) work(on *server, command, meanwhile, then string) schema.Action {
	action := c.action(command, schema.ActionResourceReference{ID: on.ID, Type: "server"})
	if meanwhile != "" {
		on.Status = meanwhile
	}
	on.busy, on.next, on.Locked = c.tick+c.options.Slow, then, true
	c.settle()
	return action
}

func (c *Cloud) action(command string, on schema.ActionResourceReference) schema.Action {
	action := schema.Action{ID: newID(), Status: "running", Command: command, Started: time.Now(), Resources: []schema.ActionResourceReference{on}}
	if c.options.Slow == 0 {
		action.Status, action.Progress = "success", 100
	}
	return action
}

// drop removes a server and what goes with it.
func (c *Cloud) drop(gone *server) {
	delete(c.servers, gone.ID)
	for _, attached := range c.volumes {
		if attached.Server != nil && *attached.Server == gone.ID {
			attached.Server, attached.detaching = nil, false
		}
	}
	for id, ip := range c.primaryIPs {
		if ip.AssigneeID != nil && *ip.AssigneeID == gone.ID {
			if ip.AssigneeID = nil; ip.AutoDelete {
				delete(c.primaryIPs, id)
			}
		}
	}
	for _, group := range c.placementGroups {
		group.Servers = slices.DeleteFunc(group.Servers, func(id int64) bool { return id == gone.ID })
	}
}

func (c *Cloud) detach(from *volume) {
	if holder := c.servers[*from.Server]; holder != nil {
		holder.Volumes = slices.DeleteFunc(holder.Volumes, func(id int64) bool { return id == from.ID })
	}
	from.Server, from.detaching = nil, false
}

// withoutIDs names an operation.
func withoutIDs(method, path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "/v1"), "/")
	for i, part := range parts {
		if _, err := strconv.Atoi(part); err == nil {
			parts[i] = "{id}"
		}
	}
	return method + " " + strings.Join(parts, "/")
}
