// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"fmt"
	"iter"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/qemu/host"
	"drover.io/infra-providers/qemu/vm"
)

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=qemumachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=qemumachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=qemumachinetemplates,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=qemumachinetemplates/status,verbs=patch

// Cloud returns the description of the machines of one host. It needs no credentials and has one zone, the host's name.
func Cloud(on *host.Host, hostName string) driver.Cloud[*infrav1.QEMUMachine, InstanceConfig] {
	return driver.Cloud[*infrav1.QEMUMachine, InstanceConfig]{
		Name:           "qemu",
		NewMachine:     func() *infrav1.QEMUMachine { return &infrav1.QEMUMachine{} },
		NewMachineList: func() driver.MachineList { return &infrav1.QEMUMachineList{} },
		NewTemplate:    func() driver.Template[*infrav1.QEMUMachine] { return &infrav1.QEMUMachineTemplate{} },
		Config: func(machine *infrav1.QEMUMachine, zone string) (InstanceConfig, error) {
			return NewInstanceConfig(machine, zone, hostName)
		},
		Account:             toAccount,
		NormalizeProviderID: normalizeProviderID,
		Connect: func(context.Context, driver.Account, driver.Credentials) (driver.Driver[InstanceConfig], error) {
			return &Driver{api: on, hostName: hostName}, nil
		},
	}
}

// Driver implements driver.Driver, driver.AccountIdentifier, driver.CapacityProvider, driver.ImageFinder, driver.Tagger,
// driver.Restarter and driver.Notifier.
type Driver struct {
	api      api
	hostName string
}

// api lists the calls of the host in use.
type api interface {
	Console(id string) string
	Name() string
	Create(spec vm.Spec, userData []byte) (host.Machine, error)
	Get(id string) (host.Machine, bool)
	Retag(id string, tags map[string]string) (bool, error)
	Delete(id string) error
	Restart(ctx context.Context, id string) error
	List() []host.Machine
	Image(of vm.Spec) (string, error)
	Notify(changed func(host.Machine))
}

// Create implements driver.Driver.
func (d *Driver) Create(ctx context.Context, req driver.CreateRequest[InstanceConfig]) (driver.Instance, error) {
	if err := ctx.Err(); err != nil {
		return driver.Instance{}, err
	}
	spec := req.Config
	spec.ID = instanceID(req.Identity)
	spec.ProviderID = providerID(d.hostName, spec.ID)
	spec.Hostname = req.Identity.Name
	spec.Tags = req.Identity.Tags()
	spec.MAC = macAddress(spec.ID)
	spec.Ignition = req.Format == "ignition"
	created, err := d.api.Create(spec, req.UserData)
	if err != nil {
		return driver.Instance{}, toError(err)
	}
	return req.Identity.Checked(d.toInstance(created))
}

// Get implements driver.Driver.
func (d *Driver) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	if err := ctx.Err(); err != nil {
		return driver.Instance{}, err
	}
	if other := otherHost(id, d.hostName); other != "" {
		return driver.Instance{}, fmt.Errorf("the machine is on host %q, this provider's is %q", other, d.hostName)
	}
	found, ok := d.api.Get(instanceID(id))
	if !ok {
		return driver.Instance{}, &driver.NotFoundError{What: "machine " + instanceID(id)}
	}
	return id.Checked(d.toInstance(found))
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
	return toError(d.api.Delete(instanceID(id)))
}

// List implements driver.Driver.
func (d *Driver) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		for _, found := range d.api.List() {
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
