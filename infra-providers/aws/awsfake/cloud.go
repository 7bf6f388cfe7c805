// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package awsfake is a fake of EC2 that serves its query protocol over HTTP, for tests with the real SDK. It has the
// state of EC2: instances start and stop slowly, are created with their volumes and network interfaces, and are listed
// with a delay and for a while after their termination; client tokens are bound to their parameters, also those of a
// request that met a lack of capacity. Every request and every answer is checked against the official description in
// package model.
//
// Faults come from a function that is called for every request.
package awsfake

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"drover.io/infra-providers/aws/awsfake/model"
)

// The contents of a new cloud.
const (
	Region   = "eu-central-1"
	Image    = "ami-0123456789abcdef0"
	OldImage = "ami-0000000000000000a"
	ARMImage = "ami-0123456789abcdef1"
	// DisabledImage is still returned by its ID.
	DisabledImage = "ami-0000000000000000b"
	Owner         = "099720109477"
	SubnetA       = "subnet-0000000a"
	SubnetB       = "subnet-0000000b"
	Group         = "sg-00000001"
	AccessKey     = "AKIAFAKE"
	Account       = "123456789012"
)

// Fault is the failure of a call.
type Fault struct {
	// Status and Code are EC2's answer; an empty Code means no fault.
	Status  int
	Code    string
	Message string
	// Lost closes the connection after the call took effect, instead of answering.
	Lost bool
}

// Options configure the fake.
type Options struct {
	// Faults returns the fault of a call of an action; nil means none.
	Faults func(action string) Fault
	// ListDelay is the number of calls of DescribeInstances that omit a new instance.
	ListDelay int
	// PendingReads, StoppingReads and TerminatedReads are the numbers of reads that return an instance as pending,
	// shutting down and terminated.
	PendingReads, StoppingReads, TerminatedReads int
}

// Cloud is the fake.
type Cloud struct {
	options Options
	model   *model.Model
	began   time.Time

	mu             sync.Mutex
	serial         int
	hide           int
	nextFaults     []Fault
	tokens         map[string]*use
	instances      []*instance
	volumes        map[string]*volume
	nics           map[string]*nic
	counts         map[string]int
	violations     []string
	requests       []map[string]string
	reboots        int
	output         string
	removedSubnets []string
}

// use is the first use of a client token.
type use struct {
	parameters string
	instance   *instance
}

type instance struct {
	id, image, kind, zone, subnet string
	state                         string
	reason                        string
	tags                          []tag
	launched                      time.Time
	boot, stop, keep, hidden      int
	nics                          []*nic
	publicIP                      string
	spot                          bool
}

type volume struct {
	id, device          string
	of                  *instance
	deleteOnTermination bool
	tags                []tag
}

type nic struct {
	id, subnet, private string
	ipv6                []string
	device              int
	of                  *instance
	tags                []tag
}

// New returns a cloud with a few images, subnets and security groups.
func New(options Options) (*Cloud, error) {
	known, err := model.Load()
	if err != nil {
		return nil, err
	}
	if options.Faults == nil {
		options.Faults = func(string) Fault { return Fault{} }
	}
	return &Cloud{
		options: options,
		model:   known,
		began:   time.Now().UTC().Truncate(time.Second),
		tokens:  map[string]*use{},
		volumes: map[string]*volume{},
		nics:    map[string]*nic{},
		counts:  map[string]int{},
	}, nil
}

// FailNext makes the next call fail, or the next call that changes something where the answer is lost.
func (c *Cloud) FailNext(fault Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextFaults = append(c.nextFaults, fault)
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

// Counts returns how often each action was called.
func (c *Cloud) Counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := map[string]int{}
	for action, n := range c.counts {
		counts[action] = n
	}
	return counts
}

// Violations returns the violations of the official description by requests and by answers.
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

// Leftovers returns the IDs of what exists: instances that are not terminated, volumes and network interfaces.
func (c *Cloud) Leftovers() (left []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.instances {
		if i.state != terminated {
			left = append(left, i.id)
		}
	}
	for id := range c.volumes {
		left = append(left, id)
	}
	for id := range c.nics {
		left = append(left, id)
	}
	slices.Sort(left)
	return left
}

// ImageOf returns the image that an instance was launched from.
func (c *Cloud) ImageOf(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, known := range c.instances {
		if known.id == id {
			return known.image
		}
	}
	return ""
}

// Terminate terminates an instance as EC2 does when it reclaims a spot instance.
func (c *Cloud) Terminate(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.instances {
		if i.id == id {
			i.reason = "Server.SpotInstanceTermination: Spot instance termination"
			c.setTerminated(i)
		}
	}
}

// Stop stops all instances as an operator would.
func (c *Cloud) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.instances {
		i.state, i.reason = stopped, "Client.UserInitiatedShutdown: User initiated shutdown"
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

func (c *Cloud) next(prefix string) string {
	c.serial++
	return fmt.Sprintf("%s-%017x", prefix, c.serial)
}
