// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package azurefake is a Resource Manager of Azure with state, for tests. Requests and answers pass through the typed fake
// servers of Azure's own SDK, behind real HTTP, and are checked against Azure's specification. Operations take effect after
// they were accepted, lists are behind, and every request may fail.
//
// It has one resource group, and knows what the azure driver uses of Compute, Network and Resource Graph, and of Microsoft Entra.
package azurefake

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"

	"drover.io/infra-providers/azure/azurefake/specification"
)

// What exists in the cloud.
const (
	Subscription  = "0b1f6471-1bf0-4dda-aec3-cb9272f09590"
	ResourceGroup = "nodes"
	Location      = "westeurope"
	Tenant        = "72f988bf-86f1-41af-91ab-2d7cd011db47"
	ClientID      = "3f6a8a2c-0000-4000-8000-000000000001"
	ClientSecret  = "hunter2~hunter2"
	SubnetID      = "/subscriptions/" + Subscription + "/resourceGroups/network/providers/Microsoft.Network/virtualNetworks/vnet/subnets/nodes"
)

// Options are the settings of a Cloud. Counts are of reads of a resource.
type Options struct {
	// CreateReads is after how many reads a virtual machine runs, and DeleteReads after how many it is gone.
	CreateReads, DeleteReads int
	// NetworkReads is after how many reads a network interface or an address can be used, and NetworkDeleteReads after how many
	// one is gone.
	NetworkReads, NetworkDeleteReads int
	// ListDelay is how many lists do not have a new virtual machine.
	ListDelay int
	// GraphDelay has Resource Graph answer with the state at the query before.
	GraphDelay bool
	// KeepsAttached has Azure not delete what is beside a virtual machine with it.
	KeepsAttached bool
	// PageSize is the number of resources on a page of a list; zero means 7.
	PageSize int
	// Faults decides about each request, by the name of its method in the SDK.
	Faults func(method string) Fault
}

// Fault is what happens to a request.
type Fault struct {
	// On is the method that the fault is for, such as VirtualMachinesClient.BeginCreateOrUpdate; empty means any.
	On string
	// Lost carries the request out and closes the connection.
	Lost bool
	// Status, Code and Message are those of a refusal.
	Status        int
	Code, Message string
	RetryAfter    string
	// Allocation accepts a virtual machine, which then fails with this code.
	Allocation string
	// LeavesDisks has the failed virtual machine leave its disks.
	LeavesDisks bool
}

// IsChange reports whether a method changes something.
func IsChange(method string) bool {
	_, name, _ := strings.Cut(method, ".")
	return strings.HasPrefix(name, "Begin") || name == "UpdateTags"
}

// Cloud is a Resource Manager with one resource group.
type Cloud struct {
	options       Options
	specification *specification.Specification
	compute       transport
	networks      transport

	mu         sync.Mutex
	vms        map[string]*machine
	nics       map[string]*networkInterface
	addresses  map[string]*publicAddress
	disks      map[string]*disk
	images     map[string]*armcompute.VirtualMachineImage
	next       []Fault
	hidden     int
	graph      []string
	violations []string
	changes    int
	resets     int
	tokens     int
	requests   []armcompute.VirtualMachine
	customData []*string
	console    string
	lastIP     int
	now        time.Time
	url        string
}

type machine struct {
	model armcompute.VirtualMachine
	// pending is how many reads are left until the state after the current one.
	pending int
	// power is the power state, empty while there is no host.
	power, failure string
	leavesDisks    bool
	// unlisted is how many lists do not have it.
	unlisted int
	// foreign is true for one that is not Drover's.
	foreign bool
}

type networkInterface struct {
	model   armnetwork.Interface
	pending int
	// ending is true for one that is gone once it was read.
	ending bool
}

type publicAddress struct {
	model   armnetwork.PublicIPAddress
	pending int
	ending  bool
}

type disk struct{ model armcompute.Disk }

