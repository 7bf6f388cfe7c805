// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package yandexfake is a fake of Yandex Cloud that serves its API over gRPC: it implements the generated server interfaces of
// Compute Cloud, operations, Resource Manager and IAM. It has the state of Compute Cloud: a creation is an operation that runs
// and ends, possibly without capacity; instances and disks are created and deleted slowly, and lists have both late; a repeated
// idempotency key is answered with the first operation. Every request is checked against the rules that the API states for its
// fields: what is required, patterns, lengths and values.
//
// Faults come from a function that is called for every request.
package yandexfake

import (
	"crypto/rand"
	"crypto/rsa"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/yandex-cloud/go-genproto/yandex/cloud/compute/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// The contents of a new cloud.
const (
	Folder  = "b1gdrovertest0000001"
	ZoneA   = "ru-central1-a"
	ZoneB   = "ru-central1-b"
	SubnetA = "e9bsubnet00000000001"
	SubnetB = "e2lsubnet00000000001"
	// ImageFolder has the images.
	ImageFolder = "standard-images"
	Family      = "ubuntu-2404-lts"
	Image       = "fd8ubuntu0000000001"
	// BrokenImage is in the status ERROR.
	BrokenImage = "fd8broken0000000001"
	// NoCapacity is a platform that no zone has capacity for.
	NoCapacity = "gpu-standard-v3"
	// ServiceAccount has the key.
	ServiceAccount = "ajedrover00000000001"
)

// Fault is the failure of a call.
type Fault struct {
	// Code and Message are the answer; codes.OK means no fault.
	Code    codes.Code
	Message string
	Details []proto.Message
	// Lost answers that the service is unavailable after the call took effect.
	Lost bool
	// Operation is the code with which the operation of the creation of an instance ends.
	Operation codes.Code
	// LeavesInstance keeps the instance of such a creation, in the status ERROR.
	LeavesInstance bool
	// Disk makes Operation that of the creation of a disk.
	Disk bool
}

// Options configure the fake.
type Options struct {
	// Faults returns the fault of a call of a method, such as Instance/Create; nil means none.
	Faults func(method string) Fault
	// ListDelay is the number of lists that omit what is new and have what is gone.
	ListDelay int
	// OperationReads and DeletingReads are the numbers of reads after which a creation and a deletion end.
	OperationReads, DeletingReads int
	// DuplicateNames permits several instances and disks of one name.
	DuplicateNames bool
}

// Cloud is the fake.
type Cloud struct {
	options Options
	began   time.Time
	key     *rsa.PrivateKey

	mu         sync.Mutex
	serial     int
	hide       int
	nextFaults []Fault
	instances  map[string]*instance
	disks      map[string]*disk
	operations map[string]*operationState
	byKey      map[string]*operationState
	// ghosts are what lists still have, and for how many of them.
	ghosts     map[proto.Message]int
	tokens     map[string]bool
	counts     map[string]int
	violations []string
	requests   []*compute.CreateInstanceRequest
	keys       []string
	restarts   int
	output     string
	newest     string
}

// sharedKey is the key of the service account: to make one takes a while.
var sharedKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// New returns a cloud with an image and two subnets.
func New(options Options) (*Cloud, error) {
	key, err := sharedKey()
	if err != nil {
		return nil, err
	}
	if options.Faults == nil {
		options.Faults = func(string) Fault { return Fault{} }
	}
	return &Cloud{
		options: options, began: time.Now().UTC().Truncate(time.Second), key: key,
		instances: map[string]*instance{}, disks: map[string]*disk{}, operations: map[string]*operationState{}, byKey: map[string]*operationState{},
		ghosts: map[proto.Message]int{}, tokens: map[string]bool{}, counts: map[string]int{}, newest: Image,
	}, nil
}

// FailNext makes the next call fail, or the next call that changes something where the answer is lost, or the next creation of
// an instance or a disk.
func (c *Cloud) FailNext(fault Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextFaults = append(c.nextFaults, fault)
}

// HideNext omits the next instance from a number of lists.
func (c *Cloud) HideNext(lists int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hide = lists
}

// Advance has the effect of one list on everything that lists omit or still have.
func (c *Cloud) Advance() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.instances {
		i.hidden = max(0, i.hidden-1)
	}
	for _, d := range c.disks {
		d.hidden = max(0, d.hidden-1)
	}
	for ghost := range c.ghosts {
		c.haunt(ghost)
	}
}

// haunt counts a list that still has what is gone.
func (c *Cloud) haunt(ghost proto.Message) {
	if c.ghosts[ghost]--; c.ghosts[ghost] <= 0 {
		delete(c.ghosts, ghost)
	}
}

// ForgetKeys forgets the idempotency keys, as Yandex Cloud may do after a while.
func (c *Cloud) ForgetKeys() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byKey = map[string]*operationState{}
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

