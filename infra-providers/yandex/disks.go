// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandex

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/yandex-cloud/go-genproto/yandex/cloud/compute/v1"
	"github.com/yandex-cloud/go-genproto/yandex/cloud/operation"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/inflight"
	"drover.io/infra-providers/internal/label"
	"drover.io/infra-providers/yandex/request"
)

// diskObject begins the objects of creations that are disks, and the disk's name follows.
const diskObject = "disk "

// ensureDisks returns the disks of a machine, the boot disk first, and is unfinished until all of them exist. All that are
// missing are requested at once.
func (d *Driver) ensureDisks(ctx context.Context, req driver.CreateRequest[InstanceConfig], wanted []*compute.CreateDiskRequest, own []*compute.Disk) ([]*compute.Disk, error) {
	var ready []*compute.Disk
	var unfinished error
	for n, disk := range wanted {
		field := bootDiskField
		if n > 0 {
			field = diskField
		}
		found, err := d.ensureDisk(ctx, req, disk, own, field)
		switch {
		case driver.IsUnfinished(err):
			unfinished = err
		case err != nil:
			return nil, err
		default:
			ready = append(ready, found)
		}
	}
	return ready, unfinished
}

// ensureDisk returns one disk. One of another zone or size, which an earlier configuration left, is deleted first, because it
// has the name.
func (d *Driver) ensureDisk(ctx context.Context, req driver.CreateRequest[InstanceConfig], wanted *compute.CreateDiskRequest, own []*compute.Disk, field string) (*compute.Disk, error) {
	object := diskObject + wanted.Name
	if creation, known := d.creations.Get(req.Identity, object); known && creation.Operation != "" {
		if err := d.continueDisk(ctx, req, object, creation, field); err != nil {
			return nil, err
		}
	}
	at := slices.IndexFunc(own, func(disk *compute.Disk) bool { return disk.Name == wanted.Name })
	if at < 0 {
		return d.createDisk(ctx, req, wanted, object, field)
	}
	found := own[at]
	switch {
	case found.Status == compute.Disk_CREATING || found.Status == compute.Disk_DELETING:
		return nil, &driver.UnfinishedError{Err: errCreating}
	case len(found.InstanceIds) > 0:
		return nil, fmt.Errorf("the disk %q of this machine is attached to the instance %q", found.Name, found.InstanceIds[0])
	case found.Status == compute.Disk_READY && request.Matches(found, wanted):
		d.creations.End(req.Identity, object)
		return found, nil
	}
	if err := d.deleteDisk(ctx, found); err != nil {
		return nil, err
	}
	d.creations.Fail(req.Identity, object)
	return nil, &driver.UnfinishedError{Err: errCreating}
}

// createDisk requests a disk.
func (d *Driver) createDisk(ctx context.Context, req driver.CreateRequest[InstanceConfig], wanted *compute.CreateDiskRequest, object, field string) (*compute.Disk, error) {
	begun, err := d.send(ctx, req.Identity, object, wanted, func(ctx context.Context) (*operation.Operation, error) {
		return d.disks.Create(ctx, wanted)
	})
	if isAlreadyExists(err) {
		return nil, d.diskNamesake(ctx, req.Identity, wanted.Name)
	}
	if err != nil {
		return nil, toCreateError(err, field)
	}
	logr.FromContextOrDiscard(ctx).Info("requested disk", "disk", wanted.Name, "operation", begun.Id)
	return nil, &driver.UnfinishedError{Err: errCreating}
}

// continueDisk reads the operation of a disk's creation. It returns nil at its end, and why it failed.
func (d *Driver) continueDisk(ctx context.Context, req driver.CreateRequest[InstanceConfig], object string, creation inflight.Creation, field string) error {
	begun, err := d.readOperation(ctx, creation.Operation)
	switch {
	case err != nil:
		return err
	case begun == nil: // it is not kept for ever
		d.creations.End(req.Identity, object)
		return errNotListedYet
	case !begun.Done:
		return &driver.UnfinishedError{Err: errCreating}
	case begun.GetError() != nil:
		d.creations.Fail(req.Identity, object)
		return toOperationError(begun.GetError(), req.Config, field)
	}
	found, err := d.readDisk(ctx, creation.ID)
	if err != nil {
		return err
	}
	if found == nil { // it was deleted since, with an instance or by another client
		d.creations.Fail(req.Identity, object)
		return &driver.UnfinishedError{Err: errCreating}
	}
	return nil
}

// diskNamesake returns why a disk cannot be created whose name is in use.
func (d *Driver) diskNamesake(ctx context.Context, id driver.Identity, name string) error {
	for disk, err := range d.listDisks(ctx, byName(name)) {
		if err != nil {
			return err
		}
		if id.Check(label.Decode(disk.Labels)) == nil {
			break
		}
		return fmt.Errorf("the folder has another disk with the name %q (%s): delete one of them", name, disk.Id)
	}
	return fmt.Errorf("the name %q is in use by a disk that is being created or deleted", name)
}

