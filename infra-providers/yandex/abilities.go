// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandex

import (
	"context"
	"fmt"
	"slices"

	"github.com/yandex-cloud/go-genproto/yandex/cloud/compute/v1"
	"github.com/yandex-cloud/go-genproto/yandex/cloud/operation"
	"github.com/yandex-cloud/go-genproto/yandex/cloud/resourcemanager/v1"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/label"
	"drover.io/infra-providers/yandex/request"
)

// AccountID implements driver.AccountIdentifier. It is the ID of the folder, which is read once to prove that it exists: in one
// that does not, nothing would be found.
func (d *Driver) AccountID(ctx context.Context) (string, error) {
	found, err := d.folders.Get(ctx, &resourcemanager.GetFolderRequest{FolderId: d.folder})
	if isNotFound(err) {
		return "", &driver.UnauthorizedError{Err: fmt.Errorf("the folder %q does not exist, or the credentials may not read it", d.folder)}
	}
	if err != nil {
		return "", fmt.Errorf("reading the folder: %w", toError(err))
	}
	if found.Id != d.folder {
		return "", fmt.Errorf("reading the folder %q: the answer is about %q", d.folder, found.Id)
	}
	return d.domain + "/" + found.Id, nil
}

// Capacity implements driver.CapacityProvider.
func (d *Driver) Capacity(ctx context.Context, config InstanceConfig) (driver.Capacity, error) {
	image, err := d.lookup.Image(ctx, config.Spec)
	if err != nil {
		return driver.Capacity{}, toCreateError(err, "spec.image")
	}
	return request.Capacity(config.Spec, image), nil
}

// FindImage implements driver.ImageFinder.
func (d *Driver) FindImage(ctx context.Context, config InstanceConfig) (driver.Image, error) {
	found, err := d.lookup.Image(ctx, config.Spec)
	if err != nil {
		return driver.Image{}, toCreateError(err, "spec.image")
	}
	return toImage(found), nil
}

// Tag implements driver.Tagger. The instance is labelled last, because its labels decide whether Tag is complete: after a
// failure the next attempt repeats all of it. A label is set by an operation, so that of a disk is read before.
func (d *Driver) Tag(ctx context.Context, id driver.Identity) error {
	found, err := d.find(ctx, id)
	if err != nil {
		return err
	}
	if found == nil {
		return &driver.NotFoundError{What: fmt.Sprintf("instance of %q", id.Name)}
	}
	instance, err := id.Checked(toInstance(found))
	if err != nil {
		return err
	}
	id.UID = instance.Identity.UID
	disks, err := d.ownDisks(ctx, id)
	if err != nil {
		return err
	}
	for _, disk := range disks {
		if err := d.tagDisk(ctx, disk, id); err != nil {
			return err
		}
	}
	if label.Holds(found.Labels, id) {
		return nil
	}
	_, err = d.instances.Update(ctx, &compute.UpdateInstanceRequest{InstanceId: found.Id, UpdateMask: labelsOnly(), Labels: label.Merge(found.Labels, id)})
	return toError(err)
}

func labelsOnly() *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: []string{"labels"}} }

// tagDisk labels a disk, and is unfinished until it has the labels.
func (d *Driver) tagDisk(ctx context.Context, disk *compute.Disk, id driver.Identity) error {
	if label.Holds(disk.Labels, id) {
		return nil
	}
	_, err := d.disks.Update(ctx, &compute.UpdateDiskRequest{DiskId: disk.Id, UpdateMask: labelsOnly(), Labels: label.Merge(disk.Labels, id)})
	if err != nil {
		return fmt.Errorf("labelling disk %q: %w", disk.Name, toError(err))
	}
	after, err := d.readDisk(ctx, disk.Id)
	if err != nil {
		return err
	}
	if after != nil && !label.Holds(after.Labels, id) {
		return &driver.UnfinishedError{Err: fmt.Errorf("Compute Cloud is labelling the disk %q", disk.Name)} //nolint:staticcheck // it is a name
	}
	return nil
}

// Restart implements driver.Restarter.
func (d *Driver) Restart(ctx context.Context, id driver.Identity) error {
	found, err := driver.RequireRunning(d.Get(ctx, id))
	if err != nil {
		return err
	}
	_, err = d.instances.Restart(ctx, &compute.RestartInstanceRequest{InstanceId: found.ID})
	if isNotFound(err) {
		return &driver.NotFoundError{What: "instance " + found.ID}
	}
	return toError(err)
}

// Console implements driver.ConsoleReader.
func (d *Driver) Console(ctx context.Context, id driver.Identity) ([]byte, error) {
	found, err := d.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	output, err := d.instances.GetSerialPortOutput(ctx, &compute.GetInstanceSerialPortOutputRequest{InstanceId: found.ID, Port: 1})
	if isNotFound(err) {
		return nil, &driver.NotFoundError{What: "instance " + found.ID}
	}
	if err != nil {
		return nil, toError(err)
	}
	return driver.LastOutput([]byte(output.Contents)), nil
}

// stopMessage returns what is known about the state of an instance: whether a preemptible one was preempted, which only the
// operations have.
func (d *Driver) stopMessage(ctx context.Context, found *compute.Instance, instance driver.Instance) (string, error) {
	if !found.GetSchedulingPolicy().GetPreemptible() || found.Status != compute.Instance_STOPPED {
		return instance.Message, nil
	}
	if known, ok := d.stops.Get(found.Id); ok {
		return known, nil
	}
	answer, failed := d.instances.ListOperations(ctx, &compute.ListInstanceOperationsRequest{InstanceId: found.Id, PageSize: d.pageSize})
	message := "the preemptible instance was stopped, and not by Compute Cloud"
	switch err := toError(failed); {
	case driver.IsUnauthorized(err): // which must not fail the lists of all machines
		message = "the preemptible instance was stopped; why is not known, because the credentials may not list its operations"
	case isNotFound(failed):
		return instance.Message, nil
	case err != nil:
		return "", err
	case isPreemption(lastStop(answer.GetOperations())):
		message = "Compute Cloud preempted the preemptible instance; it is not started again"
	}
	d.stops.Set(found.Id, message)
	return message, nil
}

// lastStop returns the last of the operations that stopped an instance, or nil.
func lastStop(operations []*operation.Operation) *operation.Operation {
	stops := slices.DeleteFunc(slices.Clone(operations), func(o *operation.Operation) bool {
		return !isPreemption(o) && !o.GetMetadata().MessageIs(&compute.StopInstanceMetadata{}) && !o.GetMetadata().MessageIs(&compute.GuestStopInstanceMetadata{})
	})
	if len(stops) == 0 {
		return nil
	}
	return slices.MaxFunc(stops, func(a, b *operation.Operation) int { return a.CreatedAt.AsTime().Compare(b.CreatedAt.AsTime()) })
}

func isPreemption(o *operation.Operation) bool {
	return o.GetMetadata().MessageIs(&compute.PreemptInstanceMetadata{})
}
