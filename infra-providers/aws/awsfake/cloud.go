// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package awsfake is a fake of EC2 that speaks its query protocol over real HTTP, for tests through the real
// SDK. It keeps state as EC2 does: instances start and stop slowly, are born with their volumes and network
// interfaces, are listed late and for a while after they are gone; client tokens hold to their parameters,
// also those of a request that met a lack of capacity. Every request and every answer is checked against
// the official description in package model.
//
// Faults come from a function that sees every call.
package awsfake

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"drover.io/infra-providers/aws/awsfake/model"
)

// What there is in a new cloud.
const (
	Region   = "eu-central-1"
	Image    = "ami-0123456789abcdef0"
	OldImage = "ami-0000000000000000a"
	ARMImage = "ami-0123456789abcdef1"
	// DisabledImage is still shown to who asks for its ID.
	DisabledImage = "ami-0000000000000000b"
	Owner         = "099720109477"
	SubnetA       = "subnet-0000000a"
	SubnetB       = "subnet-0000000b"
	Group         = "sg-00000001"
	AccessKey     = "AKIAFAKE"
	Account       = "123456789012"
)

// Fault is what goes wrong with a call.
type Fault struct {
	// Status and Code are EC2's answer; no code means that nothing goes wrong.
	Status  int
	Code    string
	Message string
	// Lost lets the call take effect and cuts the connection instead of answering.
	Lost bool
}

// Options are the habits of the cloud.
type Options struct {
	// Faults is asked at every call, by its action; nil means none.
	Faults func(action string) Fault
	// Lag is how many calls of DescribeInstances a new instance is missing from.
	Lag int
	// BootReads and StopReads are how many reads an instance is pending and shutting down for, KeepReads how
	// many it is listed for as terminated.
	BootReads, StopReads, KeepReads int
}

// Cloud is the fake.
type Cloud struct {
	options Options
	model   *model.Model
	began   time.Time

	mu        sync.Mutex
	serial    int
	hide      int
	once      []Fault
	tokens    map[string]*use
	instances []*instance
	volumes   map[string]*volume
	nics      map[string]*nic
	counts    map[string]int
	complaint []string
	requests  []map[string]string
	reboots   int
	withdrawn []string
}

// use is what a token was used for.
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
	id, device string
	of         *instance
	goes       bool
	tags       []tag
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

// Once makes the next call fail in a way, or the next call that changes something when the answer is to be
// lost.
func (c *Cloud) Once(fault Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.once = append(c.once, fault)
}

// Hide makes the next instance missing from so many calls of DescribeInstances.
func (c *Cloud) Hide(calls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hide = calls
}

// Settle lets as much time pass as between two reads, so that what is missing from lists gets into them.
func (c *Cloud) Settle() {
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

// Complaints are the violations of the description that were seen, on either side.
func (c *Cloud) Complaints() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.complaint)
}

// Requests returns the parameters of every RunInstances so far.
func (c *Cloud) Requests() []map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

// Leftovers names what exists: instances that are not terminated, volumes and network interfaces.
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

// Terminate ends an instance as a reclaimed spot instance or an operator's hand would.
func (c *Cloud) Terminate(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.instances {
		if i.id == id {
			i.reason = "Server.SpotInstanceTermination: Spot instance termination"
			c.end(i)
		}
	}
}

// Stop stops all instances as an operator's hand would.
func (c *Cloud) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.instances {
		i.state, i.reason = stopped, "Client.UserInitiatedShutdown: User initiated shutdown"
	}
}

// Reboots counts the instances that were rebooted.
func (c *Cloud) Reboots() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reboots
}

func (c *Cloud) next(prefix string) string {
	c.serial++
	return fmt.Sprintf("%s-%017x", prefix, c.serial)
}
