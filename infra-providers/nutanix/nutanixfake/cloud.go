// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package nutanixfake is a fake of Nutanix Prism Central that serves version 4 of its API over HTTPS. Requests are decoded into
// the types that Nutanix generates, where an attribute that they do not have is a violation, and answers are encoded from them.
//
// It has the state of Prism Central: every change is a task that is queued, runs and succeeds or fails; it needs an idempotency
// token, and one that was used is answered with its first task; changes of a virtual machine need its entity tag; lists have pages
// and filters, and may be late; names are not unique; a virtual machine is created stopped, and deleted with its disks.
//
// Faults come from a function that is called for every request.
package nutanixfake

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	clusters "github.com/nutanix/ntnx-api-golang-clients/clustermgmt-go-client/v4/models/clustermgmt/v4/config"
	networks "github.com/nutanix/ntnx-api-golang-clients/networking-go-client/v4/models/networking/v4/config"
	tasks "github.com/nutanix/ntnx-api-golang-clients/prism-go-client/v4/models/prism/v4/config"
	"github.com/nutanix/ntnx-api-golang-clients/vmm-go-client/v4/models/vmm/v4/ahv/config"
	"github.com/nutanix/ntnx-api-golang-clients/vmm-go-client/v4/models/vmm/v4/content"
	"k8s.io/utils/ptr"

	"drover.io/infra-providers/driver"
)

// Fault is the failure of a request.
type Fault struct {
	// Status and Group are the answer; zero means no fault.
	Status int
	Group  string
	// RetryAfter is a header of the answer.
	RetryAfter string
	// Lost breaks the connection off after the request took effect.
	Lost bool
	// Task is the group of errors with which the task of a creation fails, and Start that of a start.
	Task  string
	Start string
	// Removal is that of a deletion, or of a detachment of a volume group.
	Removal string
	// LeavesVM keeps the virtual machine of a creation that fails.
	LeavesVM bool
	// creation makes it the fault of a creation.
	creation bool
}

// Options configure the fake.
type Options struct {
	// Faults returns the fault of a request, such as POST vms; nil means none.
	Faults func(method string) Fault
	// TaskRequests is the number of requests after which a task ends; it runs before the last.
	TaskRequests int
	// TaskLength returns the number for an operation, such as CreateVm; nil means TaskRequests.
	TaskLength func(operation string) int
	// ListDelay is the number of lists that omit what is new.
	ListDelay int
	// Now is the clock; nil means the real one.
	Now func() time.Time
	// Version is that of the API, such as v4.2; empty means v4.2, and "none" none.
	Version string
	// ReportsDoubles makes a second virtual machine with the same description, which identifies its machine, a violation.
	ReportsDoubles bool
	// ForgetsRequests makes a token that was used mean nothing, as after Prism Central has forgotten it.
	ForgetsRequests bool
}

// virtualMachine is a virtual machine and what the API does not show of it.
type virtualMachine struct {
	config.Vm
	version int
	// hidden is how many lists omit it.
	hidden int
}

// task is a task and its effect.
type task struct {
	id, operation, entity string
	// left is the number of requests until it ends.
	left               int
	total              int
	created, completed time.Time
	fails              string
	effect             func(t *task)
	ended              bool
}

// Cloud is the fake.
type Cloud struct {
	options Options

	mu         sync.Mutex
	clusters   []clusters.Cluster
	subnets    []networks.Subnet
	containers []clusters.StorageContainer
	images     []content.Image
	categories []tasks.Category
	vms        map[string]*virtualMachine
	// order are the IDs of virtual machines, the oldest first.
	order []string
	// groups are the volume groups, with the virtual machine that each is attached to.
	groups map[string]string
	tasks  map[string]*task
	// unended are the tasks that have not ended, and some that have, the oldest first.
	unended  []*task
	requests map[string]string
	next     []Fault
	nextHide int
	serial   int

	counts     map[string]int
	resets     int
	violations []string
	sent       []json.RawMessage
}

