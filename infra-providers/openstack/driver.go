// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/pagination"
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
	long := access.NewLongAnswers()
	return driver.Cloud[*infrav1.OpenStackMachine, InstanceConfig]{
		Name:           "openstack",
		NewMachine:     func() *infrav1.OpenStackMachine { return &infrav1.OpenStackMachine{} },
		NewMachineList: func() driver.MachineList { return &infrav1.OpenStackMachineList{} },
		NewTemplate:    func() driver.Template[*infrav1.OpenStackMachine] { return &infrav1.OpenStackMachineTemplate{} },
		Config:         NewInstanceConfig,
		Account:        toAccount,
		Alternatives:   alternatives,
		Offering:       toOffering,
		// OpenStack itself has no rate limit; this protects a small control plane.
		Limits: driver.Limits{PerSecond: 20, Burst: 100},
		Connect: func(_ context.Context, account driver.Account, credentials driver.Credentials) (driver.Driver[InstanceConfig], error) {
			return connect(options, account, credentials, long)
		},
	}
}

// Driver implements driver.Driver, driver.AccountIdentifier, driver.CapacityProvider, driver.ImageFinder, driver.Tagger,
// driver.Restarter and driver.Remainder.
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
func connect(options Options, account driver.Account, credentials driver.Credentials, long *httplimit.Places) (*Driver, error) {
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
func (d *Driver) Create(ctx context.Context, req driver.Request[InstanceConfig]) (driver.Instance, error) {
	if _, busy := d.creating.LoadOrStore(req.Identity.UID, true); busy {
		return driver.Instance{}, fmt.Errorf("the instance is being created: %w", attachments.ErrBusy)
	}
	defer d.creating.Delete(req.Identity.UID)
	services, err := d.services(ctx)
	if err != nil {
		return driver.Instance{}, err
	}
	id := withoutProviderID(req.Identity)
	found, err := d.find(ctx, services, id)
	if err != nil {
		return driver.Instance{}, err
	}
	if len(found) > 0 {
		return d.deleteDuplicates(ctx, services, found, id)
	}
	flavor, zone := toOffering(req.Config)
	if err := d.shortages.Check(shortage.Place{Namespace: id.Owner.Namespace, Flavor: flavor, Zone: zone}); err != nil {
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
		// No server will ever be created, so its attachments need not wait for the deletion of the Machine, which
		// deletes what remains.
		_ = d.deleteAttachments(ctx, services, id, nil)
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

// deleteDuplicates returns the oldest server of an identity and deletes the others. There are others only when a request
// took longer than a claim is valid; every earlier caller found the oldest.
func (d *Driver) deleteDuplicates(ctx context.Context, services *access.Services, found []servers.Server, id driver.Identity) (driver.Instance, error) {
	oldest, err := id.Checked(toInstance(found[0]))
	if err != nil {
		return driver.Instance{}, err
	}
	for _, other := range found[1:] {
		if _, err := id.Checked(toInstance(other)); err != nil {
			return driver.Instance{}, err
		}
		if err := d.deleteServer(ctx, services, other); err != nil {
			return driver.Instance{}, err
		}
	}
	return oldest, nil
}

// deleteServer deletes a server unless its deletion is in progress.
func (d *Driver) deleteServer(ctx context.Context, services *access.Services, server servers.Server) error {
	if at := toState(server); at == driver.Stopping || at == driver.Terminated {
		return nil
	}
	d.shortages.DeleteFault(server.ID)
	err := servers.Delete(ctx, services.Compute, server.ID).ExtractErr()
	if err != nil && !access.Missing(err) {
		return toError(fmt.Errorf("deleting server: %w", err), "", "")
	}
	return nil
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
		if _, err := withoutProviderID(id).Checked(toInstance(server)); err != nil {
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

// findAll returns every server of an identity: those of its UID and the one of its provider ID, which has another UID if
// it belongs to another machine.
func (d *Driver) findAll(ctx context.Context, services *access.Services, id driver.Identity) (found []servers.Server, err error) {
	if id.UID != "" {
		if found, err = d.find(ctx, services, id); err != nil {
			return nil, err
		}
	}
	serverID := parseProviderID(id.ProviderID)
	if id.ProviderID == "" || slices.ContainsFunc(found, func(server servers.Server) bool { return server.ID == serverID }) {
		return found, nil
	}
	server, err := d.readServer(ctx, services, serverID)
	if driver.IsNotFound(err) {
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	return append([]servers.Server{server}, found...), nil
}

// deleteAttachments deletes the attachments of the servers of an identity, whose deletion was requested.
func (d *Driver) deleteAttachments(ctx context.Context, services *access.Services, id driver.Identity, deleted []servers.Server) error {
	owner, grouped, last := id.Owner, len(deleted) == 0, ""
	if len(deleted) > 0 {
		known, _ := attachments.Identity(deleted[0].Metadata)
		// The group has the name of the Cluster at the creation, which may have another UID since a move.
		id.UID, owner.UID, last = known.UID, types.UID(deleted[0].Metadata[groupKey]), deleted[0].ID
		grouped = owner.UID != ""
	}
	if !id.Tagged() {
		return nil // the owner of attachments without an identity is unknown
	}
	if len(deleted) == 0 {
		if err := d.checkPortsUnused(ctx, services, id); err != nil {
			return err
		}
	}
	if grouped {
		if err := (attachments.Groups{Client: services.Compute}).Delete(ctx, owner, last); err != nil {
			return err
		}
	}
	for _, kind := range attachments.Kinds(services) {
		if err := kind.Delete(ctx, id, len(deleted) > 0); err != nil {
			return err
		}
	}
	return nil
}

// checkPortsUnused fails with NotOwnedError while a server without the tags of an identity has one of its ports, such as
// the machine's own server after it lost its tags.
func (d *Driver) checkPortsUnused(ctx context.Context, services *access.Services, id driver.Identity) error {
	found, err := attachments.Ports{Client: services.Network}.Find(ctx, id.UID)
	if err != nil {
		return fmt.Errorf("listing ports: %w", err)
	}
	for _, port := range found {
		if port.DeviceID == "" {
			continue
		}
		server, err := d.readServer(ctx, services, port.DeviceID)
		if driver.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		if _, err := withoutProviderID(id).Checked(toInstance(server)); err != nil {
			return err
		}
	}
	return nil
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

// find returns the servers of a UID, the oldest first. Nova lists a server by its tag as soon as it has accepted it.
func (d *Driver) find(ctx context.Context, services *access.Services, id driver.Identity) ([]servers.Server, error) {
	var found, own []servers.Server
	var tooMany error
	err := d.listByTag(ctx, services, attachments.Name(id.UID), func(server servers.Server) bool {
		if at, _ := attachments.Identity(server.Metadata); at.UID == id.UID {
			found = append(found, server)
			if id.Check(at) == nil {
				own = append(own, server)
			}
		}
		if len(found) > access.MostListed {
			tooMany = fmt.Errorf("listing servers: %w", &access.TooManyError{})
		}
		return tooMany == nil
	})
	if err != nil || tooMany != nil {
		return nil, errors.Join(err, tooMany)
	}
	if len(own) > 0 {
		found = own // other machines may have the same UID, because the author of a machine may choose it
	}
	slices.SortFunc(found, func(a, b servers.Server) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return found, nil
}

// pageSize is the maximum number of servers in a page of a list: answers of services that a Secret names are bounded.
const pageSize = 500

// listByTag calls visit for every server with a tag until it returns false.
func (d *Driver) listByTag(ctx context.Context, services *access.Services, tag string, visit func(servers.Server) bool) error {
	pager := servers.List(services.Compute, servers.ListOpts{Tags: tag, Limit: pageSize})
	err := pager.EachPage(ctx, func(_ context.Context, page pagination.Page) (bool, error) {
		all, err := servers.ExtractServers(page)
		if err != nil {
			return false, err
		}
		for _, server := range all {
			d.shortages.AddFault(ctx, services.Compute, &server)
			d.observe(server)
			if !visit(server) {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return toError(fmt.Errorf("listing servers: %w", err), "", "")
	}
	return nil
}

// readServer reads one server. An empty ID belongs to none.
func (d *Driver) readServer(ctx context.Context, services *access.Services, id string) (servers.Server, error) {
	if id == "" {
		return servers.Server{}, &driver.NotFoundError{What: "server without an ID"}
	}
	server, err := servers.Get(ctx, services.Compute, id).Extract()
	if access.Missing(err) {
		return servers.Server{}, &driver.NotFoundError{What: fmt.Sprintf("server %q", id)}
	}
	if err != nil {
		return servers.Server{}, toError(fmt.Errorf("reading server: %w", err), "", "")
	}
	d.observe(*server)
	return *server, nil
}

func (d *Driver) observe(server servers.Server) {
	id, _ := attachments.Identity(server.Metadata)
	d.shortages.Observe(server, shortage.Place{Namespace: id.Owner.Namespace, Flavor: server.Metadata[flavorKey], Zone: server.Metadata[zoneKey]})
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

func withoutProviderID(id driver.Identity) driver.Identity {
	id.ProviderID = ""
	return id
}
