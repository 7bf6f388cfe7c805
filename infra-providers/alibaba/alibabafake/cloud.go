// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package alibabafake is a fake of Elastic Compute Service and of the Security Token Service of Alibaba Cloud behind HTTP, for
// tests with the real SDK. It has the state of ECS: instances start and stop slowly, are created with their disks and network
// interfaces, and are listed with a delay; client tokens are bound to their parameters. Signatures are verified, every request
// is checked against the published metadata in package model, and answers are made of the types of the SDK.
//
// Faults come from a function that is called for every request.
package alibabafake

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"drover.io/infra-providers/alibaba/alibabafake/model"
)

// The contents of a new cloud.
const (
	Region = "eu-central-1"
	ZoneA  = Region + "a"
	ZoneB  = Region + "b"
	// Image is the newest one of Family, and of the names that begin with ubuntu.
	Image    = "ubuntu_24_04_x64_20G_alibase_20261101.vhd"
	OldImage = "ubuntu_24_04_x64_20G_alibase_20260101.vhd"
	Family   = "acs:ubuntu_24_04_x64"
	// OwnImage belongs to the account, and GoneImage is not available any more.
	OwnImage  = "m-gw8own00000000000001"
	GoneImage = "m-gw8gone0000000000001"
	// SharedImage is one that the account SharedBy shares without having been asked. It is newer than OwnImage, and has the same
	// family.
	SharedImage = "m-gw8shared00000000001"
	SharedBy    = "6543210987654321"
	// FullImage belongs to the account, and has two data disks besides its system disk.
	FullImage = "m-gw8full0000000000001"
	VSwitchA  = "vsw-gw8a00000000000001"
	VSwitchB  = "vsw-gw8b00000000000001"
	Group     = "sg-gw8nodes000000000001"
	// NoStock is an instance type that is sold out, and OnlyInA one that only ZoneA has.
	NoStock = "ecs.g8i.48xlarge"
	OnlyInA = "ecs.gn7i-c8g1.2xlarge"

	AccessKey    = "LTAI5tFake"
	AccessSecret = "fake-secret" //nolint:gosec // it is no secret
	Account      = "1234567890123456"
)

// Fault is the failure of a call.
type Fault struct {
	// Status and Code are the answer; an empty Code means no fault.
	Status  int
	Code    string
	Message string
	// Headers are further headers of the answer.
	Headers map[string]string
	// Lost closes the connection after the call took effect, instead of answering.
	Lost bool
}

// Options configure the fake.
type Options struct {
	// Faults returns the fault of a call of an action; nil means none.
	Faults func(action string) Fault
	// ListDelay is the number of calls of DescribeInstances that omit a new instance.
	ListDelay int
	// TagDelay is the number of reads that show a new instance without its tags, and DiskTagDelay those that show a new disk so.
	TagDelay, DiskTagDelay int
	// PendingReads and StoppingReads are the numbers of reads that return an instance as pending and, after its release, as
	// stopping.
	PendingReads, StoppingReads int
	// MaxTagged is how many resources a list by tags has at most; zero means 1,000, as ECS has it.
	MaxTagged int
	// ReplayRefusals is true for a cloud that answers a client token with the refusal that the first request with it got.
	ReplayRefusals bool
	// CheckFirst is true for a cloud that checks permissions and parameters before it looks for the client token.
	CheckFirst bool
}

// Cloud is the fake.
type Cloud struct {
	options Options
	model   *model.Model
	began   time.Time

	mu         sync.Mutex
	serial     int
	hide       int
	nextFaults []Fault
	tokens     map[string]*use
	instances  []*instance
	disks      map[string]*disk
	nics       map[string]*nic
	counts     map[string]int
	changes    int
	violations []string
	requests   []map[string]string
	forbidden  map[string]bool
	reboots    int
	output     string
	// keys are the secrets and tokens of access keys, and the accounts that these belong to.
	keys map[string]secret
}

// secret is what belongs to an access key.
type secret struct{ secret, token, account string }

// use is the first use of a client token.
type use struct {
	parameters string
	instance   *instance
	refused    *refusal
}

type instance struct {
	id, name, host, image, kind, zone, vSwitch string
	status                                     string
	lock                                       string
	tags                                       map[string]string
	created                                    time.Time
	boot, stop, hidden, untagged               int
	released                                   bool
	nic                                        *nic
	publicIP                                   string
	bandwidth                                  int32
}

type disk struct {
	id, name, kind, category string
	of                       *instance
	deleteWithInstance       bool
	// own is true for a disk that was created with its instance, and local for one that cannot be detached from it.
	own, local bool
	tags       map[string]string
	untagged   int
}

type nic struct {
	id, private string
	ipv6        []string
	of          *instance
	tags        map[string]string
}

// New returns a cloud with a few images, vSwitches and instance types.
func New(options Options) (*Cloud, error) {
	known, err := model.Load()
	if err != nil {
		return nil, err
	}
	if options.Faults == nil {
		options.Faults = func(string) Fault { return Fault{} }
	}
	if options.MaxTagged == 0 {
		options.MaxTagged = 1000
	}
	return &Cloud{
		options:   options,
		model:     known,
		began:     time.Now().UTC().Truncate(time.Minute),
		tokens:    map[string]*use{},
		disks:     map[string]*disk{},
		nics:      map[string]*nic{},
		counts:    map[string]int{},
		forbidden: map[string]bool{},
		keys:      map[string]secret{AccessKey: {secret: AccessSecret, account: Account}},
	}, nil
}

