// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"iter"

	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/sim/hypervisor"
)

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=simmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=simmachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=simmachinetemplates,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=simmachinetemplates/status,verbs=patch

// Cloud returns the description of the simulated cloud of a hypervisor. It needs no credentials and has no regions.
func Cloud(on *hypervisor.Hypervisor) driver.Cloud[*infrav1.SimMachine, InstanceConfig] {
	return driver.Cloud[*infrav1.SimMachine, InstanceConfig]{
		Name:                "sim",
		NewMachine:          func() *infrav1.SimMachine { return &infrav1.SimMachine{} },
		NewMachineList:      func() driver.MachineList { return &infrav1.SimMachineList{} },
		NewTemplate:         func() driver.Template[*infrav1.SimMachine] { return &infrav1.SimMachineTemplate{} },
		Config:              NewInstanceConfig,
		Offering:            toOffering,
		NoCredentials:       true,
		Account:             toAccount,
		NormalizeProviderID: normalizeProviderID,
		Connect: func(context.Context, driver.Account, driver.Credentials) (driver.Driver[InstanceConfig], error) {
			return &Driver{api: on}, nil
		},
	}
}

// Driver implements driver.Driver, driver.AccountIdentifier, driver.CapacityProvider, driver.Tagger, driver.Restarter and
// driver.Notifier.
type Driver struct{ api api }

// api lists the calls of the hypervisor in use.
type api interface {
	ConsoleFile(id string) string
	Name() string
	Create(spec hypervisor.Spec, userData []byte) (hypervisor.Instance, error)
	Get(id string) (hypervisor.Instance, bool)
	Delete(id string) error
	Restart(id string) error
	List() []hypervisor.Instance
	Tag(id string, tags map[string]string) error
	Notify(changed func(hypervisor.Instance))
}

// Create implements driver.Driver.
func (d *Driver) Create(ctx context.Context, req driver.CreateRequest[InstanceConfig]) (driver.Instance, error) {
	if err := ctx.Err(); err != nil {
		return driver.Instance{}, err
	}
	if err := toError(req.Config); err != nil {
		return driver.Instance{}, err
	}
	id := instanceID(req.Identity)
	created, err := d.api.Create(hypervisor.Spec{
		ID:           id,
		ProviderID:   providerID(req.Config.Zone, id),
		Hostname:     req.Identity.Name,
		Zone:         req.Config.Zone,
		InstanceType: req.Config.InstanceType,
		Architecture: req.Config.Size.Architecture,
		Capacity:     req.Config.Size.Capacity,
		Tags:         req.Identity.Tags(),
		BootDelay:    req.Config.BootDelay,
		NeverJoins:   ptr.Deref(req.Config.Faults.NeverJoins, false),
		HangsAfter:   seconds(req.Config.Faults.HangsAfterSeconds),
	}, req.UserData)
	if err != nil {
		return driver.Instance{}, err
	}
	return req.Identity.Checked(toInstance(created))
}

// Get implements driver.Driver.
func (d *Driver) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	if err := ctx.Err(); err != nil {
		return driver.Instance{}, err
	}
	found, ok := d.api.Get(instanceID(id))
	if !ok {
		return driver.Instance{}, &driver.NotFoundError{What: "instance " + instanceID(id)}
	}
	return id.Checked(toInstance(found))
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
	return d.api.Delete(instanceID(id))
}

// List implements driver.Driver.
func (d *Driver) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		for _, found := range d.api.List() {
			if err := ctx.Err(); err != nil {
				yield(driver.Instance{}, err)
				return
			}
			instance := toInstance(found)
			if owner.UID != "" && instance.Identity.Owner.UID != owner.UID {
				continue
			}
			if !yield(instance, nil) {
				return
			}
		}
	}
}
