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
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/pagination"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/access"
	"drover.io/infra-providers/openstack/attachments"
	"drover.io/infra-providers/openstack/lookup"
	"drover.io/runtime/expiring"
)

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=openstackmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=openstackmachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=openstackmachinetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=openstackmachinetemplates/status,verbs=patch

// Options are what tests and odd networks need to replace. The zero value is the usual.
type Options struct {
	// Transport carries the calls.
	Transport http.RoundTripper
	Now       func() time.Time
}

// Cloud describes OpenStack.
func Cloud(options Options) driver.Cloud[*infrav1.OpenStackMachine, Config] {
	if options.Now == nil {
		options.Now = time.Now
	}
	long := access.NewLongAnswers()
	return driver.Cloud[*infrav1.OpenStackMachine, Config]{
		Name:           "openstack",
		NewMachine:     func() *infrav1.OpenStackMachine { return &infrav1.OpenStackMachine{} },
		NewMachineList: func() driver.MachineList { return &infrav1.OpenStackMachineList{} },
		NewTemplate:    func() driver.Template[*infrav1.OpenStackMachine] { return &infrav1.OpenStackMachineTemplate{} },
		Config:         NewConfig,
		Account: func(machine *infrav1.OpenStackMachine) driver.Account {
			return driver.Account{SecretName: machine.Spec.CredentialsSecretName, Region: machine.Spec.Region}
		},
		Alternatives: alternatives,
		Place:        place,
		// OpenStack itself limits nothing; this keeps a small control plane alive.
		Limits: driver.Limits{PerSecond: 20, Burst: 100},
		Connect: func(_ context.Context, account driver.Account, credentials driver.Credentials) (driver.Driver[Config], error) {
			session, err := access.Open(account, credentials, options.Transport, long)
			if err != nil {
				return nil, err
			}
			return &Driver{session: session, now: options.Now, holders: expiring.Map[types.UID, string]{TTL: time.Hour, Max: 10_000}}, nil
		},
	}
}

// Driver implements driver.Driver, driver.Sizer, driver.ImageFinder, driver.Tagger, driver.Restarter and
// driver.Remainder.
type Driver struct {
	session *access.Session
	now     func() time.Time

	// creating holds the UIDs of the machines that are being made.
	creating sync.Map
	// holders holds under which name each is claimed. Without it a machine waits until its claim has aged, as for that of
	// another process.
	holders expiring.Map[types.UID, string]
	shortages
}

// Create implements driver.Driver.
func (d *Driver) Create(ctx context.Context, req driver.Request[Config]) (driver.Instance, error) {
	if _, busy := d.creating.LoadOrStore(req.Identity.UID, true); busy {
		return driver.Instance{}, fmt.Errorf("the machine is being made: %w", attachments.ErrBusy)
	}
	defer d.creating.Delete(req.Identity.UID)
	services, err := d.services(ctx)
	if err != nil {
		return driver.Instance{}, err
	}
	asked := driver.Identity{UID: req.Identity.UID, Name: req.Identity.Name, Owner: req.Identity.Owner}
	found, err := d.find(ctx, services, asked)
	if err != nil {
		return driver.Instance{}, err
	}
	if len(found) > 0 {
		return d.first(ctx, services, found, asked)
	}
	if err := d.short(asked.Owner.Namespace, req.Config, d.now()); err != nil {
		return driver.Instance{}, err
	}
	holder, _ := d.holders.GetOrSet(asked.UID, uuid.NewString())
	d.holders.Set(asked.UID, holder) // for another while
	claim := attachments.Claim{Ports: attachments.Ports{Client: services.Network}, Holder: holder, Now: d.now}
	made, err := creation{services: services, request: req, claim: claim, now: d.now}.run(ctx)
	if err == nil || errors.Is(err, errUnanswered) {
		// Nova may still be at work on a server that it has not listed yet. The next attempt has another
		// name and respects this claim like a stranger's, until it has aged or the server is listed.
		d.holders.Delete(asked.UID)
	}
	if driver.IsInvalidConfiguration(err) {
		// No server will ever come of it, so what it would have had need not wait for the Machine to be
		// deleted. Deletion cleans up what this leaves.
		_ = d.clear(ctx, services, asked, nil)
	}
	return made, err
}

