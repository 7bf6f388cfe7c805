// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"
	"k8s.io/utils/ptr"

	"drover.io/infra-providers/azure/request"
	"drover.io/infra-providers/azure/tag"
	"drover.io/infra-providers/driver"
)

// The kinds of what is beside a virtual machine.
const (
	interfaceKind = "network interface"
	addressKind   = "public IP address"
	diskKind      = "disk"
)

// attached is one resource of a machine beside its virtual machine.
type attached struct {
	kind, name string
	tags       map[string]*string
	// used is true while it is attached to something, and deleting while it is being deleted.
	used, deleting bool
}

// readInterface returns the network interface of a UID, or nil. It fails with NotOwnedError for that of another machine.
func (d *Driver) readInterface(ctx context.Context, id driver.Identity) (*armnetwork.Interface, error) {
	answer, err := d.nics.Get(ctx, d.place.ResourceGroup, request.Name(id.UID), nil)
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, toError(err)
	}
	return &answer.Interface, d.check(id, answer.Tags, answer.ID)
}

// readAddress returns the public address of a UID, or nil. It fails with NotOwnedError for that of another machine.
func (d *Driver) readAddress(ctx context.Context, id driver.Identity) (*armnetwork.PublicIPAddress, error) {
	answer, err := d.addresses.Get(ctx, d.place.ResourceGroup, request.Name(id.UID), nil)
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, toError(err)
	}
	return &answer.PublicIPAddress, d.check(id, answer.Tags, answer.ID)
}

// readDisk returns a disk of a machine by its name, or nil. It fails with NotOwnedError for that of another machine.
func (d *Driver) readDisk(ctx context.Context, id driver.Identity, name string) (*armcompute.Disk, error) {
	answer, err := d.disks.Get(ctx, d.place.ResourceGroup, name, nil)
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, toError(err)
	}
	return &answer.Disk, d.check(id, answer.Tags, answer.ID)
}

// check fails with NotOwnedError unless tags identify a machine.
func (d *Driver) check(id driver.Identity, tags map[string]*string, resource *string) error {
	found := tag.Decode(tags)
	found.ProviderID = ptr.Deref(resource, "")
	return id.Check(found)
}

// remaining returns everything of a machine beside its virtual machine, in the order in which it can be deleted. It fails with
// NotOwnedError if something with a name of the machine has the tags of another one, or none.
func (d *Driver) remaining(ctx context.Context, id driver.Identity) (left []attached, err error) {
	if id.UID == "" || !id.Tagged() {
		return nil, nil // the owner of what is beside a virtual machine is unknown without an identity
	}
	disks, err := d.ownDisks(ctx, id)
	if err != nil {
		return nil, err
	}
	left = append(left, disks...)
	nic, err := d.readInterface(ctx, id)
	if err != nil {
		return nil, err
	}
	if nic != nil {
		left = append(left, toAttachedInterface(nic))
	}
	address, err := d.readAddress(ctx, id)
	if err != nil {
		return nil, err
	}
	if address != nil {
		left = append(left, toAttachedAddress(address))
	}
	return left, nil
}

// ownDisks returns the disks of a machine. They are read by their names as far as these are known: that of the OS disk always,
// and those of data disks if this process has deleted their virtual machine. Otherwise data disks are listed, and those of another
// machine with the same UID left out.
func (d *Driver) ownDisks(ctx context.Context, id driver.Identity) (own []attached, err error) {
	names, known := d.dataDisks.Get(machineKey(id))
	for _, name := range append([]string{request.Name(id.UID)}, names...) {
		disk, err := d.readDisk(ctx, id, name)
		if err != nil {
			return nil, err
		}
		if disk != nil {
			own = append(own, toAttachedDisk(disk))
		}
	}
	if known {
		return own, nil
	}
	for disk, err := range d.listDisks(ctx) {
		if err != nil {
			return nil, err
		}
		if name := ptr.Deref(disk.Name, ""); isDataDisk(name, id) && d.check(id, disk.Tags, disk.ID) == nil {
			own = append(own, toAttachedDisk(disk))
		}
	}
	return own, nil
}

// isDataDisk reports whether a disk has the name of a data disk of a machine.
func isDataDisk(name string, id driver.Identity) bool {
	return strings.HasPrefix(name, request.Name(id.UID)+"-")
}

// listDisks yields the disks of the resource group, over all pages, and a failure last.
func (d *Driver) listDisks(ctx context.Context) iter.Seq2[*armcompute.Disk, error] {
	return func(yield func(*armcompute.Disk, error) bool) {
		for pages := d.disks.NewListByResourceGroupPager(d.place.ResourceGroup, nil); pages.More(); {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(nil, toError(err))
				return
			}
			for _, disk := range page.Value {
				if !yield(disk, nil) {
					return
				}
			}
		}
	}
}

