// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package metalstackfake is a fake of a metal-stack installation: the part of the metal-api that Drover uses, with state, served on
// loopback to the real SDK. Every request and every answer is checked against the description of the API that ships with the
// SDK. As there, a machine is hardware that is wiped and started anew before it can be allocated again, an allocation that is
// refused is undone, addresses are released some time after their machine, the lowest free address is allocated first, and
// refusals have no codes. Requests may be refused, take effect late, and lose their answers. Time is counted in requests, so
// tests do not wait; the age of objects is that of a clock.
package metalstackfake

import (
	"cmp"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/getkin/kin-openapi/routers"

	"drover.io/infra-providers/driver"
)

// Options configure the fake.
type Options struct {
	// InstallDelay is the number of requests until an allocated machine is installed.
	InstallDelay int
	// ReleaseDelay is the number of requests until the addresses of a machine that was freed are released, and WipeDelay until it
	// can be allocated again.
	ReleaseDelay, WipeDelay int
	// Machines is the number of machines of each size in each partition; zero means 100.
	Machines int
	// Now is the clock; nil is the real one.
	Now func() time.Time
}

// Cloud is a running installation.
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

	machines []*server
	ips      map[netip.Addr]*address
	images   map[string]image
	// replaced is true for an installation that has no project.
	replaced bool
	// quota is that of the machines of the project; zero is none.
	quota int32
	// serial makes UUIDs.
	serial int
}

// server is a machine.
type server struct {
	ID, Partition, Size, Rack string
	Locked                    bool
	allocation                *allocation
	// availableAt is the request from which on it can be allocated.
	availableAt int
}

// allocation is what a machine is allocated with.
type allocation struct {
	uuid, name, hostname, description, project, image, role, layout, userData string
	tags, keys, ips, placement                                                []string
	networks                                                                  []string
	dns, ntp                                                                  []string
	created                                                                   time.Time
	// installedAt is the request at which it is installed.
	installedAt int
	crashLoop   bool
	liveliness  string
}

// address is an IP address.
type address struct {
	Address                netip.Addr
	UUID, Name, Text       string
	Network, Project, Type string
	Tags                   []string
	Created                time.Time
	// detachedAt is the request at which it is no longer marked as a machine's that was freed, and releasedAt the one at which it
	// is released; zero for never.
	detachedAt, releasedAt int
}

const tagMachineID = "machine.metal-stack.io/id"

func (a *address) machineIDs() (ids []string) {
	for _, tag := range a.Tags {
		if id, ok := strings.CutPrefix(tag, tagMachineID+"="); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

func (a *address) detach(machine string) {
	a.Tags = slices.DeleteFunc(a.Tags, func(tag string) bool { return tag == tagMachineID+"="+machine })
}

// Start serves an installation with the default resources.
func Start(options Options) (*Cloud, error) {
	if options.Now == nil {
		options.Now = time.Now
	}
	options.Machines = cmp.Or(options.Machines, 100)
	c := &Cloud{options: options, ips: map[netip.Addr]*address{}}
	c.addDefaults()
	c.http = httptest.NewServer(c)
	c.Endpoint = c.http.URL
	router, err := newRouter()
	if err != nil {
		c.Close()
		return nil, err
	}
	c.router = router
	return c, nil
}

// Close stops the server.
func (c *Cloud) Close() { c.http.Close() }

// uuid returns the next UUID.
func (c *Cloud) uuid() string {
	c.serial++
	return fmt.Sprintf("5e000000-0000-4000-8000-%012d", c.serial)
}

// proceed carries out what takes its time.
func (c *Cloud) proceed() {
	for at, ip := range c.ips {
		switch {
		case ip.releasedAt > 0 && c.requests >= ip.releasedAt:
			delete(c.ips, at)
		case ip.detachedAt > 0 && c.requests >= ip.detachedAt:
			ip.detachedAt, ip.Tags = 0, slices.DeleteFunc(ip.Tags, isMachineTag)
		}
	}
}

// machine returns a machine by its ID.
func (c *Cloud) machine(id string) *server {
	at := slices.IndexFunc(c.machines, func(m *server) bool { return m.ID == id })
	if at < 0 {
		return nil
	}
	return c.machines[at]
}

func isMachineTag(tag string) bool { return strings.HasPrefix(tag, tagMachineID+"=") }

// release detaches the addresses of a machine. It does so with those that are ephemeral some time later, and releases them some
// time after that, unless another machine has got them.
func (c *Cloud) release(machine string) {
	for _, ip := range c.ips {
		if !slices.Contains(ip.machineIDs(), machine) {
			continue
		}
		if ip.Type == "ephemeral" {
			ip.detachedAt = c.requests + 1 + c.options.ReleaseDelay/2
			ip.releasedAt = c.requests + 1 + c.options.ReleaseDelay
			continue
		}
		ip.detach(machine)
	}
}

// free frees a machine.
func (c *Cloud) free(m *server) {
	c.release(m.ID)
	m.allocation = nil
	m.availableAt = c.requests + c.options.WipeDelay
}

// Violations are requests and answers that the description of the API does not permit.
func (c *Cloud) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations)
}