// FailNext makes the next call fail, or the next call that changes something where the answer is lost.
func (c *Cloud) FailNext(fault Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextFaults = append(c.nextFaults, fault)
}

// Hide omits an instance from a number of calls of DescribeInstances, as a server does that is behind.
func (c *Cloud) Hide(id string, calls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.find(id).hidden = calls
}

// HideNext omits the next instance from a number of calls of DescribeInstances.
func (c *Cloud) HideNext(calls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hide = calls
}

// Advance has the effect of one read on instances that lists omit, so that they are listed.
func (c *Cloud) Advance() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.instances {
		i.hidden = max(0, i.hidden-1)
	}
}

// AddKey adds an access key of an account, and RemoveKey makes the cloud refuse one.
func (c *Cloud) AddKey(id, key, token, account string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys[id] = secret{key, token, account}
}

// RemoveKey makes the cloud refuse an access key.
func (c *Cloud) RemoveKey(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.keys, id)
}

// Counts returns how often each action was called.
func (c *Cloud) Counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

// Changes returns how many requests changed something, or meant to.
func (c *Cloud) Changes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes
}

// Violations returns the violations of the published metadata by requests.
func (c *Cloud) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations)
}

// Requests returns the parameters of every RunInstances so far.
func (c *Cloud) Requests() []map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

// Leftovers returns the IDs of what exists: instances, disks and network interfaces.
func (c *Cloud) Leftovers() (left []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.instances {
		left = append(left, i.id)
	}
	left = slices.AppendSeq(left, maps.Keys(c.disks))
	left = slices.AppendSeq(left, maps.Keys(c.nics))
	slices.Sort(left)
	return left
}

// ImageOf returns the image that an instance was created from.
func (c *Cloud) ImageOf(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.find(id); found != nil {
		return found.image
	}
	return ""
}

// Reclaim locks an instance as ECS does five minutes before it reclaims a spot instance, and Release releases it.
func (c *Cloud) Reclaim(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.find(id).lock = "Recycling"
}

// Lock locks an instance for security reasons.
func (c *Cloud) Lock(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.find(id).lock = securityLock
}

// Unlock removes the lock of an instance.
func (c *Cloud) Unlock(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.find(id).lock = ""
}

// securityLock is the reason for which ECS releases all disks with an instance.
const securityLock = "security"

// Forbid makes the cloud answer a list with an empty one, as ECS documents it for a user without the permission; a dry run of the
// list is refused. Permit ends that.
func (c *Cloud) Forbid(action string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forbidden[action] = true
}

// Permit ends what Forbid began.
func (c *Cloud) Permit(action string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.forbidden, action)
}

// AttachLocal adds a local disk, which ECS shows without tags and which cannot be detached.
func (c *Cloud) AttachLocal(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	local := &disk{id: c.next("d"), kind: "data", category: "local_ssd_pro", of: c.find(id), deleteWithInstance: true, own: true, local: true}
	c.disks[local.id] = local
}

// Release releases an instance as ECS does when it reclaims a spot instance.
func (c *Cloud) Release(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(c.find(id))
}

// Stop stops all instances as an operator would.
func (c *Cloud) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.instances {
		i.status = stopped
	}
}

// Write replaces the output on the consoles of all instances.
func (c *Cloud) Write(output string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.output = output
}

// Reboots returns the number of reboots of instances.
func (c *Cloud) Reboots() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reboots
}

// Attach attaches a disk of another owner to an instance, with which it would be released, and returns a function that reports
// whether the disk still exists and then removes it.
func (c *Cloud) Attach(id string) func() bool {
	return c.attach(id, nil)
}

// AttachCopy is Attach in an account where disks inherit the tags of the instance that they are attached to.
func (c *Cloud) AttachCopy(id string) func() bool {
	c.mu.Lock()
	inherited := maps.Clone(c.find(id).tags)
	c.mu.Unlock()
	return c.attach(id, inherited)
}

func (c *Cloud) attach(id string, inherited map[string]string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	tags := map[string]string{"csi": "a volume"}
	maps.Copy(tags, inherited)
	attached := &disk{id: c.next("d"), name: "pvc-1", kind: "data", category: "cloud_essd", of: c.find(id), deleteWithInstance: true, tags: tags}
	c.disks[attached.id] = attached
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, exists := c.disks[attached.id]
		delete(c.disks, attached.id)
		return exists && attached.of == nil
	}
}

// Detach detaches the disks of an instance but its system disk, as an operator might.
func (c *Cloud) Detach(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.disks {
		if d.of == c.find(id) && d.kind == "data" {
			d.of = nil
		}
	}
}

// find returns an instance, or nil.
func (c *Cloud) find(id string) *instance {
	at := slices.IndexFunc(c.instances, func(i *instance) bool { return i.id == id })
	if at < 0 {
		return nil
	}
	return c.instances[at]
}

// remove removes an instance with what is released with it. Other disks are detached.
func (c *Cloud) remove(i *instance) {
	c.instances = slices.DeleteFunc(c.instances, func(other *instance) bool { return other == i })
	delete(c.nics, i.nic.id)
	for id, d := range c.disks {
		switch {
		case d.of != i:
		case d.deleteWithInstance, i.lock == securityLock:
			delete(c.disks, id)
		default:
			d.of = nil
		}
	}
}

func (c *Cloud) next(prefix string) string {
	c.serial++
	return fmt.Sprintf("%s-%s%015x", prefix, "gw8", c.serial)
}