// listInterfaces yields the network interfaces of the resource group, over all pages, and a failure last.
func (d *Driver) listInterfaces(ctx context.Context) iter.Seq2[*armnetwork.Interface, error] {
	return func(yield func(*armnetwork.Interface, error) bool) {
		for pages := d.nics.NewListPager(d.place.ResourceGroup, nil); pages.More(); {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(nil, toError(err))
				return
			}
			for _, nic := range page.Value {
				if !yield(nic, nil) {
					return
				}
			}
		}
	}
}

// listPublicAddresses yields the public addresses of the resource group, over all pages, and a failure last.
func (d *Driver) listPublicAddresses(ctx context.Context) iter.Seq2[*armnetwork.PublicIPAddress, error] {
	return func(yield func(*armnetwork.PublicIPAddress, error) bool) {
		for pages := d.addresses.NewListPager(d.place.ResourceGroup, nil); pages.More(); {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(nil, toError(err))
				return
			}
			for _, address := range page.Value {
				if !yield(address, nil) {
					return
				}
			}
		}
	}
}

func toAttachedInterface(nic *armnetwork.Interface) attached {
	to := attached{kind: interfaceKind, name: ptr.Deref(nic.Name, ""), tags: nic.Tags}
	if nic.Properties != nil {
		to.used = nic.Properties.VirtualMachine != nil
		to.deleting = ptr.Deref(nic.Properties.ProvisioningState, "") == armnetwork.ProvisioningStateDeleting
	}
	return to
}

func toAttachedAddress(address *armnetwork.PublicIPAddress) attached {
	to := attached{kind: addressKind, name: ptr.Deref(address.Name, ""), tags: address.Tags}
	if address.Properties != nil {
		to.used = address.Properties.IPConfiguration != nil
		to.deleting = ptr.Deref(address.Properties.ProvisioningState, "") == armnetwork.ProvisioningStateDeleting
	}
	return to
}

func toAttachedDisk(disk *armcompute.Disk) attached {
	to := attached{kind: diskKind, name: ptr.Deref(disk.Name, ""), tags: disk.Tags, used: disk.ManagedBy != nil}
	if disk.Properties != nil {
		to.deleting = ptr.Deref(disk.Properties.ProvisioningState, "") == deleting
	}
	return to
}

// AttachedObjects implements driver.AttachedObjectLister. Only disks have a time of creation, so the others have a tag with that of
// their request.
func (d *Driver) AttachedObjects(ctx context.Context, owner driver.Owner) iter.Seq2[driver.AttachedObject, error] {
	return func(yield func(driver.AttachedObject, error) bool) {
		// offer yields an object of the owner and returns whether to go on. One with another name than Delete looks for is a copy.
		offer := func(kind string, id *string, tags map[string]*string, created time.Time, err error) bool {
			if err != nil {
				yield(driver.AttachedObject{}, err)
				return false
			}
			identity := tag.Decode(tags)
			if identity.UID == "" || !owner.Selects(identity.Owner) {
				return true
			}
			name := request.Last(ptr.Deref(id, ""))
			own := strings.EqualFold(name, request.Name(identity.UID)) || kind == diskKind && isDataDisk(name, identity)
			return yield(driver.AttachedObject{Kind: kind, ID: ptr.Deref(id, ""), Identity: identity, Created: created, Copy: !own}, nil)
		}
		for disk, err := range d.listDisks(ctx) {
			if disk == nil {
				disk = &armcompute.Disk{}
			}
			if !offer(diskKind, disk.ID, disk.Tags, createdOf(disk), err) {
				return
			}
		}
		for nic, err := range d.listInterfaces(ctx) {
			if nic == nil {
				nic = &armnetwork.Interface{}
			}
			if !offer(interfaceKind, nic.ID, nic.Tags, tag.Requested(nic.Tags), err) {
				return
			}
		}
		for address, err := range d.listPublicAddresses(ctx) {
			if address == nil {
				address = &armnetwork.PublicIPAddress{}
			}
			if !offer(addressKind, address.ID, address.Tags, tag.Requested(address.Tags), err) {
				return
			}
		}
	}
}

func createdOf(disk *armcompute.Disk) time.Time {
	if disk.Properties == nil {
		return time.Time{}
	}
	return ptr.Deref(disk.Properties.TimeCreated, time.Time{})
}