// Calls are the operations of all requests, by their names in the description.
func (c *Cloud) Calls() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Count returns the number of requests of an operation.
func (c *Cloud) Count(operation string) (count int) {
	for _, call := range c.Calls() {
		if call == operation {
			count++
		}
	}
	return count
}

// changing are the operations that change something.
var changing = []string{"allocateIP", "allocateMachine", "freeIP", "freeMachine", "machineReset", "updateIP", "updateMachine"}

// Changes counts the requests that change something.
func (c *Cloud) Changes() (changes int) {
	for _, call := range c.Calls() {
		if slices.Contains(changing, call) {
			changes++
		}
	}
	return changes
}

// Restarts counts resets.
func (c *Cloud) Restarts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resets
}

// Leftovers names the machines that are allocated for the project, but its firewall, and the addresses that Drover allocated
// and that are not about to be released.
func (c *Cloud) Leftovers() (left []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.machines {
		if m.allocation != nil && m.allocation.role == "machine" && m.ID != Neighbour {
			left = append(left, "machine "+m.ID+" of "+m.allocation.name)
		}
	}
	for _, ip := range c.ips {
		if ip.Type == "ephemeral" && ip.releasedAt == 0 && isDrovers(ip.Tags) {
			left = append(left, "address "+ip.Address.String())
		}
	}
	slices.Sort(left)
	return left
}

func isDrovers(tags []string) bool {
	return slices.ContainsFunc(tags, func(tag string) bool { return strings.HasPrefix(tag, driver.TagMachineUID+"=") })
}

// Machine is a machine as a test sees it.
type Machine struct {
	ID, Rack, Name, Description, Image, UserData, Layout string
	Tags, Placement, Keys, IPs, Networks, DNS, NTP       []string
	Allocated                                            bool
}

// Machine returns a machine.
func (c *Cloud) Machine(id string) Machine {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.machine(id)
	if m == nil || m.allocation == nil {
		return Machine{ID: id}
	}
	a := m.allocation
	return Machine{
		ID: id, Rack: m.Rack, Name: a.name, Description: a.description, Image: a.image, UserData: a.userData, Layout: a.layout, Allocated: true,
		Tags: slices.Clone(a.tags), Placement: a.placement, Keys: a.keys, IPs: slices.Clone(a.ips), Networks: a.networks, DNS: a.dns, NTP: a.ntp,
	}
}

// Addresses returns the tags of all addresses.
func (c *Cloud) Addresses() map[string][]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string][]string{}
	for at, ip := range c.ips {
		all[at.String()] = slices.Clone(ip.Tags)
	}
	return all
}