// New returns a Prism Central with three clusters.
func New(options Options) *Cloud {
	if options.Faults == nil {
		options.Faults = func(string) Fault { return Fault{} }
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.TaskLength == nil {
		options.TaskLength = func(string) int { return options.TaskRequests }
	}
	if options.Version == "" {
		options.Version = "v4.2"
	}
	c := &Cloud{options: options, vms: map[string]*virtualMachine{}, groups: map[string]string{}, tasks: map[string]*task{}, requests: map[string]string{}, counts: map[string]int{}}
	c.fill()
	return c
}

// FailNext makes the next request fail, or the next change where the answer is lost, or the next creation, start or removal.
func (c *Cloud) FailNext(fault Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = append(c.next, fault)
}

// RefuseNextCreation makes the next creation of a virtual machine fail.
func (c *Cloud) RefuseNextCreation(fault Fault) {
	fault.creation = true
	c.FailNext(fault)
}

// HideNext makes lists omit the next virtual machine.
func (c *Cloud) HideNext(lists int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextHide = lists
}

// Advance ends all tasks, and makes lists complete.
func (c *Cloud) Advance() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range 3 {
		for _, t := range c.running() {
			t.left = 0
			c.end(t)
		}
	}
	for _, vm := range c.vms {
		vm.hidden = 0
	}
}

// running returns the tasks that have not ended, the oldest first.
func (c *Cloud) running() []*task {
	c.unended = slices.DeleteFunc(c.unended, func(t *task) bool { return t.ended })
	return slices.Clone(c.unended)
}

// ForgetTasks deletes all tasks that have ended, and the tokens with them.
func (c *Cloud) ForgetTasks() {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.tasks, func(_ string, t *task) bool { return t.ended })
	maps.DeleteFunc(c.requests, func(_, id string) bool { return c.tasks[id] == nil })
}

// Age makes all tasks older.
func (c *Cloud) Age(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.tasks {
		t.created, t.completed = t.created.Add(-by), t.completed.Add(-by)
	}
}

// Counts returns the number of requests by method.
func (c *Cloud) Counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

// Changes counts the requests that change something.
func (c *Cloud) Changes() (n int) {
	for method, count := range c.Counts() {
		if IsChange(method) {
			n += count
		}
	}
	return n
}

// IsChange reports whether a method changes something.
func IsChange(method string) bool {
	return !strings.HasPrefix(method, "GET ") && !strings.HasPrefix(method, "OPTIONS ")
}

// Violations are the requests that violated a rule of the API.
func (c *Cloud) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations)
}

func (c *Cloud) violate(format string, values ...any) {
	c.violations = append(c.violations, fmt.Sprintf(format, values...))
}

// Requests returns the requests for virtual machines, as they were sent.
func (c *Cloud) Requests() []json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.sent)
}

// Leftovers names the virtual machines of Drover.
func (c *Cloud) Leftovers() (left []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range c.order {
		if strings.Contains(ptr.Deref(c.vms[id].Description, ""), driver.TagMachineUID) {
			left = append(left, "virtual machine "+id)
		}
	}
	return left
}

// VM returns a virtual machine, or nil.
func (c *Cloud) VM(id string) *config.Vm {
	c.mu.Lock()
	defer c.mu.Unlock()
	if vm, ok := c.vms[id]; ok {
		return &vm.Vm
	}
	return nil
}

// ImageOf returns the ID of the image of a virtual machine.
func (c *Cloud) ImageOf(id string) string {
	vm := c.VM(id)
	if vm == nil || len(vm.Disks) == 0 {
		return ""
	}
	disk, _ := vm.Disks[0].BackingInfo.GetValue().(config.VmDisk)
	image, _ := disk.DataSource.Reference.GetValue().(config.ImageReference)
	return ptr.Deref(image.ImageExtId, "")
}

// Stop stops all virtual machines, as another client would.
func (c *Cloud) Stop() { c.SetPower(config.POWERSTATE_OFF) }

