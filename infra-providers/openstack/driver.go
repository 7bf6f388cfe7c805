// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"sync"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/access"
	"drover.io/infra-providers/openstack/attachments"
	"drover.io/infra-providers/openstack/shortage"
	"drover.io/runtime/expiring"
	"drover.io/runtime/httplimit"
)

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=openstackmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=openstackmachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=openstackmachinetemplates,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=openstackmachinetemplates/status,verbs=patch

// Options replace dependencies of the driver. The zero value is the default.
type Options struct {
	// Transport carries the calls; nil means the default.
	Transport http.RoundTripper
	// Clock is the real clock if it is nil.
	Clock clock.PassiveClock
}

// Cloud returns the description of OpenStack.
func Cloud(options Options) driver.Cloud[*infrav1.OpenStackMachine, InstanceConfig] {
	long := httplimit.NewCloudSeats()
	return driver.Cloud[*infrav1.OpenStackMachine, InstanceConfig]{
		Name:                "openstack",
		NewMachine:          func() *infrav1.OpenStackMachine { return &infrav1.OpenStackMachine{} },
		NewMachineList:      func() driver.MachineList { return &infrav1.OpenStackMachineList{} },
		NewTemplate:         func() driver.Template[*infrav1.OpenStackMachine] { return &infrav1.OpenStackMachineTemplate{} },
		Config:              NewInstanceConfig,
		Account:             toAccount,
		NormalizeProviderID: normalizeProviderID,
		Alternatives:        alternatives,
		Offering:            toOffering,
		// OpenStack itself has no rate limit; this protects a small control plane.
		Limits: driver.Limits{PerSecond: 20, Burst: 100},
		Connect: func(_ context.Context, account driver.Account, credentials driver.Credentials) (driver.Driver[InstanceConfig], error) {
			return connect(options, account, credentials, long)
		},
	}
}

// Driver implements driver.Driver, driver.AccountIdentifier, driver.CapacityProvider, driver.ImageFinder, driver.Tagger,
// driver.Restarter and driver.AttachedObjectLister.
type Driver struct {
	session *access.Session
	clock   clock.PassiveClock

	// creating has the UIDs of the machines with a creation in progress.
	creating sync.Map
	// holders has the name under which a machine is claimed, by its UID.
	holders   expiring.Map[types.UID, string]
	shortages *shortage.Cache
}

// connect reads credentials and makes no call.
func connect(options Options, account driver.Account, credentials driver.Credentials, long *httplimit.Seats) (*Driver, error) {
	session, err := access.Open(account, credentials, options.Transport, long)
	if err != nil {
		return nil, err
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return newDriver(session, options.Clock), nil
}

func newDriver(session *access.Session, clock clock.PassiveClock) *Driver {
	d := &Driver{session: session, clock: clock, shortages: shortage.New(clock)}
	// A claim under a name that has expired has expired too, so another name does not wait for it.
	d.holders.Clock, d.holders.TTL = clock, attachments.ClaimTTL
	return d
}

// Create implements driver.Driver.
func (d *Driver) Create(ctx context.Context, req driver.CreateRequest[InstanceConfig]) (driver.Instance, error) {
	if _, busy := d.creating.LoadOrStore(req.Identity.UID, true); busy {
		return driver.Instance{}, fmt.Errorf("the instance is being created: %w", attachments.ErrBusy)
	}
	defer d.creating.Delete(req.Identity.UID)
	services, err := d.services(ctx)
	if err != nil {
		return driver.Instance{}, err
	}
	id := req.Identity.WithoutProviderID()
	found, err := d.find(ctx, services, id)
	if err != nil {
		return driver.Instance{}, err
	}
	if len(found) > 0 {
		return d.deleteDuplicates(ctx, services, found, id)
	}
	flavor, zone := toOffering(req.Config)
	if err := d.shortages.Check(shortage.Offering{Namespace: id.Owner.Namespace, Flavor: flavor, Zone: zone}); err != nil {
		return driver.Instance{}, err
	}
	claim := attachments.Claim{Ports: attachments.Ports{Client: services.Network}, Holder: d.holder(id.UID), Now: d.clock.Now}
	created, err := creation{services: services, request: req, claim: claim, now: d.clock.Now}.run(ctx)
	if err == nil || errors.Is(err, errCreationUnknown) {
		// Nova may still be creating a server that it does not list yet. The next attempt has another name and
		// respects this claim like another caller's, until it has expired or the server is listed.
		d.holders.Delete(id.UID)
	}
	if driver.IsInvalidConfiguration(err) {
		// The next attempt needs new ports, because a port does not follow what is corrected in its network, such as a missing
		// subnet. Volumes and the floating IP, which take long to create or are billed by the hour, stay for it. The deletion of the
		// Machine deletes what remains.
		_ = d.deletePorts(ctx, services, id)
	}
	return created, err
}

// holder returns the name under which this process claims a machine, and extends its time.
func (d *Driver) holder(uid types.UID) (name string) {
	d.holders.Update(uid, func(current string, found bool) (string, bool) {
		if name = current; !found {
			name = uuid.NewString()
		}
		return name, true
	})
	return name
}

// Get implements driver.Driver.
func (d *Driver) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	services, err := d.services(ctx)
	if isUnknownRegion(err, id) {
		return driver.Instance{}, &driver.NotFoundError{What: "server of " + id.Name}
	}
	if err != nil {
		return driver.Instance{}, err
	}
	if id.ProviderID != "" {
		server, err := d.readServer(ctx, services, parseProviderID(id.ProviderID))
		if err != nil {
			return driver.Instance{}, err
		}
		return id.Checked(toInstance(server))
	}
	found, err := d.find(ctx, services, id)
	if err != nil {
		return driver.Instance{}, err
	}
	if len(found) == 0 {
		return driver.Instance{}, &driver.NotFoundError{What: "server of " + id.Name}
	}
	return id.Checked(toInstance(found[0]))
}

// Delete implements driver.Driver. Ports and floating IPs are deleted at once, also while the server still stops: the
// caller does not call again once the server does not exist.
func (d *Driver) Delete(ctx context.Context, id driver.Identity) error {
	services, err := d.services(ctx)
	if isUnknownRegion(err, id) {
		return nil
	}
	if err != nil {
		return err
	}
	found, err := d.findAll(ctx, services, id)
	if err != nil {
		return err
	}
	for _, server := range found {
		if _, err := id.WithoutProviderID().Checked(toInstance(server)); err != nil {
			return err
		}
	}
	for _, server := range found {
		if err := d.deleteServer(ctx, services, server); err != nil {
			return err
		}
	}
	return toError(d.deleteAttachments(ctx, services, id, found), "", "")
}

// List implements driver.Driver.
func (d *Driver) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		services, err := d.services(ctx)
		if err != nil {
			yield(driver.Instance{}, err)
			return
		}
		stopped := false
		err = d.listByTag(ctx, services, attachments.NamePrefix, func(server servers.Server) bool {
			instance := toInstance(server)
			if instance.Identity.UID == "" || owner.UID != "" && instance.Identity.Owner.UID != owner.UID {
				return true
			}
			stopped = !yield(instance, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(driver.Instance{}, err)
		}
	}
}

func (d *Driver) services(ctx context.Context) (*access.Services, error) {
	services, err := d.session.Services(ctx)
	if err != nil {
		return nil, toError(err, "", "")
	}
	return services, nil
}

// isUnknownRegion reports whether the region of a machine does not exist and nothing was created there, so that a machine
// with an invalid region can be deleted.
func isUnknownRegion(err error, id driver.Identity) bool {
	return driver.IsInvalidConfiguration(err) && id.ProviderID == ""
}