// first returns the oldest server of an identity and removes the others. There are others only when a
// request was on its way for longer than a claim counts; whoever looked earlier knows the oldest.
func (d *Driver) first(ctx context.Context, services *access.Services, found []servers.Server, asked driver.Identity) (driver.Instance, error) {
	oldest, err := owned(found[0], asked)
	if err != nil {
		return driver.Instance{}, err
	}
	for _, other := range found[1:] {
		if _, err := owned(other, asked); err != nil {
			return driver.Instance{}, err
		}
		if err := d.end(ctx, services, other); err != nil {
			return driver.Instance{}, err
		}
	}
	return oldest, nil
}

// end removes a server that is not going already.
func (d *Driver) end(ctx context.Context, services *access.Services, server servers.Server) error {
	if at := toState(server); at == driver.Stopping || at == driver.Terminated {
		return nil
	}
	d.forget(server.ID)
	err := servers.Delete(ctx, services.Compute, server.ID).ExtractErr()
	if err != nil && !access.Missing(err) {
		return toError(fmt.Errorf("deleting server: %w", err), "", "")
	}
	return nil
}

// Get implements driver.Driver.
func (d *Driver) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	services, err := d.services(ctx)
	if nowhere(err, id) {
		return driver.Instance{}, &driver.NotFoundError{What: "server of " + id.Name}
	}
	if err != nil {
		return driver.Instance{}, err
	}
	if id.ProviderID != "" {
		server, err := d.get(ctx, services, instanceID(id.ProviderID))
		if err != nil {
			return driver.Instance{}, err
		}
		return owned(server, id)
	}
	found, err := d.find(ctx, services, id)
	if err != nil {
		return driver.Instance{}, err
	}
	if len(found) == 0 {
		return driver.Instance{}, &driver.NotFoundError{What: "server of " + id.Name}
	}
	return owned(found[0], id)
}

// Delete implements driver.Driver. Ports and floating IPs go at once, also while the server still stops:
// nobody asks a second time once the server is gone.
func (d *Driver) Delete(ctx context.Context, id driver.Identity) error {
	services, err := d.services(ctx)
	if nowhere(err, id) {
		return nil
	}
	if err != nil {
		return err
	}
	going, err := d.all(ctx, services, id)
	if err != nil {
		return err
	}
	for _, server := range going {
		if _, err := owned(server, driver.Identity{UID: id.UID, Name: id.Name, Owner: id.Owner}); err != nil {
			return err
		}
	}
	for _, server := range going {
		if err := d.end(ctx, services, server); err != nil {
			return err
		}
	}
	return toError(d.clear(ctx, services, id, going), "", "")
}

