// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package anexiafake is an Anexia Engine in memory, behind HTTP: virtual machines that are provisioned and deprovisioned by
// tasks, lists and direct reads that are behind, pages, addresses whose reservation expires, answers that are lost.
//
// Nothing vouches for it. The Engine has no description that a machine could read, so the shapes and rules are those that the
// cloud's own clients rely on: the SDK github.com/anexia-it/go-anxcloud with its tests, and the Terraform provider. What neither
// says is a guess, chosen so that the driver has to be cautious.
//
// The tests of the driver use it, and the command fakecloud.
package anexiafake

import (
	"crypto/md5" //nolint:gosec // identifiers look like this
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// What exists.
const (
	Token        = "api-token-of-the-fake"
	Customer     = "12345"
	Location     = "52b5f6b2fd3a4a7eaaedf1a7c019e9ea"
	ZoneA        = "0f1c6c8e2c3a4f0fa9a2f7a3a7a6c001"
	ZoneB        = "0f1c6c8e2c3a4f0fa9a2f7a3a7a6c002"
	VLAN         = "166fa87362c8498f8c4aa6d1c5b9042c"
	OtherVLAN    = "2b7d0a6e1f9c4c0e8f5d3a4b6c7d8e9f"
	Prefix       = "791e8c171e654b459a7fcbbc07675cf3"
	PublicPrefix = "5c1f0a7b3d2e4f6a8b9c0d1e2f3a4b5c"
	// FullPrefix has no free address.
	FullPrefix = "9f8e7d6c5b4a39281706f5e4d3c2b1a0"
	Template   = "Flatcar Linux Stable"
	// TemplateNew, TemplateOld and TemplateOdd are the builds b74, b9 and beta of Template.
	TemplateNew = "26a47eee-dc9a-4eea-b67a-8fb1baa2fcc0"
	TemplateOld = "b21b8b77-30e3-478a-9b6d-1f61d29e9f9a"
	TemplateOdd = "9d863fd9-d0d3-4959-b226-e73192f3e43d"
)

// Options are what a test may change.
type Options struct {
	// TaskReads is how often the progress of a task is read until it is over; reads of a virtual machine count for its removal.
	TaskReads int
	// ListDelay is in how many lists and searches a new virtual machine is missing, InfoDelay how many direct reads do not show
	// it.
	ListDelay, InfoDelay int
	// AddressDelay is how many direct reads that show a new virtual machine show none of its addresses.
	AddressDelay int
	// PageSize is the most that a page has, whatever is requested; zero is no limit.
	PageSize int
	// HideRemoved hides a virtual machine from lists and reads while its removal runs.
	HideRemoved bool
	// WholeNames makes a search find whole names only, with the number of the customer.
	WholeNames bool
	// RepeatRemovals makes the Engine accept a second removal, which it refuses otherwise.
	RepeatRemovals bool
	// TakeAddresses gives each address that is reserved to another client at once.
	TakeAddresses bool
	// Faults returns the fault of a request that has no other; nil is none.
	Faults func(changes bool) (Fault, bool)
	// Now is the time; nil is the real one.
	Now func() time.Time
}

// Cloud is an Engine with one account.
type Cloud struct {
	options Options

	mu        sync.Mutex
	number    int
	vms       map[string]*machine
	tasks     map[string]*task
	addresses map[string]*address
	faults    []Fault
	calls     map[string]int
	changes   int
	hide      bool
	failures  []Failure
	unnamed   []string
	bad       []string
}

// Fault is what happens to the next request that it matches.
type Fault struct {
	// Operation is the method and the path up to .json, such as POST /api/vsphere/v1/provisioning/vm.json. Empty matches every request, or
	// every one that changes something where the answer is lost.
	Operation string
	// Status is the answer; zero carries the request out and loses the answer.
	Status int
	// Foreign makes the answer that of a program before the Engine.
	Foreign bool
	// Pause is the header Retry-After; empty without.
	Pause string
}

// Failure is how a provisioning fails.
type Failure struct {
	// Status is the status of the task, -1 or 3; Errors are its errors.
	Status string
	Errors []string
	// Complete is true if the task is complete nevertheless, and names its virtual machine.
	Complete bool
	// Leaves is true if the virtual machine exists nevertheless, and Named if the task names it.
	Leaves, Named bool
	// Broken is true if the Engine cannot read what was left.
	Broken bool
}

type machine struct {
	id, name, status, location, template string
	zone                                 string
	networks                             []boundNetwork
	request                              map[string]any
	// unlisted and unread are how many lists and direct reads do not show it.
	unlisted, unread int
	// unaddressed is how many direct reads show no addresses of it.
	unaddressed int
	// broken is true for one whose direct reads fail.
	broken bool
}

type boundNetwork struct{ v4, v6 []string }

type task struct {
	id, vm  string
	reads   int
	removal bool
	// endless is true for a task that never ends.
	endless bool
	failure *Failure
	made    *machine
}

type address struct {
	id, ip, prefix, vlan string
	// until is when a reservation ends; used is the virtual machine that has the address.
	until time.Time
	used  string
}

// New returns an Engine with nothing in it.
func New(options Options) *Cloud {
	if options.Now == nil {
		options.Now = time.Now
	}
	c := &Cloud{options: options, vms: map[string]*machine{}, tasks: map[string]*task{}, addresses: map[string]*address{}, calls: map[string]int{}}
	for i := range 200 {
		c.addAddress(fmt.Sprintf("10.1.%d.%d", i/100, 10+i%100), Prefix, VLAN)
		c.addAddress(fmt.Sprintf("198.51.100.%d", 10+i), PublicPrefix, VLAN)
	}
	return c
}

func (c *Cloud) addAddress(ip, prefix, vlan string) {
	id := c.newID()
	c.addresses[id] = &address{id: id, ip: ip, prefix: prefix, vlan: vlan}
}

func (c *Cloud) newID() string {
	c.number++
	sum := md5.Sum(fmt.Append(nil, c.number)) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])
}

