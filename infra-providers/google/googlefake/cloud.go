// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package googlefake is a fake of Compute Engine that serves its REST API over HTTP, for tests with the real SDK. It has the
// state of Compute Engine: an insertion is an operation that is pending, runs and ends, possibly without capacity; instances
// start and stop slowly, are created with their disks, and lists have them late; a repeated request ID is answered with
// the first operation. Every request and every answer is checked against Google's discovery document in package discovery.
//
// Faults come from a function that is called for every request.
package googlefake

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	compute "google.golang.org/api/compute/v1"

	"drover.io/infra-providers/google/googlefake/discovery"
)

// The contents of a new cloud.
const (
	Project = "drover-test"
	ZoneA   = "europe-west3-a"
	ZoneB   = "europe-west3-b"
	// NoCapacity is a machine type that no zone has capacity for.
	NoCapacity = "n4-highmem-80"
	// ImageProject has the images.
	ImageProject = "ubuntu-os-cloud"
	Family       = "ubuntu-2404-lts-amd64"
	Image        = "ubuntu-2404-noble-amd64-v2"
	// ObsoleteImage is still returned by its name.
	ObsoleteImage = "ubuntu-2404-noble-amd64-v0"
	Subnetwork    = "nodes"
	ServiceUser   = "drover@drover-test.iam.gserviceaccount.com"
)

// Fault is the failure of a call.
type Fault struct {
	// Status and Reason are the answer; an empty Reason means no fault.
	Status     int
	Reason     string
	Message    string
	RetryAfter string
	// Lost closes the connection after the call took effect, instead of answering.
	Lost bool
	// Operation is the code with which the operation of an insertion ends.
	Operation string
	// LeavesDisks keeps the disks of such an insertion.
	LeavesDisks bool
}

// Options configure the fake.
type Options struct {
	// Faults returns the fault of a call of a method; nil means none.
	Faults func(method string) Fault
	// ListDelay is the number of lists that omit a new instance or disk.
	ListDelay int
	// OperationReads and StoppingReads are the numbers of reads after which an insertion and a deletion proceed.
	OperationReads, StoppingReads int
}

// Cloud is the fake.
type Cloud struct {
	options  Options
	document *discovery.Document
	began    time.Time
	key      *rsa.PrivateKey

	mu         sync.Mutex
	serial     uint64
	hide       int
	nextFaults []Fault
	instances  map[string]*instance
	disks      map[string]*disk
	operations map[string]*operation
	byRequest  map[string]*operation
	counts     map[string]int
	violations []string
	requests   []*compute.Instance
	requestIDs []string
	resets     int
	output     string
	newest     string
	// lost is the zone that lists lack, with a warning of a code; unnamed is true for a warning that is not the zone's.
	lost, warning string
	unnamed       bool
}

// instance is an instance and its reads until it proceeds, and the lists that omit it.
type instance struct {
	*compute.Instance
	wait, hidden int
	insertion    *operation
}

type disk struct {
	*compute.Disk
	hidden int
}

// operation is an operation. An insertion proceeds with its instance.
type operation struct {
	*compute.Operation
	instance *instance
	fault    Fault
}

// sharedKey is the key of the service account: to make one takes a while.
var sharedKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// New returns a cloud with a few images and machine types.
func New(options Options) (*Cloud, error) {
	document, err := discovery.Load()
	if err != nil {
		return nil, err
	}
	key, err := sharedKey()
	if err != nil {
		return nil, err
	}
	if options.Faults == nil {
		options.Faults = func(string) Fault { return Fault{} }
	}
	return &Cloud{
		options:    options,
		document:   document,
		began:      time.Now().UTC().Truncate(time.Second),
		key:        key,
		instances:  map[string]*instance{},
		disks:      map[string]*disk{},
		operations: map[string]*operation{},
		byRequest:  map[string]*operation{},
		counts:     map[string]int{},
		newest:     Image,
	}, nil
}

// FailNext makes the next call fail, or the next call that changes something where the answer is lost, or the next insertion.
func (c *Cloud) FailNext(fault Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextFaults = append(c.nextFaults, fault)
}

// HideNext omits the next instance and its disks from a number of lists.
func (c *Cloud) HideNext(lists int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hide = lists
}

// Advance has the effect of one read on everything that lists omit.
func (c *Cloud) Advance() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.instances {
		i.hidden = max(0, i.hidden-1)
	}
	for _, d := range c.disks {
		d.hidden = max(0, d.hidden-1)
	}
}

// ForgetRequests forgets the request IDs, as Compute Engine does after a while.
func (c *Cloud) ForgetRequests() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byRequest = map[string]*operation{}
}

// Counts returns how often each method was called.
func (c *Cloud) Counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

// Changes returns how often methods were called that change something.
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
	_, verb, _ := strings.Cut(method, ".")
	return slices.Contains([]string{"insert", "delete", "reset", "setLabels", "setDiskAutoDelete"}, verb)
}

// Violations returns the violations of the discovery document by requests and by answers.
func (c *Cloud) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations)
}