// listDisks yields the disks of the folder that match a filter, over all pages, and a failure last.
func (d *Driver) listDisks(ctx context.Context, filter string) iter.Seq2[*compute.Disk, error] {
	return allPages(func(token string) ([]*compute.Disk, string, error) {
		answer, err := d.disks.List(ctx, &compute.ListDisksRequest{FolderId: d.folder, PageSize: d.pageSize, PageToken: token, Filter: filter})
		return answer.GetDisks(), answer.GetNextPageToken(), err
	})
}

// readDisk returns a disk by its ID, or nil. Unlike a list, that is never behind.
func (d *Driver) readDisk(ctx context.Context, id string) (*compute.Disk, error) {
	if id == "" {
		return nil, nil
	}
	found, err := d.disks.Get(ctx, &compute.GetDiskRequest{DiskId: id})
	if isNotFound(err) {
		return nil, nil
	}
	return found, toError(err)
}

// ownDisks returns the disks of a machine that exist. One of another machine with the same UID is left out; one that lacks
// labels is a failure, as its owner is unknown. Those that were requested a moment ago are read by their IDs, because the list
// may not have them yet, and those that are listed, because they may be gone.
func (d *Driver) ownDisks(ctx context.Context, id driver.Identity) (own []*compute.Disk, err error) {
	if id.UID == "" {
		return nil, nil
	}
	var ids []string
	for _, failed := range d.creations.Failed(id) {
		ids = append(ids, failed.ID)
	}
	for object, creation := range d.creations.All(id) {
		if strings.HasPrefix(object, diskObject) && creation.ID != "" {
			ids = append(ids, creation.ID)
		}
	}
	for disk, err := range d.listDisks(ctx, "") {
		if err != nil {
			return nil, err
		}
		if label.Decode(disk.Labels).UID == id.UID {
			ids = append(ids, disk.Id)
		}
	}
	slices.Sort(ids)
	for _, diskID := range slices.Compact(ids) {
		disk, err := d.readDisk(ctx, diskID)
		if err != nil {
			return nil, err
		}
		if disk == nil {
			continue
		}
		switch is, err := isOwnDisk(id, disk); {
		case err != nil:
			return nil, err
		case is:
			own = append(own, disk)
		}
	}
	return own, nil
}

// isOwnDisk reports whether a disk is of a machine, by its labels and its name. It fails where one with its UID lacks other labels.
func isOwnDisk(id driver.Identity, disk *compute.Disk) (bool, error) {
	identity := label.Decode(disk.Labels)
	if identity.UID != id.UID {
		return false, nil
	}
	identity.ProviderID = disk.Id
	err := id.Check(identity)
	if driver.IsUntagged(err) {
		return false, err
	}
	return err == nil && !isCopy(disk), nil
}

// isCopy reports whether a disk has the labels of a machine without the name of one that is created for it: it was restored from a
// backup, or its labels were copied.
func isCopy(disk *compute.Disk) bool {
	return !request.IsDiskName(label.Decode(disk.Labels), disk.Name)
}

// deleteDisk requests the deletion of a disk, unless that has begun.
func (d *Driver) deleteDisk(ctx context.Context, disk *compute.Disk) error {
	if disk.Status == compute.Disk_DELETING {
		return nil
	}
	_, err := d.disks.Delete(ctx, &compute.DeleteDiskRequest{DiskId: disk.Id})
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting disk %q: %w", disk.Name, toError(err))
	}
	logr.FromContextOrDiscard(ctx).Info("deleted disk", "disk", disk.Name)
	return nil
}

// findAttached returns the instance of a machine to which one of its disks is attached, or nil. A list may not have it yet.
func (d *Driver) findAttached(ctx context.Context, id driver.Identity, own []*compute.Disk) (*compute.Instance, error) {
	for _, disk := range own {
		for _, instanceID := range disk.InstanceIds {
			found, err := d.read(ctx, instanceID)
			if err != nil {
				return nil, err
			}
			if found != nil && id.Check(toInstance(found).Identity) == nil {
				return found, nil
			}
		}
	}
	return nil, nil
}

// unanswered reports whether a disk of a machine may exist that no list has and whose ID is not known.
func (d *Driver) unanswered(id driver.Identity) bool {
	for object, creation := range d.creations.All(id) {
		if strings.HasPrefix(object, diskObject) && creation.Operation == "" && d.creations.MayAppear(creation) {
			return true
		}
	}
	return false
}

// AttachedObjects implements driver.AttachedObjectLister. Local disks and addresses do not exist without their instance.
func (d *Driver) AttachedObjects(ctx context.Context, owner driver.Owner) iter.Seq2[driver.AttachedObject, error] {
	return func(yield func(driver.AttachedObject, error) bool) {
		for disk, err := range d.listDisks(ctx, "") {
			if err != nil {
				yield(driver.AttachedObject{}, err)
				return
			}
			identity := label.Decode(disk.Labels)
			if identity.UID == "" || !owner.Selects(identity.Owner) {
				continue
			}
			created := time.Time{}
			if disk.CreatedAt != nil {
				created = disk.CreatedAt.AsTime()
			}
			if !yield(driver.AttachedObject{Kind: "disk", ID: disk.Id, Identity: identity, Created: created, Copy: isCopy(disk)}, nil) {
				return
			}
		}
	}
}