// New returns a Cloud with a subnet, images and sizes.
func New(options Options) *Cloud {
	if options.PageSize == 0 {
		options.PageSize = 7
	}
	c := &Cloud{
		options: options, vms: map[string]*machine{}, nics: map[string]*networkInterface{}, addresses: map[string]*publicAddress{}, disks: map[string]*disk{},
		now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC),
	}
	var err error
	if c.specification, err = specification.Load(); err != nil {
		panic(err) // it is a part of the program
	}
	c.images = marketplace()
	c.compute, c.networks = c.newComputeTransport(), c.newNetworkTransport()
	return c
}

// Serve sets the URL at which the cloud is served.
func (c *Cloud) Serve(url string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.url = url
}

// FailNext has the next request that a fault is for fail.
func (c *Cloud) FailNext(fault Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = append(c.next, fault)
}

// HideNext hides the next virtual machine from some lists.
func (c *Cloud) HideNext(lists int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hidden = lists
}

// fault returns the fault of a request.
func (c *Cloud) fault(method string) Fault {
	for n, fault := range c.next {
		if fault.On == method || fault.On == "" && (!fault.Lost || IsChange(method)) {
			c.next = slices.Delete(c.next, n, n+1)
			return fault
		}
	}
	if c.options.Faults == nil {
		return Fault{}
	}
	fault := c.options.Faults(method)
	if fault.On != "" && fault.On != method {
		return Fault{}
	}
	return fault
}

// Violations are how requests and answers violate Azure's specification, and requests that Azure would refuse.
func (c *Cloud) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations)
}

func (c *Cloud) violate(format string, args ...any) {
	c.violations = append(c.violations, fmt.Sprintf(format, args...))
}

// Leftovers names everything that was created and still exists.
func (c *Cloud) Leftovers() (left []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.vms {
		left = append(left, "virtual machine "+name)
	}
	for name := range c.nics {
		left = append(left, "network interface "+name)
	}
	for name := range c.addresses {
		left = append(left, "public IP address "+name)
	}
	for name := range c.disks {
		if !strings.HasPrefix(name, foreignDisk) {
			left = append(left, "disk "+name)
		}
	}
	slices.Sort(left)
	return left
}

// Changes counts the requests that change something.
func (c *Cloud) Changes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes
}

// Restarts counts the restarts of virtual machines.
func (c *Cloud) Restarts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resets
}

// Tokens counts the tokens that were given.
func (c *Cloud) Tokens() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tokens
}

// Requests are the virtual machines that were accepted.
func (c *Cloud) Requests() []armcompute.VirtualMachine {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

// CustomData are the custom data of the virtual machines that were accepted.
func (c *Cloud) CustomData() []*string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.customData)
}

// Tags returns the tags with a name of everything, by kind and name.
func (c *Cloud) Tags(tag string) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[string]string{}
	for what, tags := range c.allTags() {
		value := ""
		if tags[tag] != nil {
			value = *tags[tag]
		}
		found[what] = value
	}
	return found
}

func (c *Cloud) allTags() map[string]map[string]*string {
	all := map[string]map[string]*string{}
	for name, vm := range c.vms {
		if !vm.foreign {
			all["virtual machine "+name] = vm.model.Tags
		}
	}
	for name, nic := range c.nics {
		all["network interface "+name] = nic.model.Tags
	}
	for name, address := range c.addresses {
		all["public IP address "+name] = address.model.Tags
	}
	for name, disk := range c.disks {
		if !strings.HasPrefix(name, foreignDisk) {
			all["disk "+name] = disk.model.Tags
		}
	}
	return all
}

// Advance lets everything that is pending happen.
func (c *Cloud) Advance() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.vms)) {
		c.vms[name].unlisted = 0
		for range 3 {
			if vm := c.vms[name]; vm != nil {
				vm.pending = 0
				c.progress(name, vm)
			}
		}
	}
	for name, nic := range c.nics {
		nic.pending = 0
		c.progressInterface(name, nic)
	}
	for name, address := range c.addresses {
		address.pending = 0
		c.progressAddress(name, address)
	}
}

// Stop stops every virtual machine, as another client would.
func (c *Cloud) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, vm := range c.vms {
		vm.power = "deallocated"
	}
}

// Write writes to the console of every virtual machine.
func (c *Cloud) Write(output string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.console += output
}

// transport is one of the SDK's fake servers.
type transport interface {
	Do(request *http.Request) (*http.Response, error)
}
