// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package google

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	compute "google.golang.org/api/compute/v1"
	"k8s.io/utils/ptr"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/google/request"
	"drover.io/infra-providers/internal/label"
)

// disks yields the disks of the project that match a filter, over all zones and pages, and a failure last.
func (d *Driver) disks(ctx context.Context, filter string) iter.Seq2[*compute.Disk, error] {
	return allPages(func(token string) (p page[*compute.Disk], err error) {
		answer, err := d.api.Disks.AggregatedList(d.project).Filter(filter).MaxResults(d.pageSize).PageToken(token).Context(ctx).Do()
		if err != nil {
			return p, err
		}
		p.unreachable, p.next = answer.Unreachables, answer.NextPageToken
		p.partial = isPartial(ptr.Deref(answer.Warning, compute.DiskAggregatedListWarning{}).Code)
		for _, scope := range slices.Sorted(maps.Keys(answer.Items)) {
			zone := answer.Items[scope]
			p.add(scope, ptr.Deref(zone.Warning, compute.DisksScopedListWarning{}).Code, zone.Disks)
		}
		return p, nil
	})
}

// ownDisks returns the disks of a machine. One of another machine with the same UID is left out; one that lacks labels is a
// failure, as its owner is unknown. With an incompleteError it returns those that are listed. The disks of an insertion that has
// failed a moment ago are read by their names, because the list may not have them yet.
func (d *Driver) ownDisks(ctx context.Context, id driver.Identity) (own []*compute.Disk, err error) {
	if id.UID == "" {
		return nil, nil
	}
	own, err = d.disksOfFailedInsertions(ctx, id)
	if err != nil {
		return nil, err
	}
	known := len(own)
	for disk, err := range d.disks(ctx, uidFilter(id)) {
		if err != nil {
			return own, err
		}
		if slices.ContainsFunc(own[:known], func(k *compute.Disk) bool { return k.SelfLink == disk.SelfLink }) {
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

// disksOfFailedInsertions returns the disks that failed insertions of a machine have left.
func (d *Driver) disksOfFailedInsertions(ctx context.Context, id driver.Identity) (left []*compute.Disk, err error) {
	for _, failed := range d.creations.Failed(id) {
		for _, name := range failed.Disks {
			disk, err := d.api.Disks.Get(d.project, failed.Zone, name).Context(ctx).Do()
			if isNotFound(err) {
				continue
			}
			if err != nil {
				return nil, toError(err)
			}
			if is, err := isOwnDisk(id, disk); err == nil && is && !slices.ContainsFunc(left, func(k *compute.Disk) bool { return k.SelfLink == disk.SelfLink }) {
				left = append(left, disk)
			}
		}
	}
	return left, nil
}

// isOwnDisk reports whether a disk is of a machine, by its labels and its name. It fails where one with its UID lacks other labels.
func isOwnDisk(id driver.Identity, disk *compute.Disk) (bool, error) {
	identity := label.Decode(disk.Labels)
	if identity.UID != id.UID {
		return false, nil
	}
	identity.ProviderID = request.Partial(disk.SelfLink)
	err := id.Check(identity)
	if driver.IsUntagged(err) {
		return false, err
	}
	return err == nil && !isCopy(disk), nil
}

// isCopy reports whether a disk has the labels of a machine without being one that was created for it: it was restored from a backup,
// or its labels were copied. Names of disks never change.
func isCopy(disk *compute.Disk) bool {
	return !request.IsDiskName(label.Decode(disk.Labels), disk.Name)
}

// deleteDetached deletes those of the disks that are attached to no instance.
func (d *Driver) deleteDetached(ctx context.Context, disks []*compute.Disk) error {
	for _, disk := range disks {
		if len(disk.Users) > 0 {
			continue
		}
		_, err := d.api.Disks.Delete(d.project, request.Last(disk.Zone), disk.Name).Context(ctx).Do()
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("deleting disk %q: %w", disk.Name, toError(err))
		}
		logr.FromContextOrDiscard(ctx).Info("deleted disk", "disk", disk.Name)
	}
	return nil
}

// isForeign reports whether the deletion of an instance would delete an attached disk that is not the machine's own. A list
// may be behind, so a disk that it does not have is read.
func (d *Driver) isForeign(ctx context.Context, id driver.Identity, zone string, attached *compute.AttachedDisk, own []*compute.Disk) (bool, error) {
	if !attached.AutoDelete || attached.Type != "PERSISTENT" {
		return false, nil
	}
	if slices.ContainsFunc(own, func(disk *compute.Disk) bool {
		return request.Partial(disk.SelfLink) == request.Partial(attached.Source)
	}) {
		return false, nil
	}
	if !strings.Contains(attached.Source, "/zones/") {
		return true, nil // no disk of Drover is regional
	}
	disk, err := d.api.Disks.Get(d.project, zone, request.Last(attached.Source)).Context(ctx).Do()
	if err != nil {
		return false, toError(err)
	}
	if isCopy(disk) {
		return true, nil
	}
	return id.Check(label.Decode(disk.Labels)) != nil, nil
}

// AttachedObjects implements driver.AttachedObjectLister. Local SSDs and addresses do not exist without their instance.
func (d *Driver) AttachedObjects(ctx context.Context, owner driver.Owner) iter.Seq2[driver.AttachedObject, error] {
	return func(yield func(driver.AttachedObject, error) bool) {
		for disk, err := range d.disks(ctx, ownerFilter(owner)) {
			if err != nil {
				yield(driver.AttachedObject{}, err)
				return
			}
			identity := label.Decode(disk.Labels)
			if !owner.Selects(identity.Owner) {
				continue
			}
			created, _ := time.Parse(time.RFC3339, disk.CreationTimestamp)
			object := driver.AttachedObject{Kind: "disk", ID: request.Partial(disk.SelfLink), Identity: identity, Created: created, Copy: isCopy(disk)}
			if !yield(object, nil) {
				return
			}
		}
	}
}
