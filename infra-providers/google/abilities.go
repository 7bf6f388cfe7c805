// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package google

import (
	"context"
	"fmt"

	compute "google.golang.org/api/compute/v1"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/google/request"
	"drover.io/infra-providers/internal/label"
)

// AccountID implements driver.AccountIdentifier. It is the ID of the project, which is never used again, and is read once
// to prove that the project exists: in one that does not, nothing would be found.
func (d *Driver) AccountID(ctx context.Context) (string, error) {
	found, err := d.api.Projects.Get(d.project).Context(ctx).Do()
	if isNotFound(err) {
		return "", &driver.UnauthorizedError{Err: fmt.Errorf("the project %q does not exist, or the credentials may not read it", d.project)}
	}
	if err != nil {
		return "", fmt.Errorf("reading the project: %w", toError(err))
	}
	if found.Name != d.project {
		return "", fmt.Errorf("reading the project %q: the answer is about %q", d.project, found.Name)
	}
	return "google/" + found.Name, nil
}

// Capacity implements driver.CapacityProvider.
func (d *Driver) Capacity(ctx context.Context, config InstanceConfig) (driver.Capacity, error) {
	found, err := d.lookup.MachineType(ctx, config.Spec, config.Zone)
	if err != nil {
		return driver.Capacity{}, toCreateError(err, config, "spec.machineType")
	}
	image, err := d.lookup.Image(ctx, config.Spec)
	if err != nil {
		return driver.Capacity{}, toCreateError(err, config, "spec.image")
	}
	return request.Capacity(config.Spec, found, image), nil
}

// FindImage implements driver.ImageFinder.
func (d *Driver) FindImage(ctx context.Context, config InstanceConfig) (driver.Image, error) {
	found, err := d.lookup.Image(ctx, config.Spec)
	if err != nil {
		return driver.Image{}, toCreateError(err, config, "spec.image")
	}
	return toImage(found), nil
}

// Tag implements driver.Tagger. The instance is labelled last, because its labels decide whether Tag is complete: after a
// failure the next attempt repeats all of it.
func (d *Driver) Tag(ctx context.Context, id driver.Identity) error {
	found, err := d.find(ctx, id)
	if err != nil {
		return err
	}
	if found == nil {
		return &driver.NotFoundError{What: fmt.Sprintf("instance of %q", id.Name)}
	}
	instance, err := id.Checked(d.toInstance(found))
	if err != nil {
		return err
	}
	id.UID = instance.Identity.UID
	disks, err := d.ownDisks(ctx, id)
	if err != nil {
		return err
	}
	for _, disk := range disks {
		if label.Holds(disk.Labels, id) {
			continue
		}
		wanted := &compute.ZoneSetLabelsRequest{Labels: label.Merge(disk.Labels, id), LabelFingerprint: disk.LabelFingerprint}
		if _, err := d.api.Disks.SetLabels(d.project, request.Last(disk.Zone), disk.Name, wanted).Context(ctx).Do(); err != nil {
			return fmt.Errorf("labelling disk %q: %w", disk.Name, toError(err))
		}
	}
	if label.Holds(found.Labels, id) {
		return nil
	}
	wanted := &compute.InstancesSetLabelsRequest{Labels: label.Merge(found.Labels, id), LabelFingerprint: found.LabelFingerprint}
	_, err = d.api.Instances.SetLabels(d.project, request.Last(found.Zone), found.Name, wanted).Context(ctx).Do()
	return toError(err)
}

// Restart implements driver.Restarter.
func (d *Driver) Restart(ctx context.Context, id driver.Identity) error {
	found, err := driver.RequireRunning(d.Get(ctx, id))
	if err != nil {
		return err
	}
	_, err = d.api.Instances.Reset(d.project, found.FailureDomain, found.ID).Context(ctx).Do()
	if isNotFound(err) {
		return &driver.NotFoundError{What: "instance " + found.ID}
	}
	return toError(err)
}

// Console implements driver.ConsoleReader. Without a start, Compute Engine answers with the last MiB.
func (d *Driver) Console(ctx context.Context, id driver.Identity) ([]byte, error) {
	found, err := d.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	output, err := d.api.Instances.GetSerialPortOutput(d.project, found.FailureDomain, found.ID).Port(1).Context(ctx).Do()
	if isNotFound(err) {
		return nil, &driver.NotFoundError{What: "instance " + found.ID}
	}
	if err != nil {
		return nil, toError(err)
	}
	return driver.LastOutput([]byte(output.Contents)), nil
}

// maxStops bounds the causes of stops that are cached.
const maxStops = 10000

// preempted is the type of the operation with which Compute Engine preempts a Spot VM.
const preempted = "compute.instances.preempted"

// stopMessage returns what is known about the state of an instance: whether a Spot VM was preempted, which only the
// operations have.
func (d *Driver) stopMessage(ctx context.Context, found *compute.Instance, instance driver.Instance) (string, error) {
	spot := found.Scheduling != nil && found.Scheduling.ProvisioningModel == request.Spot
	if !spot || instance.State != driver.Stopped {
		return instance.Message, nil
	}
	key := fmt.Sprintf("%d %s", found.Id, found.LastStopTimestamp)
	if known, ok := d.stops.Get(key); ok {
		return known, nil
	}
	filter := fmt.Sprintf("(operationType=%q) AND (targetId=%d)", preempted, found.Id)
	operations, err := d.api.ZoneOperations.List(d.project, instance.FailureDomain).Filter(filter).MaxResults(1).Context(ctx).Do()
	message := "the Spot VM was stopped, and not by Compute Engine"
	switch err = toError(err); {
	case driver.IsUnauthorized(err): // which must not fail the lists of all machines
		message = "the Spot VM was stopped; why is not known, because the credentials may not list operations"
	case err != nil:
		return "", err
	case len(operations.Items) > 0:
		message = "Compute Engine preempted the Spot VM; it is not started again"
	}
	d.stops.Set(key, message)
	return message, nil
}
