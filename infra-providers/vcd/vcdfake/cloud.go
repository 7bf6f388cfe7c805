// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package vcdfake is a VMware Cloud Director in memory, behind HTTP: an organization with a VDC, vApps, a catalog and what a tenant
// does with them. Requests and answers are the XML types of the SDK; a request that has anything else in it is a violation. All
// that changes is a task, which locks what it works on, ends some requests later and may fail; lists may be late and have pages.
//
// Nothing vouches for it: there is no description of the API that could be run against it. What is not known of Cloud Director is an
// option, so that the driver is tested with both.
package vcdfake

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/go-vcloud-director/v3/types/v56"
)

// What the cloud has.
const (
	Organization    = "acme"
	User            = "drover"
	Password        = "secret"
	APIToken        = "api-token"
	VDC             = "acme-vdc"
	VApp            = "workers"
	OtherVApp       = "others"
	Catalog         = "images"
	SharedCatalog   = "shared"
	Template        = "ubuntu-24.04"
	PairTemplate    = "pair"
	Network         = "nodes"
	StorageProfile  = "gold"
	SizingPolicy    = "small"
	PlacementPolicy = "zone-a"
	OtherPlacement  = "zone-b"
)

// publicURL is the one that is in answers. Nothing answers there.
const publicURL = "https://vcd.example.com"

// Options are the settings of the cloud. The zero value has tasks that end with the next request.
type Options struct {
	// TaskRequests is for how many requests a task is in progress.
	TaskRequests int
	// LateChildren is true for a vApp that has a virtual machine only once its creation has ended.
	LateChildren bool
	// KeepFailed is true for a vApp that keeps a virtual machine whose creation failed.
	KeepFailed bool
	// KeepProperties is true for OVF properties of the template that stay when others are set.
	KeepProperties bool
	// ShortLists is true for lists whose last pages are empty, as of a Director that loses a part of a list.
	ShortLists bool
	// IgnoreIOPS is true for a storage profile that accepts limits of disks and has none.
	IgnoreIOPS bool
	// IgnoreCores is true for a sizing policy that determines the cores of a socket.
	IgnoreCores bool
	// LateHardware is how many reads of a virtual machine show its old hardware after that was set.
	LateHardware int
	// IgnoreProperties is true for OVF properties that are accepted and not kept.
	IgnoreProperties bool
	// Memory is true for templates that have the memory of what they were captured from: a virtual machine of one is suspended.
	Memory bool
	// Ineffective returns whether the next task of an operation ends without effect.
	Ineffective func(operation string) bool
	// FailTasks returns whether the next task of an operation fails.
	FailTasks func(operation string) bool
	// Faults returns the fault of a request.
	Faults func(change bool) Fault
}

// Fault is what happens to a request. The zero value is nothing.
type Fault struct {
	Status        int
	Code, Message string
	Headers       map[string]string
	// Lost is true for a request that is carried out and whose answer is lost.
	Lost bool
	// Operation is the only one that has the fault; empty for any.
	Operation string
}

// Cloud is an http.Handler.
type Cloud struct {
	options Options

	mu sync.Mutex
	// requests counts all of them, which is the time of the tasks.
	requests, changes, resets int
	counts                    map[string]int
	nextFaults                []Fault
	violations                []string
	sessions                  map[string]bool
	vms                       map[string]*vm
	vApps                     map[string]*vApp
	disks                     map[string]string
	tasks                     []*task
	ids                       map[string]string
	policies                  []*types.VdcComputePolicyV2
	addresses                 int
	// hide is how many of the next lists do not have what is created next.
	hide int
}

// vm is a virtual machine.
type vm struct {
	types.Vm
	id, vApp, template string
	metadata           map[string]string
	properties         *types.ProductSection
	hidden             int
	// before is the hardware that the next late reads show.
	before *types.VmSpecSection
	late   int
}

type vApp struct{ id, name, description string }

// task is a change in progress or ended.
type task struct {
	types.Task
	id    string
	due   int
	locks []string
	// shownBy are those of the locks under which the task is shown.
	shownBy []string
	end     func(failed bool)
	fails   bool
}

// New returns a cloud.
func New(options Options) *Cloud {
	if options.Faults == nil {
		options.Faults = func(bool) Fault { return Fault{} }
	}
	if options.FailTasks == nil {
		options.FailTasks = func(string) bool { return false }
	}
	if options.Ineffective == nil {
		options.Ineffective = func(string) bool { return false }
	}
	c := &Cloud{
		options: options, counts: map[string]int{}, sessions: map[string]bool{}, vms: map[string]*vm{}, vApps: map[string]*vApp{},
		disks: map[string]string{}, ids: map[string]string{},
	}
	for _, name := range []string{VApp, OtherVApp} {
		c.vApps[c.id("vApp "+name)] = &vApp{id: c.id("vApp " + name), name: name, description: "of " + name}
	}
	size := func(n int) *int { return &n }
	c.policies = []*types.VdcComputePolicyV2{
		c.policy("System Default", true, nil, nil), c.policy(SizingPolicy, true, size(2), size(4096)), c.policy("open", true, nil, nil),
		c.policy(PlacementPolicy, false, nil, nil), c.policy(OtherPlacement, false, nil, nil),
	}
	return c
}

