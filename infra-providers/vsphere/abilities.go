// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere

import (
	"context"
	"errors"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vsphere/setup"
	"drover.io/infra-providers/vsphere/vcenter"
)

var errTagging = errors.New("the new record is being written")

// AccountID implements driver.AccountIdentifier: the vCenter, by the UUID that it was installed with.
func (d *Driver) AccountID(ctx context.Context) (string, error) {
	client, err := d.session.Client(ctx)
	if err != nil {
		return "", toError(err, InstanceConfig{})
	}
	id := client.ServiceContent.About.InstanceUuid
	if id == "" {
		return "", errors.New("the server does not report the UUID of a vCenter: it may be a host without one")
	}
	return vcenter.ID(id), nil
}

// Provision implements driver.Provisioner: the next step that is written into the virtual machine, or the clone again
// after it failed.
func (d *Driver) Provision(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	found, err := d.provision(ctx, id)
	return found, toError(err, InstanceConfig{})
}

func (d *Driver) provision(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	client, err := d.session.Client(ctx)
	if err != nil {
		return driver.Instance{}, err
	}
	s, err := d.observe(ctx, client, id)
	switch {
	case err != nil:
		return driver.Instance{}, err
	case s.retry != nil:
		return d.startClone(ctx, client, s.retry.request)
	case !s.instance.StepDue || s.instance.State == driver.Stopping:
		return s.instance, nil
	}
	progress, err := d.steps.Next(ctx, client, *s.vm, setup.Up)
	if err != nil {
		return driver.Instance{}, err
	}
	return toInstance(*s.vm, s.instance.Identity, false, progress), nil
}

// Restart implements driver.Restarter. It starts the task and does not wait for its end.
func (d *Driver) Restart(ctx context.Context, id driver.Identity) error {
	return toError(d.reset(ctx, id), InstanceConfig{})
}

func (d *Driver) reset(ctx context.Context, id driver.Identity) error {
	if _, err := driver.RequireRunning(d.get(ctx, id)); err != nil {
		return err
	}
	client, err := d.session.Client(ctx)
	if err != nil {
		return err
	}
	vm, ok, err := d.find(ctx, client, id)
	if err != nil {
		return err
	}
	if !ok {
		return &driver.NotFoundError{What: "virtual machine " + instanceID(id)}
	}
	_, err = object.NewVirtualMachine(client, vm.Self).Reset(ctx)
	return err
}

// Capacity implements driver.CapacityProvider.
func (d *Driver) Capacity(_ context.Context, config InstanceConfig) (driver.Capacity, error) {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(config.Shape.CPUs), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(config.Shape.MemoryMiB<<20, resource.BinarySI),
	}
	if config.Shape.DiskGiB > 0 {
		capacity[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(config.Shape.DiskGiB<<30, resource.BinarySI)
	}
	return driver.Capacity{Capacity: capacity, Architecture: "amd64", OperatingSystem: "linux"}, nil
}

// FindImage implements driver.ImageFinder: the template. Its architecture is not known.
func (d *Driver) FindImage(ctx context.Context, config InstanceConfig) (driver.Image, error) {
	found, err := d.session.Template(ctx, config.References)
	if err != nil {
		return driver.Image{}, toError(err, config)
	}
	if err := checkTemplate(found); err != nil {
		return driver.Image{}, err
	}
	return driver.Image{ID: found.Template.Reference().Value}, nil
}

// Tag implements driver.Tagger. The tags are a record in the virtual machine, which is written by a task: until it
// is there, Tag fails with an error that passes.
func (d *Driver) Tag(ctx context.Context, id driver.Identity) error {
	return toError(d.tag(ctx, id), InstanceConfig{})
}

func (d *Driver) tag(ctx context.Context, id driver.Identity) error {
	client, err := d.session.Client(ctx)
	if err != nil {
		return err
	}
	for range 2 {
		vm, ok, err := d.find(ctx, client, id)
		if err != nil {
			return err
		}
		if !ok {
			return d.explainMissing(ctx, client, id)
		}
		full, found, err := parse(vm)
		if err != nil {
			return err
		}
		if err := id.Check(found); err != nil {
			return err
		}
		if found.Owner.UID == id.Owner.UID {
			return nil
		}
		id.UID = found.UID
		if err := d.steps.Retag(ctx, client, full, id.Tags()); err != nil {
			return err
		}
	}
	return errTagging
}

// explainMissing returns why there is no virtual machine to tag.
func (d *Driver) explainMissing(ctx context.Context, client *vim25.Client, id driver.Identity) error {
	if under, ok := d.clones.Get(instanceID(id)); ok && under.Task != nil {
		return errTagging
	}
	_, ok, err := d.findAfterUnknownClones(ctx, client, id)
	switch {
	case err != nil:
		return err
	case ok:
		return errTagging
	}
	return &driver.NotFoundError{What: "virtual machine " + instanceID(id)}
}
