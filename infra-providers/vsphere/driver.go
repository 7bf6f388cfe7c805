// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere

import (
	"cmp"
	"context"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vsphere/flight"
	"drover.io/infra-providers/vsphere/setup"
	"drover.io/infra-providers/vsphere/vcenter"
)

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=vspheremachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=vspheremachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=vspheremachinetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=vspheremachinetemplates/status,verbs=patch

// Cloud describes vSphere. The sessions are the caller's to close at the end.
func Cloud(sessions *vcenter.Pool) driver.Cloud[*infrav1.VSphereMachine, Config] {
	return driver.Cloud[*infrav1.VSphereMachine, Config]{
		Name:           "vsphere",
		NewMachine:     func() *infrav1.VSphereMachine { return &infrav1.VSphereMachine{} },
		NewMachineList: func() driver.MachineList { return &infrav1.VSphereMachineList{} },
		NewTemplate:    func() driver.Template[*infrav1.VSphereMachine] { return &infrav1.VSphereMachineTemplate{} },
		Config:         NewConfig,
		Account:        accountOf,
		Place: func(config Config) (string, string) {
			return instanceType(config), cmp.Or(config.Zone, config.Wish.ComputeCluster)
		},
		Limits: driver.Limits{PerSecond: 20, Burst: 40},
		Connect: func(_ context.Context, account driver.Account, credentials driver.Credentials) (driver.Driver[Config], error) {
			found, err := login(account, credentials, os.Getenv)
			if err != nil {
				return nil, err
			}
			return New(sessions.Open(found), Options{PageSize: vcenter.PageSize, Now: time.Now}), nil
		},
	}
}

// Driver implements driver.Driver and driver.Sizer.
type Driver struct {
	session *vcenter.Session
	options Options
	steps   *setup.Steps
	// clones are the virtual machines that are not to be seen yet, tasks the steps under way of those that
	// are; both by UUID.
	clones *flight.Book[cloning]
	tasks  *flight.Book[struct{}]

	mu sync.Mutex
	// leaving has the UUIDs that were asked to be deleted, and whose removal goes on at each look.
	leaving map[string]bool
}

// cloning is a clone that was asked for.
type cloning struct {
	request driver.Request[Config]
	created time.Time
}

// Options are the habits of a Driver.
type Options struct {
	// PageSize is how many virtual machines a page of a list may have.
	PageSize int32
	Now      func() time.Time
}

// New returns a driver over a session.
func New(session *vcenter.Session, options Options) *Driver {
	return &Driver{
		session: session,
		options: options,
		steps:   &setup.Steps{Session: session, PageSize: options.PageSize},
		clones:  &flight.Book[cloning]{Now: options.Now},
		tasks:   &flight.Book[struct{}]{Now: options.Now},
		leaving: map[string]bool{},
	}
}

// Create implements driver.Driver. It starts the clone and returns; what follows is done a step at a time
// whenever somebody looks.
func (d *Driver) Create(ctx context.Context, req driver.Request[Config]) (driver.Instance, error) {
	found, err := d.create(ctx, req)
	return found, kind(err, req.Config)
}

func (d *Driver) create(ctx context.Context, req driver.Request[Config]) (driver.Instance, error) {
	client, err := d.session.Client(ctx)
	if err != nil {
		return driver.Instance{}, err
	}
	vm, ok, err := d.find(ctx, client, req.Identity)
	if err != nil {
		return driver.Instance{}, err
	}
	if ok {
		return d.advance(ctx, client, vm, req.Identity)
	}
	if under, err := d.settle(ctx, client, req.Identity); under != nil || err != nil {
		return deref(under), err
	}
	return d.clone(ctx, client, req)
}

// Get implements driver.Driver. It takes the next step of a virtual machine that is half made or half
// removed.
func (d *Driver) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	found, err := d.get(ctx, id)
	return found, kind(err, Config{})
}