// id returns the UUID of something that the cloud has from the start.
func (c *Cloud) id(name string) string {
	if c.ids[name] == "" {
		c.ids[name] = uuid.NewSHA1(uuid.NameSpaceURL, []byte(name)).String()
	}
	return c.ids[name]
}

func (c *Cloud) policy(name string, sizing bool, cpus, memory *int) *types.VdcComputePolicyV2 {
	return &types.VdcComputePolicyV2{PolicyType: "VdcVmPolicy", VdcComputePolicy: types.VdcComputePolicy{
		ID: "urn:vcloud:vdcComputePolicy:" + c.id("policy "+name), Name: name, IsSizingOnly: sizing, CPUCount: cpus, Memory: memory,
	}}
}

// Counts returns how often each operation was requested.
func (c *Cloud) Counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := map[string]int{}
	for operation, n := range c.counts {
		counts[operation] = n
	}
	return counts
}

// Requests returns how many requests there were.
func (c *Cloud) Requests() int { c.mu.Lock(); defer c.mu.Unlock(); return c.requests }

// Changes counts the requests that change something.
func (c *Cloud) Changes() int { c.mu.Lock(); defer c.mu.Unlock(); return c.changes }

// Resets counts the restarts of virtual machines.
func (c *Cloud) Resets() int { c.mu.Lock(); defer c.mu.Unlock(); return c.resets }

// Violations returns what of the requests no type of the SDK has, or was sent to no operation.
func (c *Cloud) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations)
}

// FailNext adds a fault of the next request that it fits.
func (c *Cloud) FailNext(fault Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextFaults = append(c.nextFaults, fault)
}

// HideNext hides what is created next from a number of lists.
func (c *Cloud) HideNext(lists int) { c.mu.Lock(); defer c.mu.Unlock(); c.hide = lists }

// Advance ends the tasks that are in progress.
func (c *Cloud) Advance() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests += c.options.TaskRequests + 1
	c.endTasks()
}

// EndSessions ends all sessions.
func (c *Cloud) EndSessions() { c.mu.Lock(); defer c.mu.Unlock(); clear(c.sessions) }

// ApplyAll has the cloud apply everything that is requested from now on.
func (c *Cloud) ApplyAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.options.IgnoreIOPS, c.options.IgnoreCores, c.options.IgnoreProperties = false, false, false
	c.options.Ineffective = func(string) bool { return false }
}

// Leftovers names the virtual machines that exist, but for those that others made.
func (c *Cloud) Leftovers() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, found := range c.vms {
		all = append(all, found.Name+" "+id)
	}
	return all
}

// TemplateOf returns the ID of the template that a virtual machine was made of.
func (c *Cloud) TemplateOf(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.vms[id].template
}

// VM returns a virtual machine, with its metadata and OVF properties.
func (c *Cloud) VM(id string) (found types.Vm, metadata, properties map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	properties = map[string]string{}
	if section := c.vms[id].properties; section != nil {
		for _, property := range section.Property {
			properties[property.Key] = property.Value.Value
		}
	}
	return c.vms[id].Vm, c.vms[id].metadata, properties
}

// Stop switches all virtual machines off, as another client would.
func (c *Cloud) Stop() { c.leave(statusOff, false) }

// ShutDown ends all guests from inside: what they ran in stays deployed.
func (c *Cloud) ShutDown() { c.leave(statusPartlyOff, true) }

// Suspend suspends all virtual machines, as the end of a runtime lease does. One that stays deployed is partly suspended.
func (c *Cloud) Suspend(deployed bool) {
	if deployed {
		c.leave(statusPartlySuspended, true)
		return
	}
	c.leave(statusSuspended, false)
}

// leave gives those virtual machines another status that are on.
func (c *Cloud) leave(status int, deployed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, found := range c.vms {
		if found.Status == statusOn {
			found.Status, found.Deployed = status, deployed
		}
	}
}

// Attach attaches an independent disk of another owner to a virtual machine, and returns a function that reports whether it
// exists, apart from the virtual machine, and then removes it.
func (c *Cloud) Attach(id string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	disk := uuid.NewString()
	c.disks[disk] = id
	section := c.vms[id].VmSpecSection.DiskSection
	section.DiskSettings = append(section.DiskSettings, &types.DiskSettings{
		DiskId: "2016", SizeMb: 1024, UnitNumber: 1, AdapterType: "5", Disk: &types.Reference{HREF: publicURL + "/api/disk/" + disk, Name: "pvc-1"},
	})
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		of, there := c.disks[disk]
		delete(c.disks, disk)
		return there && of == ""
	}
}