// Requests returns every instance that was requested so far, and the request IDs.
func (c *Cloud) Requests() ([]*compute.Instance, []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests), slices.Clone(c.requestIDs)
}

// Leftovers returns what exists: instances and disks.
func (c *Cloud) Leftovers() (left []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.instances {
		left = append(left, "instance "+key)
	}
	for key := range c.disks {
		left = append(left, "disk "+key)
	}
	slices.Sort(left)
	return left
}

// ImageOf returns the image that an instance was created from.
func (c *Cloud) ImageOf(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.disks {
		if d.Name == name {
			return d.SourceImage
		}
	}
	return ""
}

// Preempt stops all instances as Compute Engine does when it needs the capacity of Spot VMs.
func (c *Cloud) Preempt() { c.stop("compute.instances.preempted") }

// Stop stops all instances as an operator would.
func (c *Cloud) Stop() { c.stop("stop") }

func (c *Cloud) stop(operationType string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.instances {
		i.Status, i.LastStopTimestamp = "TERMINATED", c.now()
		c.newOperation(operationType, i.Zone, i.SelfLink, i.Id).Status = done
	}
}

// Write replaces the output on the consoles of all instances.
func (c *Cloud) Write(output string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.output = output
}

// Resets returns the number of resets of instances.
func (c *Cloud) Resets() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resets
}

// Attach attaches a disk without labels to an instance, which would be deleted with it, and returns a function that
// reports whether the disk still exists and then removes it.
func (c *Cloud) Attach(key string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	to := c.instances[key]
	made := c.newDisk(to.Instance, "pvc-"+to.Name, nil)
	to.Disks = append(to.Disks, &compute.AttachedDisk{Type: persistent, Source: made.SelfLink, DeviceName: made.Name, AutoDelete: true, Mode: "READ_WRITE"})
	return c.remover(diskKey(made.Disk))
}

// CopyLabels creates a disk with the labels of an instance, attached to none, and returns what Attach does.
func (c *Cloud) CopyLabels(key string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.instances[key]
	made := c.newDisk(from.Instance, "pvc-"+from.Name, from.Labels)
	made.Users = nil
	return c.remover(diskKey(made.Disk))
}

// AttachCopy attaches a disk with the labels of an instance to it, which is deleted with it or kept, and returns what Attach does.
func (c *Cloud) AttachCopy(key string, autoDelete bool) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	to := c.instances[key]
	made := c.newDisk(to.Instance, "pvc-"+to.Name, to.Labels)
	to.Disks = append(to.Disks, &compute.AttachedDisk{Type: persistent, Source: made.SelfLink, DeviceName: made.Name, AutoDelete: autoDelete, Mode: "READ_WRITE"})
	return c.remover(diskKey(made.Disk))
}

func (c *Cloud) remover(name string) func() bool {
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, exists := c.disks[name]
		delete(c.disks, name)
		return exists
	}
}

// Untag removes labels from an instance and its disks, and returns a function that reports whether all of it still exists
// and then removes it.
func (c *Cloud) Untag(key string, labels ...string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := []string{}
	for name, d := range c.disks {
		if slices.Contains(d.Users, c.instances[key].SelfLink) {
			names = append(names, name)
			maps.DeleteFunc(d.Labels, func(label, _ string) bool { return slices.Contains(labels, label) })
		}
	}
	maps.DeleteFunc(c.instances[key].Labels, func(label, _ string) bool { return slices.Contains(labels, label) })
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, exist := c.instances[key]
		for _, name := range names {
			_, one := c.disks[name]
			exist = exist && one
			delete(c.disks, name)
		}
		delete(c.instances, key)
		return exist
	}
}

// Labels returns the values of a label of everything that exists.
func (c *Cloud) Labels(key string) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]string{}
	for name, i := range c.instances {
		all["instance "+name] = i.Labels[key]
	}
	for name, d := range c.disks {
		if !strings.HasPrefix(d.Name, "pvc-") {
			all["disk "+name] = d.Labels[key]
		}
	}
	return all
}

// Disconnect makes a zone unreachable for lists; none for an empty name.
func (c *Cloud) Disconnect(zone string) { c.Omit(zone, "UNREACHABLE") }

// Omit makes lists lack a zone, with a warning of a code.
func (c *Cloud) Omit(zone, warning string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost, c.warning, c.unnamed = zone, warning, false
}

// OmitUnnamed makes lists lack a zone, with a warning of a code that does not name it.
func (c *Cloud) OmitUnnamed(zone, warning string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost, c.warning, c.unnamed = zone, warning, true
}

// Publish adds a newer image to the family.
func (c *Cloud) Publish(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest = name
}

func (c *Cloud) now() string {
	return c.began.Add(time.Duration(c.serial) * time.Second).Format(time.RFC3339) //nolint:gosec // it is small
}

func (c *Cloud) next() uint64 {
	c.serial++
	return 1000000 + c.serial
}

func url(format string, values ...any) string {
	return fmt.Sprintf("https://www.googleapis.com/compute/v1/projects/"+Project+"/"+format, values...)
}