// Fail makes the next requests that match have a fault.
func (c *Cloud) Fail(faults ...Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, faults...)
}

// FailTask makes the next provisioning fail.
func (c *Cloud) FailTask(failure Failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = append(c.failures, failure)
}

// AnswerErrors makes the answer to the next provisioning name errors and no task, with the status of a success.
func (c *Cloud) AnswerErrors(errors ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unnamed = errors
}

// Hide makes the next virtual machine missing from the next lists.
func (c *Cloud) Hide() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hide = true
}

// Stop switches every virtual machine off.
func (c *Cloud) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.vms {
		one.status = "poweredOff"
	}
}

// BreakReads makes the Engine fail to read virtual machines directly, for good.
func (c *Cloud) BreakReads(ids ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		c.vms[id].broken = true
	}
}

// Remove removes every virtual machine, as another client would.
func (c *Cloud) Remove() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.vms {
		c.remove(id)
	}
}

// Add adds a virtual machine of another client.
func (c *Cloud) Add(name string) (id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := &machine{id: c.newID(), name: name, status: "poweredOn", location: Location}
	c.vms[one.id] = one
	return one.id
}

// Requests returns the requests of the virtual machines that exist.
func (c *Cloud) Requests() (all []map[string]any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(c.vms)) {
		if request := c.vms[id].request; request != nil {
			all = append(all, request)
		}
	}
	return all
}

// ImageOf returns the template of a virtual machine.
func (c *Cloud) ImageOf(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.vms[id]; one != nil {
		return one.template
	}
	return ""
}

// Leftovers names everything that stays until it is deleted. A reservation is not among it, because it expires by itself.
func (c *Cloud) Leftovers() (left []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.vms {
		left = append(left, "virtual machine "+one.name+" "+one.id)
	}
	for _, running := range c.tasks {
		if running.made != nil && running.failure == nil {
			left = append(left, "provisioning of "+running.made.name+" "+running.made.id)
		}
	}
	for _, one := range c.addresses {
		if one.used != "" && c.vms[one.used] == nil && !c.isProvisioning(one.used) {
			left = append(left, "address "+one.ip)
		}
	}
	slices.Sort(left)
	return left
}

func (c *Cloud) isProvisioning(vm string) bool {
	for _, running := range c.tasks {
		if running.made != nil && running.made.id == vm {
			return true
		}
	}
	return false
}

// Reserved counts the addresses that are reserved and that no virtual machine has.
func (c *Cloud) Reserved() (count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.addresses {
		if one.used == "" && one.until.After(c.options.Now()) {
			count++
		}
	}
	return count
}

// TakeReserved gives every address that is reserved and that no virtual machine has to another client.
func (c *Cloud) TakeReserved() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.addresses {
		if one.used == "" && one.until.After(c.options.Now()) {
			delete(c.addresses, one.id)
		}
	}
}

// Calls counts the requests by operation, Changes those that may change something.
func (c *Cloud) Calls() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.calls)
}

// Changes counts the requests that may change something.
func (c *Cloud) Changes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes
}

// Violations are the requests that no client of the Engine sends.
func (c *Cloud) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.bad)
}

// advance carries a task out once its progress was read often enough.
func (c *Cloud) advance(running *task) {
	if running.endless {
		return
	}
	if running.reads++; running.reads <= c.options.TaskReads {
		return
	}
	switch {
	case running.removal:
		c.remove(running.vm)
	case running.made == nil:
	case running.failure == nil || running.failure.Leaves:
		running.made.broken = running.failure != nil && running.failure.Broken
		c.vms[running.made.id] = running.made
		running.made = nil
	default:
		c.release(running.made.id)
		running.made = nil
	}
}

func (c *Cloud) over(running *task) bool { return running.reads > c.options.TaskReads }

// Pass carries out every task whose progress nobody reads, as time does.
func (c *Cloud) Pass() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(c.tasks)) {
		if running := c.tasks[id]; !c.over(running) {
			c.advance(running)
		}
	}
}

func (c *Cloud) remove(id string) {
	delete(c.vms, id)
	c.release(id)
}

// release returns the addresses of a virtual machine.
func (c *Cloud) release(vm string) {
	for _, one := range c.addresses {
		if one.used == vm {
			one.used, one.until = "", time.Time{}
		}
	}
}

// find returns the virtual machines that a list shows, and counts the list.
func (c *Cloud) find(matches func(name string) bool) (found []*machine) {
	for _, id := range slices.Sorted(maps.Keys(c.vms)) {
		one := c.vms[id]
		if one.unlisted > 0 {
			one.unlisted--
			continue
		}
		if c.isHidden(id) {
			continue
		}
		if matches(one.name) {
			found = append(found, one)
		}
	}
	return found
}

// isHidden reports whether a virtual machine is not shown because its removal runs.
func (c *Cloud) isHidden(vm string) bool {
	if !c.options.HideRemoved {
		return false
	}
	for _, running := range c.tasks {
		if running.removal && running.vm == vm && !c.over(running) {
			return true
		}
	}
	return false
}

func (c *Cloud) matchesSearch(query string) func(string) bool {
	return func(name string) bool {
		if c.options.WholeNames {
			return name == query
		}
		return strings.Contains(name, query)
	}
}