// Untag removes metadata from a virtual machine, and returns a function that reports whether it exists and then removes it.
func (c *Cloud) Untag(id string, tags ...string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, tag := range tags {
		delete(c.vms[id].metadata, strings.Replace(tag, "/", ".", 1))
	}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		found, there := c.vms[id]
		delete(c.vms, id)
		return there && found.Status == statusOn
	}
}

// Move moves a virtual machine to another vApp, as another client would.
func (c *Cloud) Move(id, to string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vms[id].vApp = c.id("vApp " + to)
}

// RemoveVApp deletes a vApp with what is in it, and creates an empty one of its name if again is true.
func (c *Cloud) RemoveVApp(name string, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, found := range c.vms {
		if found.vApp == c.id("vApp "+name) {
			delete(c.vms, id)
		}
	}
	delete(c.vApps, c.id("vApp "+name))
	if again {
		id := uuid.NewString()
		c.ids["vApp "+name] = id
		c.vApps[id] = &vApp{id: id, name: name}
	}
}

// The statuses of a virtual machine.
const (
	statusFailed     = -1
	statusUnresolved = 0
	statusSuspended  = 3
	statusOn         = 4
	statusOff        = 8

	statusPartlyOff       = 20
	statusPartlySuspended = 21
)

// metadataUpdate is the operation that writes metadata.
const metadataUpdate = "metadataUpdate"

// work is what a task works on: it locks shownBy and others, and is shown by the former.
type work struct {
	owner   string
	shownBy []string
	others  []string
}

// start begins a task. It is refused while another one has one of its locks.
func (c *Cloud) start(operation string, on work, end func(failed bool)) (*types.Task, error) {
	locks := slices.Concat(on.shownBy, on.others)
	for _, lock := range locks {
		if other := c.lockedBy(lock); other != nil {
			return nil, refuse(400, "BUSY_ENTITY", "The entity %s is busy completing an operation %s. %s(com.vmware.vcloud.entity.task:%s)", lock, other.OperationName, other.OperationName, other.id)
		}
	}
	id := uuid.NewString()
	started := &task{id: id, due: c.requests + c.options.TaskRequests, locks: locks, shownBy: on.shownBy, end: end, fails: c.options.FailTasks(operation)}
	started.Task = types.Task{
		HREF: publicURL + "/api/task/" + id, ID: "urn:vcloud:task:" + id, Name: "task", Status: "running", Operation: "Operation " + operation,
		OperationName: operation, StartTime: time.Unix(0, 0).UTC().Format(time.RFC3339), Owner: &types.Reference{HREF: on.owner}, Type: types.MimeTask,
		// As recorded: a task in progress may have an error that is none.
		Error: &types.Error{Message: "The task is still in progress.", MajorErrorCode: 500, MinorErrorCode: "INTERNAL_SERVER_ERROR"},
	}
	if operation == metadataUpdate {
		started.due = c.requests // it changes nothing in vSphere
	}
	c.tasks = append(c.tasks, started)
	shown := started.Task
	return &shown, nil
}

func (c *Cloud) lockedBy(lock string) *task {
	for _, t := range c.tasks {
		if t.Status == "running" && slices.Contains(t.locks, lock) {
			return t
		}
	}
	return nil
}

// endTasks ends the tasks that are due, the oldest first.
func (c *Cloud) endTasks() {
	for _, t := range c.tasks {
		if t.Status != "running" || t.due >= c.requests {
			continue
		}
		t.Status, t.Error, t.Progress = "success", nil, 100
		if t.fails {
			t.Status = "error"
			t.Error = &types.Error{MajorErrorCode: 500, MinorErrorCode: "INTERNAL_SERVER_ERROR", Message: fmt.Sprintf("[ %s ] The operation %s failed.", uuid.NewString(), t.OperationName)}
		}
		if t.fails || !c.options.Ineffective(t.OperationName) {
			t.end(t.fails)
		}
	}
}

// tasksOf returns the tasks that are shown by something, and one that ended.
func (c *Cloud) tasksOf(lock string) *types.TasksInProgress {
	found := &types.TasksInProgress{}
	var ended *types.Task
	for _, t := range c.tasks {
		if !slices.Contains(t.shownBy, lock) {
			continue
		}
		shown := t.Task
		if t.Status == "running" {
			found.Task = append(found.Task, &shown)
		} else {
			ended = &shown
		}
	}
	if ended != nil {
		found.Task = append(found.Task, ended)
	}
	if len(found.Task) == 0 {
		return nil
	}
	return found
}