func (d *Driver) get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	client, err := d.session.Client(ctx)
	if err != nil {
		return driver.Instance{}, err
	}
	vm, ok, err := d.find(ctx, client, id)
	if err != nil {
		return driver.Instance{}, err
	}
	if ok {
		return d.advance(ctx, client, vm, id)
	}
	if under, err := d.settle(ctx, client, id); under != nil || err != nil {
		return deref(under), err
	}
	if again, ok := d.clones.Get(uuidOf(id)); ok && !d.left(uuidOf(id)) {
		// Create was promised a virtual machine and nobody will ask for it again.
		return d.clone(ctx, client, again.What.request)
	}
	if err := d.unknown(ctx, client); err != nil {
		return driver.Instance{}, err
	}
	d.forget(uuidOf(id))
	return driver.Instance{}, &driver.NotFoundError{What: "virtual machine " + uuidOf(id)}
}

// Delete implements driver.Driver.
func (d *Driver) Delete(ctx context.Context, id driver.Identity) error {
	return kind(d.remove(ctx, id), Config{})
}

func (d *Driver) remove(ctx context.Context, id driver.Identity) error {
	client, err := d.session.Client(ctx)
	if err != nil {
		return err
	}
	vm, ok, err := d.find(ctx, client, id)
	if err != nil {
		return err
	}
	if ok {
		full, found, err := read(vm)
		if err != nil {
			return err
		}
		if err := id.Check(found); err != nil {
			return err
		}
		d.leave(uuidOf(id))
		_, err = d.step(ctx, client, full, uuidOf(id))
		return err
	}
	if under, ok := d.clones.Get(uuidOf(id)); ok {
		if err := id.Check(pending(under.What).Identity); err != nil {
			return err
		}
		d.leave(uuidOf(id))
		return cancel(ctx, client, under.Task)
	}
	if err := d.unknown(ctx, client); err != nil {
		return err
	}
	d.forget(uuidOf(id))
	return nil
}

// List implements driver.Driver. It also takes the next step of what is half made, because the generic
// machinery answers from lists and asks for single machines only when a list does not show them.
func (d *Driver) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		client, err := d.session.Client(ctx)
		if err != nil {
			yield(driver.Instance{}, kind(err, Config{}))
			return
		}
		seen := map[string]bool{}
		for vm, err := range d.session.List(ctx, d.options.PageSize) {
			var found driver.Instance
			ours := false
			if err == nil {
				found, ours, err = d.listed(ctx, client, vm, owner)
			}
			if err != nil {
				yield(driver.Instance{}, kind(err, Config{}))
				return
			}
			if seen[found.ID] = true; ours && !yield(found, nil) {
				return
			}
		}
		for id, under := range d.clones.All() {
			if seen[id] || under.Task == nil || owner.UID != "" && under.What.request.Identity.Owner.UID != owner.UID {
				continue
			}
			if !yield(pending(under.What), nil) {
				return
			}
		}
	}
}

// listed converts a virtual machine of a list, unless it is not the owner's.
func (d *Driver) listed(ctx context.Context, client *vim25.Client, vm vcenter.VM, owner driver.Owner) (driver.Instance, bool, error) {
	full, id, err := read(vm)
	if err != nil || id.UID == "" || owner.UID != "" && id.Owner.UID != owner.UID {
		// A record that cannot be read is not ours: somebody changed it, and a read of that one will say so.
		return driver.Instance{}, false, nil //nolint:nilerr // one spoilt record must not blind the list
	}
	key := uuidOf(id)
	if full.Plan == nil && !d.left(key) {
		d.forget(key)
		return instance(full, id, false, ""), true, nil
	}
	whole, err := vcenter.Read(ctx, client, vm.Self)
	if gone(err) {
		return driver.Instance{}, false, nil
	}
	if err != nil {
		return driver.Instance{}, false, err
	}
	found, err := d.advance(ctx, client, whole, id)
	return found, err == nil, err
}

// Size implements driver.Sizer.
func (d *Driver) Size(_ context.Context, config Config) (driver.Size, error) {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(config.Shape.CPUs), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(config.Shape.MemoryMiB<<20, resource.BinarySI),
	}
	if config.Shape.DiskGiB > 0 {
		capacity[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(config.Shape.DiskGiB<<30, resource.BinarySI)
	}
	return driver.Size{Capacity: capacity, Architecture: "amd64", OperatingSystem: "linux"}, nil
}
