// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/qemu/host"
)

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=qemumachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=qemumachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=qemumachinetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=qemumachinetemplates/status,verbs=patch

// Cloud describes the machines of one host. It needs no credentials and has one zone, the host's name.
func Cloud(on *host.Host, hostName string) driver.Cloud[*infrav1.QEMUMachine, Config] {
	return driver.Cloud[*infrav1.QEMUMachine, Config]{
		Name:           "qemu",
		NewMachine:     func() *infrav1.QEMUMachine { return &infrav1.QEMUMachine{} },
		NewMachineList: func() driver.MachineList { return &infrav1.QEMUMachineList{} },
		NewTemplate:    func() driver.Template[*infrav1.QEMUMachine] { return &infrav1.QEMUMachineTemplate{} },
		Config: func(machine *infrav1.QEMUMachine, zone string) (Config, error) {
			return NewConfig(machine, zone, hostName)
		},
		Account: func(*infrav1.QEMUMachine) driver.Account { return driver.Account{} },
		Connect: func(context.Context, driver.Account, driver.Credentials) (driver.Driver[Config], error) {
			return &Driver{machines: on, hostName: hostName}, nil
		},
	}
}

// Driver implements driver.Driver, driver.AccountIdentifier, driver.Sizer, driver.ImageFinder, driver.Tagger,
// driver.Restarter and driver.Notifier.
type Driver struct {
	machines machines
	hostName string
}

// machines is what is used of the host.
type machines interface {
	Name() string
	Create(spec host.Spec, userData []byte) (host.Machine, error)
	Get(id string) (host.Machine, bool)
	Retag(id string, tags map[string]string) (bool, error)
	Delete(id string) error
	Restart(ctx context.Context, id string) error
	List() []host.Machine
	Image(of host.Spec) (string, error)
	Notify(changed func(host.Machine))
}

// AccountID implements driver.AccountIdentifier: the host's state directory is the account.
func (d *Driver) AccountID(ctx context.Context) (string, error) {
	return "qemu/" + d.machines.Name(), ctx.Err()
}

// Create implements driver.Driver.
func (d *Driver) Create(ctx context.Context, req driver.Request[Config]) (driver.Instance, error) {
	if err := ctx.Err(); err != nil {
		return driver.Instance{}, err
	}
	spec := req.Config
	spec.ID = instanceID(req.Identity)
	spec.ProviderID = providerID(d.hostName, spec.ID)
	spec.Hostname = req.Identity.Name
	spec.Tags = req.Identity.Tags()
	spec.MAC = hardwareAddress(spec.ID)
	spec.Ignition = req.Format == "ignition"
	made, err := d.machines.Create(spec, req.UserData)
	if err != nil {
		return driver.Instance{}, toError(err)
	}
	return d.owned(made, req.Identity)
}

// Get implements driver.Driver.
func (d *Driver) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	if err := ctx.Err(); err != nil {
		return driver.Instance{}, err
	}
	if elsewhere := otherHost(id, d.hostName); elsewhere != "" {
		return driver.Instance{}, fmt.Errorf("the machine is on host %q, this provider's is %q", elsewhere, d.hostName)
	}
	found, ok := d.machines.Get(instanceID(id))
	if !ok {
		return driver.Instance{}, &driver.NotFoundError{What: "machine " + instanceID(id)}
	}
	return d.owned(found, id)
}

// Delete implements driver.Driver.
func (d *Driver) Delete(ctx context.Context, id driver.Identity) error {
	_, err := d.Get(ctx, id)
	if driver.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return toError(d.machines.Delete(instanceID(id)))
}

// Restart implements driver.Restarter.
func (d *Driver) Restart(ctx context.Context, id driver.Identity) error {
	found, err := driver.Restartable(d.Get(ctx, id))
	if err != nil {
		return err
	}
	return toError(d.machines.Restart(ctx, found.ID))
}

// List implements driver.Driver.
func (d *Driver) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		for _, found := range d.machines.List() {
			if err := ctx.Err(); err != nil {
				yield(driver.Instance{}, err)
				return
			}
			instance := d.toInstance(found)
			if owner.UID != "" && instance.Identity.Owner.UID != owner.UID {
				continue
			}
			if !yield(instance, nil) {
				return
			}
		}
	}
}

// Size implements driver.Sizer.
func (d *Driver) Size(_ context.Context, config Config) (driver.Size, error) {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(config.CPUs), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(config.MemoryMiB*mebibyte, resource.BinarySI),
	}
	if config.DiskBytes > 0 {
		capacity[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(config.DiskBytes, resource.BinarySI)
	}
	return driver.Size{Capacity: capacity, Architecture: config.Architecture, OperatingSystem: "linux"}, nil
}

// FindImage implements driver.ImageFinder: a file of the host's folder, or a URL, which nobody asks. Files do not
// say for which architecture they are.
func (d *Driver) FindImage(ctx context.Context, config Config) (driver.Image, error) {
	if err := ctx.Err(); err != nil {
		return driver.Image{}, err
	}
	found, err := d.machines.Image(config)
	if err != nil {
		return driver.Image{}, toError(err)
	}
	return driver.Image{ID: found}, nil
}

// Tag implements driver.Tagger.
func (d *Driver) Tag(ctx context.Context, id driver.Identity) error {
	found, err := d.Get(ctx, id)
	if err != nil {
		return err
	}
	id.UID = found.Identity.UID
	there, err := d.machines.Retag(found.ID, id.Tags())
	if err == nil && !there {
		err = &driver.NotFoundError{What: "machine " + found.ID}
	}
	return err
}

// Notify implements driver.Notifier.
func (d *Driver) Notify(changed func(driver.Identity)) {
	d.machines.Notify(func(m host.Machine) { changed(d.toInstance(m).Identity) })
}