// IsChange reports whether a method changes something in the folder.
func IsChange(method string) bool {
	service, verb, _ := strings.Cut(method, "/")
	return (service == "Instance" || service == "Disk") && slices.Contains([]string{"Create", "Delete", "Restart", "Update", "DetachDisk"}, verb)
}

// Violations returns the violations of the rules of the API.
func (c *Cloud) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations)
}

// Requests returns every instance that was requested so far, and the idempotency keys.
func (c *Cloud) Requests() ([]*compute.CreateInstanceRequest, []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests), slices.Clone(c.keys)
}

// Leftovers returns what exists: instances and disks.
func (c *Cloud) Leftovers() (left []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, i := range c.instances {
		left = append(left, "instance "+i.Name+" "+id)
	}
	for id, d := range c.disks {
		left = append(left, "disk "+d.Name+" "+id)
	}
	slices.Sort(left)
	return left
}

// ImageOf returns the image that an instance was created from.
func (c *Cloud) ImageOf(instanceID string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.disks[c.instances[instanceID].BootDisk.DiskId].GetSourceImageId()
}

// Preempt stops all instances as Compute Cloud does when it needs the capacity of preemptible ones.
func (c *Cloud) Preempt() {
	c.stop(func(id string) proto.Message { return &compute.PreemptInstanceMetadata{InstanceId: id} })
}

// Stop stops all instances as an operator would.
func (c *Cloud) Stop() {
	c.stop(func(id string) proto.Message { return &compute.StopInstanceMetadata{InstanceId: id} })
}

func (c *Cloud) stop(metadata func(id string) proto.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, i := range c.instances {
		i.Status = compute.Instance_STOPPED
		c.newOperation(id, metadata(id)).end(nil, nil)
	}
}

// Break changes the status of an instance.
func (c *Cloud) Break(instanceID string, status compute.Instance_Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.instances[instanceID].Status = status
}

// Move moves all instances to another folder.
func (c *Cloud) Move(folder string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.instances {
		i.FolderId = folder
	}
}

// Write replaces the output on the consoles of all instances.
func (c *Cloud) Write(output string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.output = output
}

// Restarts returns the number of restarts of instances.
func (c *Cloud) Restarts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.restarts
}

// Attach attaches a disk without labels to an instance, which would be deleted with it, and returns a function that reports
// whether the disk still exists and then removes it.
func (c *Cloud) Attach(instanceID string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attach(instanceID, nil)
}

// AttachCopy is Attach for a disk with the labels of the instance.
func (c *Cloud) AttachCopy(instanceID string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attach(instanceID, c.instances[instanceID].Labels)
}

func (c *Cloud) attach(instanceID string, labels map[string]string) func() bool {
	to := c.instances[instanceID]
	made := c.newDisk(&compute.CreateDiskRequest{FolderId: Folder, ZoneId: to.ZoneId, Name: "pvc-" + to.Name, Size: 1 << 30, Labels: labels})
	made.Status, made.InstanceIds = compute.Disk_READY, []string{instanceID}
	to.SecondaryDisks = append(to.SecondaryDisks, &compute.AttachedDisk{DiskId: made.Id, AutoDelete: true, Mode: compute.AttachedDisk_READ_WRITE})
	return c.remover(made.Id)
}

// CopyLabels creates a disk with the labels of an instance, attached to none, and returns what Attach does.
func (c *Cloud) CopyLabels(instanceID string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.instances[instanceID]
	made := c.newDisk(&compute.CreateDiskRequest{FolderId: Folder, ZoneId: from.ZoneId, Name: "pvc-" + from.Name, Size: 1 << 30, Labels: from.Labels})
	made.Status = compute.Disk_READY
	return c.remover(made.Id)
}

func (c *Cloud) remover(diskID string) func() bool {
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, exists := c.disks[diskID]
		delete(c.disks, diskID)
		return exists
	}
}

// Untag removes labels from an instance and its disks, and returns a function that reports whether all of it still exists and
// then removes it.
func (c *Cloud) Untag(instanceID string, labels ...string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	unwanted := func(label, _ string) bool { return slices.Contains(labels, label) }
	maps.DeleteFunc(c.instances[instanceID].Labels, unwanted)
	var ids []string
	for id, d := range c.disks {
		if slices.Contains(d.InstanceIds, instanceID) {
			ids = append(ids, id)
			maps.DeleteFunc(d.Labels, unwanted)
		}
	}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, exist := c.instances[instanceID]
		delete(c.instances, instanceID)
		for _, id := range ids {
			_, one := c.disks[id]
			exist = exist && one
			delete(c.disks, id)
		}
		return exist
	}
}

// Labels returns the values of a label of everything that exists.
func (c *Cloud) Labels(key string) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]string{}
	for id, i := range c.instances {
		all["instance "+id] = i.Labels[key]
	}
	for id, d := range c.disks {
		if !strings.HasPrefix(d.Name, "pvc-") {
			all["disk "+id] = d.Labels[key]
		}
	}
	return all
}

// Publish adds a newer image to the family.
func (c *Cloud) Publish(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest = id
}