// SetPower sets the power state of all virtual machines.
func (c *Cloud) SetPower(state config.PowerState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, vm := range c.vms {
		vm.PowerState = &state
		vm.version++
	}
}

// Remove deletes a virtual machine, as another client would.
func (c *Cloud) Remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(id)
}

// Replace deploys Prism Central anew at the same address and with the same credentials. No cluster is registered there yet.
func (c *Cloud) Replace() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial++
	c.clusters = slices.Clone(c.clusters[:1])
	c.clusters[0].ExtId = ptr.To(uuid(clusterKind, 1000+c.serial))
	c.subnets, c.containers, c.images, c.categories, c.order = nil, nil, nil, nil, nil
	clear(c.vms)
	clear(c.groups)
	clear(c.tasks)
	c.unended = nil
	clear(c.requests)
}

// DeleteCategories deletes the categories of a key.
func (c *Cloud) DeleteCategories(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.categories = slices.DeleteFunc(c.categories, func(known tasks.Category) bool { return *known.Key == key })
}

// Clone copies a virtual machine with its description, as another client would.
func (c *Cloud) Clone(id, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial++
	vm := &virtualMachine{Vm: c.vms[id].Vm, version: 1}
	vm.ExtId, vm.Name, vm.CreateTime = ptr.To(uuid(vmKind, c.serial)), &name, ptr.To(vm.CreateTime.Add(time.Second))
	c.vms[*vm.ExtId] = vm
	c.order = append(c.order, *vm.ExtId)
}

// Resets counts how often virtual machines were reset.
func (c *Cloud) Resets() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resets
}

// Attach attaches a volume group to a virtual machine, as the CSI driver does, and returns a function that reports whether it
// still exists, and removes it.
func (c *Cloud) Attach(id string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial++
	group := uuid(groupKind, c.serial)
	c.attach(id, group)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, exists := c.groups[group]
		delete(c.groups, group)
		return exists
	}
}

// AttachGroup attaches a volume group of any ID to a virtual machine, as a server that is none of Nutanix's may show one.
func (c *Cloud) AttachGroup(id, group string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attach(id, group)
}

// Reattach attaches the volume groups that are attached to nothing to a virtual machine.
func (c *Cloud) Reattach(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for group, vm := range c.groups {
		if vm == "" {
			c.serial++
			c.attach(id, group)
		}
	}
}

func (c *Cloud) attach(id, group string) {
	c.groups[group] = id
	reference := config.NewADSFVolumeGroupReference()
	reference.VolumeGroupExtId = &group
	disk := config.NewDisk()
	disk.ExtId = ptr.To(uuid(diskKind, c.serial))
	if err := disk.SetBackingInfo(*reference); err != nil {
		panic(err)
	}
	vm := c.vms[id]
	vm.Disks = append(vm.Disks, *disk)
	vm.version++
}

// Untag removes tags from the description of a virtual machine, and returns a function that reports whether it still exists, and
// removes it.
func (c *Cloud) Untag(id string, tags ...string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	vm := c.vms[id]
	found := map[string]string{}
	if err := json.Unmarshal([]byte(*vm.Description), &found); err != nil {
		panic(err)
	}
	for _, tag := range tags {
		delete(found, tag)
	}
	text, err := json.Marshal(found)
	if err != nil {
		panic(err)
	}
	vm.Description = ptr.To(string(text))
	vm.version++
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, exists := c.vms[id]
		c.remove(id)
		return exists
	}
}

func (c *Cloud) remove(id string) {
	delete(c.vms, id)
	c.order = slices.DeleteFunc(c.order, func(known string) bool { return known == id })
}

func (c *Cloud) addCategory(key, value string) *tasks.Category {
	c.serial++
	category := tasks.NewCategory()
	category.ExtId, category.Key, category.Value = ptr.To(uuid(categoryKind, c.serial)), &key, &value
	category.Type = tasks.CATEGORYTYPE_USER.Ref()
	c.categories = append(c.categories, *category)
	return category
}