// all returns every server of an identity: those of its UID and the one that its provider ID names, which has
// another UID if somebody else's is named.
func (d *Driver) all(ctx context.Context, services *access.Services, id driver.Identity) (found []servers.Server, err error) {
	if id.UID != "" {
		if found, err = d.find(ctx, services, id); err != nil {
			return nil, err
		}
	}
	name := instanceID(id.ProviderID)
	if id.ProviderID == "" || slices.ContainsFunc(found, func(server servers.Server) bool { return server.ID == name }) {
		return found, nil
	}
	named, err := d.get(ctx, services, name)
	if driver.IsNotFound(err) {
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	return append([]servers.Server{named}, found...), nil
}

// clear removes what is beside the servers of an identity.
func (d *Driver) clear(ctx context.Context, services *access.Services, id driver.Identity, going []servers.Server) error {
	owner, grouped, last := id.Owner, len(going) == 0, ""
	if len(going) > 0 {
		known, _ := attachments.Identity(going[0].Metadata)
		// The group is called after the Cluster as it was, which may have moved and be tagged anew since.
		id.UID, owner.UID, last = known.UID, types.UID(going[0].Metadata[groupKey]), going[0].ID
		grouped = owner.UID != ""
	}
	if !id.Tagged() {
		return nil // nobody can tell whose things these are
	}
	if len(going) == 0 {
		if err := d.unused(ctx, services, id); err != nil {
			return err
		}
	}
	if grouped {
		if err := (attachments.Groups{Client: services.Compute}).Release(ctx, owner, last); err != nil {
			return err
		}
	}
	for _, things := range attachments.Kinds(services) {
		if err := things.Delete(ctx, id, len(going) > 0); err != nil {
			return err
		}
	}
	return nil
}

// unused fails with NotOwnedError while a server that does not carry the tags of an identity has one of its ports, as
// the machine's own does that lost them.
func (d *Driver) unused(ctx context.Context, services *access.Services, id driver.Identity) error {
	have, err := attachments.Ports{Client: services.Network}.Find(ctx, id.UID)
	if err != nil {
		return fmt.Errorf("listing ports: %w", err)
	}
	for _, port := range have {
		if port.DeviceID == "" {
			continue
		}
		server, err := d.get(ctx, services, port.DeviceID)
		if driver.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		if _, err := owned(server, driver.Identity{UID: id.UID, Name: id.Name, Owner: id.Owner}); err != nil {
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
		err = d.each(ctx, services, attachments.NamePrefix, func(server servers.Server) bool {
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

// find returns the servers of a UID, the oldest first. Nova filters by tag as soon as it has accepted a
// server.
func (d *Driver) find(ctx context.Context, services *access.Services, id driver.Identity) ([]servers.Server, error) {
	var found, own []servers.Server
	var tooMany error
	err := d.each(ctx, services, attachments.Name(id.UID), func(server servers.Server) bool {
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
		found = own // others may have the same UID, because whoever makes a machine chooses it
	}
	slices.SortFunc(found, func(a, b servers.Server) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return found, nil
}

// pageSize is how many servers a page of a list has at most: an answer of a server that a Secret names is bounded.
const pageSize = 500

// each calls visit for every server with a tag until it returns false.
func (d *Driver) each(ctx context.Context, services *access.Services, tag string, visit func(servers.Server) bool) error {
	pager := servers.List(services.Compute, servers.ListOpts{Tags: tag, Limit: pageSize})
	err := pager.EachPage(ctx, func(_ context.Context, page pagination.Page) (bool, error) {
		all, err := servers.ExtractServers(page)
		if err != nil {
			return false, err
		}
		for _, server := range all {
			d.explain(ctx, services, &server)
			d.notice(server, d.now())
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

// get reads one server. What is no server ID cannot be the ID of a server.
func (d *Driver) get(ctx context.Context, services *access.Services, id string) (servers.Server, error) {
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
	d.notice(*server, d.now())
	return *server, nil
}

func (d *Driver) services(ctx context.Context) (*access.Services, error) {
	services, err := d.session.Services(ctx)
	if err != nil {
		return nil, toError(err, "", "")
	}
	return services, nil
}

// AccountID implements driver.AccountIdentifier: the project, in the cloud whose identity service knows it.
func (d *Driver) AccountID(ctx context.Context) (string, error) {
	services, err := d.services(ctx)
	if err != nil {
		return "", err
	}
	return services.Account, nil
}

// nowhere is true when the region of a machine does not exist and nothing was ever made there, so that a
// machine with a bad region can be deleted.
func nowhere(err error, id driver.Identity) bool {
	return driver.IsInvalidConfiguration(err) && id.ProviderID == ""
}

// creation makes one server, from a state in which Nova lists none for its machine.
type creation struct {
	services *access.Services
	request  driver.Request[Config]
	claim    attachments.Claim
	now      func() time.Time
}

// run resolves every name before it makes anything, then makes what the server needs, the server last.
func (c creation) run(ctx context.Context) (driver.Instance, error) {
	config, id := c.request.Config, c.request.Identity
	data, err := userData(c.request.UserData, c.request.Format)
	if err != nil {
		return driver.Instance{}, err
	}
	plan, err := c.resolve(ctx)
	if err != nil {
		return driver.Instance{}, toError(err, config.Spec.Flavor, config.Zone)
	}
	have, err := c.claim.Take(ctx, id, plan.Ports(func(at int) string { return attachments.PortName(id, at) }))
	if err != nil {
		return driver.Instance{}, refused("spec.ports", err, config)
	}
	var disks []string
	if len(volumes(config)) > 0 {
		if disks, err = (attachments.Volumes{Client: c.services.Volume}).Ensure(ctx, id, wantedVolumes(config, plan.Image.ID)); err != nil {
			return driver.Instance{}, refused("spec.volumes", err, config)
		}
	}
	if plan.Pool.NetworkID != "" {
		if err := (attachments.FloatingIPs{Client: c.services.Network}).Ensure(ctx, id, have[0].ID, plan.Pool); err != nil {
			return driver.Instance{}, refused("spec.floatingIP", err, config)
		}
	}
	if config.Spec.ServerGroup.Policy != "" {
		if plan.GroupID, err = (attachments.Groups{Client: c.services.Compute}).Ensure(ctx, id.Owner, config.Spec.ServerGroup.Policy); err != nil {
			return driver.Instance{}, c.forbidden(ctx, plan, refused("spec.serverGroup", err, config))
		}
	}
	return c.boot(ctx, plan, parts{ports: have, disks: disks, userData: data})
}

// resolve looks up what the configuration names.
func (c creation) resolve(ctx context.Context) (lookup.Plan, error) {
	config := c.request.Config
	if len(volumes(config)) > 0 && c.services.Volume == nil {
		return lookup.Plan{}, &driver.InvalidConfigurationError{Field: "spec.volumes", Err: errors.New("the cloud has no volume service")}
	}
	if ptr.Deref(config.Spec.RegionalProviderID, false) && c.services.Region == "" {
		return lookup.Plan{}, &driver.InvalidConfigurationError{Field: "spec.region", Err: errors.New("the provider ID has to name the region, but neither the machine nor the credentials do")}
	}
	return lookup.Resolve(ctx, c.services, config.Spec)
}

// boot asks for the server.
func (c creation) boot(ctx context.Context, plan lookup.Plan, of parts) (driver.Instance, error) {
	config, id := c.request.Config, c.request.Identity
	options, hints := wantedServer(c.request, plan, of)
	if ptr.Deref(config.Spec.RegionalProviderID, false) {
		options.Metadata[regionKey] = c.services.Region
	}
	made, err := servers.Create(ctx, c.services.Compute, keypairs.CreateOptsExt{CreateOptsBuilder: options, KeyName: config.Spec.KeyPair}, hints).Extract()
	if unanswered(err) {
		return driver.Instance{}, fmt.Errorf("creating server: %w: %w", errUnanswered, toError(err, config.Spec.Flavor, config.Zone))
	}
	if err != nil {
		return driver.Instance{}, c.refusal(ctx, plan, &attachments.CreationError{What: "server", Err: err})
	}
	// Nova answers with little more than the ID; the rest is what was just asked for.
	made.Name, made.Metadata, made.Status, made.Created = options.Name, options.Metadata, "BUILD", c.now()
	if read, err := servers.Get(ctx, c.services.Compute, made.ID).Extract(); err == nil {
		made = read
	}
	return owned(*made, driver.Identity{UID: id.UID, Name: id.Name, Owner: id.Owner})
}
