// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azurefake

import (
	"fmt"
	"maps"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"k8s.io/utils/ptr"
)

// foreignDisk begins the names of disks that others attached.
const foreignDisk = "pvc-"

// Attach attaches a disk of another owner to a virtual machine, to be deleted with it, and returns a function that reports whether
// the disk still exists and then removes it.
func (c *Cloud) Attach(vm string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := fmt.Sprintf("%s%d", foreignDisk, len(c.disks))
	c.disks[name] = &disk{armcompute.Disk{ID: ptr.To(id("Microsoft.Compute/disks", name)), Name: &name, ManagedBy: c.vms[vm].model.ID, Properties: &armcompute.DiskProperties{}}}
	storage := c.vms[vm].model.Properties.StorageProfile
	storage.DataDisks = append(storage.DataDisks, &armcompute.DataDisk{
		Name: &name, Lun: ptr.To(int32(60)), CreateOption: ptr.To(armcompute.DiskCreateOptionTypesAttach), DeleteOption: ptr.To(armcompute.DiskDeleteOptionTypesDelete),
		ManagedDisk: &armcompute.ManagedDiskParameters{ID: c.disks[name].model.ID},
	})
	return c.remover(name)
}

// CopyTags creates a disk with the tags of a virtual machine, attached to none, and returns what Attach does.
func (c *Cloud) CopyTags(vm string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := fmt.Sprintf("%s%d", foreignDisk, len(c.disks))
	from := c.vms[vm].model
	c.disks[name] = &disk{armcompute.Disk{
		ID: ptr.To(id("Microsoft.Compute/disks", name)), Name: &name, Location: from.Location, Tags: maps.Clone(from.Tags),
		Properties: &armcompute.DiskProperties{CreationData: &armcompute.CreationData{CreateOption: ptr.To(armcompute.DiskCreateOptionEmpty)}},
	}}
	return c.remover(name)
}

func (c *Cloud) remover(name string) func() bool {
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, there := c.disks[name]
		delete(c.disks, name)
		return there
	}
}

// Untag removes tags from a virtual machine and everything beside it, and returns a function that reports whether all of it still
// exists and then removes it.
func (c *Cloud) Untag(vm string, tags ...string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := *c.vms[vm].model.Properties.StorageProfile.OSDisk.Name
	var things []string
	for what, has := range c.allTags() {
		if what != "virtual machine "+vm && !strings.Contains(what, own) {
			continue
		}
		things = append(things, what)
		for _, tag := range tags {
			delete(has, tag)
		}
	}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		all, there := c.allTags(), true
		for _, thing := range things {
			if _, ok := all[thing]; !ok {
				there = false
			}
		}
		mine := func(name string) bool { return strings.HasPrefix(name, own) }
		delete(c.vms, vm)
		maps.DeleteFunc(c.nics, func(name string, _ *networkInterface) bool { return mine(name) })
		maps.DeleteFunc(c.addresses, func(name string, _ *publicAddress) bool { return mine(name) })
		maps.DeleteFunc(c.disks, func(name string, _ *disk) bool { return mine(name) })
		return there
	}
}

// Remove removes a virtual machine as another client would, and leaves what is beside it.
func (c *Cloud) Remove(vm string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.detachAll(c.vms[vm])
	delete(c.vms, vm)
}

// RemoveOnceRead removes each network interface once it was read, and then its address once that was, as Azure does some time
// after the virtual machine is gone.
func (c *Cloud) RemoveOnceRead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, nic := range c.nics {
		nic.ending = true
	}
}

// AddVirtualMachine adds a virtual machine that is not Drover's.
func (c *Cloud) AddVirtualMachine(name string, tags map[string]*string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vms[name] = &machine{foreign: true, power: "running", model: armcompute.VirtualMachine{
		ID: ptr.To(id("Microsoft.Compute/virtualMachines", name)), Name: &name, Location: ptr.To(Location), Tags: tags,
		Properties: &armcompute.VirtualMachineProperties{ProvisioningState: ptr.To("Succeeded"), StorageProfile: &armcompute.StorageProfile{}, NetworkProfile: &armcompute.NetworkProfile{}},
	}}
}

// ImageOf returns the image of a virtual machine.
func (c *Cloud) ImageOf(vm string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	image := c.vms[vm].model.Properties.StorageProfile.ImageReference
	if image.ID != nil {
		return *image.ID
	}
	return imageID(*image.Publisher, *image.Offer, *image.SKU, *image.Version)
}

// Secret returns the content of a Secret with credentials.
func Secret() map[string][]byte {
	return map[string][]byte{"tenantID": []byte(Tenant), "clientID": []byte(ClientID), "clientSecret": []byte(ClientSecret), "subscriptionID": []byte(Subscription)}
}

func id(kind, name string) string {
	return "/subscriptions/" + Subscription + "/resourceGroups/" + strings.ToUpper(ResourceGroup) + "/providers/" + kind + "/" + name
}
