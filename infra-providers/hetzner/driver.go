// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetzner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/hetzner/catalog"
	"drover.io/infra-providers/hetzner/inflight"
	"drover.io/infra-providers/hetzner/volume"
)

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=hetznermachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=hetznermachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=hetznermachinetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=hetznermachinetemplates/status,verbs=patch

// Cloud describes Hetzner Cloud.
func Cloud() driver.Cloud[*infrav1.HetznerMachine, Config] {
	return driver.Cloud[*infrav1.HetznerMachine, Config]{
		Name:           "hetzner",
		NewMachine:     func() *infrav1.HetznerMachine { return &infrav1.HetznerMachine{} },
		NewMachineList: func() driver.MachineList { return &infrav1.HetznerMachineList{} },
		NewTemplate:    func() driver.Template[*infrav1.HetznerMachine] { return &infrav1.HetznerMachineTemplate{} },
		Config:         NewConfig,
		Account: func(m *infrav1.HetznerMachine) driver.Account {
			return driver.Account{SecretName: m.Spec.CredentialsSecretName}
		},
		Alternatives: alternatives,
		Place:        place,
		// A project has 3600 requests an hour, which come back one a second, for all that use it. A call
		// takes one to a handful of them.
		Limits:  driver.Limits{PerSecond: 0.5, Burst: 300},
		Connect: connect,
	}
}

const (
	// timeout bounds one request.
	timeout = 30 * time.Second
	// pageSize is the most that the cloud lists at once.
	pageSize = volume.PageSize
)

// connect takes the token from the Secret's key token, or from HCLOUD_TOKEN.
func connect(_ context.Context, account driver.Account, credentials driver.Credentials) (driver.Driver[Config], error) {
	token, source := os.Getenv("HCLOUD_TOKEN"), "the environment variable HCLOUD_TOKEN"
	if account.SecretName != "" {
		token, source = string(credentials["token"]), fmt.Sprintf("the key token of Secret %q", account.SecretName)
	}
	token = strings.TrimSpace(token)
	if token == "" {
		return nil, &driver.UnauthorizedError{Err: fmt.Errorf("%s has no API token of the project", source)}
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, &driver.UnauthorizedError{Err: fmt.Errorf("%s has characters that no API token has", source)}
	}
	options := []hcloud.ClientOption{
		hcloud.WithToken(token),
		hcloud.WithApplication("drover", ""),
		hcloud.WithHTTPClient(&http.Client{Timeout: timeout}),
		// Waiting and trying again is the caller's.
		hcloud.WithRetryOpts(hcloud.RetryOpts{MaxRetries: 0}),
	}
	if endpoint := os.Getenv("HCLOUD_ENDPOINT"); endpoint != "" {
		options = append(options, hcloud.WithEndpoint(endpoint))
	}
	return New(hcloud.NewClient(options...), time.Now), nil
}

// New returns a driver of the project that a client speaks to.
func New(client *hcloud.Client, now func() time.Time) *Driver {
	return &Driver{
		servers: &client.Server, catalog: catalog.New(client, now), volumes: volume.NewStore(client), inflight: inflight.New(now), now: now,
	}
}

// Driver implements driver.Driver, driver.AccountIdentifier, driver.Sizer, driver.ImageFinder, driver.Tagger,
// driver.Restarter and driver.Remainder.
type Driver struct {
	servers  servers
	catalog  *catalog.Catalog
	volumes  *volume.Store
	inflight *inflight.Requests
	now      func() time.Time
}

// servers is what is used of the SDK beside what catalog and volume use.
type servers interface {
	GetByID(ctx context.Context, id int64) (*hcloud.Server, *hcloud.Response, error)
	GetByName(ctx context.Context, name string) (*hcloud.Server, *hcloud.Response, error)
	List(ctx context.Context, opts hcloud.ServerListOpts) ([]*hcloud.Server, *hcloud.Response, error)
	Create(ctx context.Context, opts hcloud.ServerCreateOpts) (hcloud.ServerCreateResult, *hcloud.Response, error)
	Update(ctx context.Context, server *hcloud.Server, opts hcloud.ServerUpdateOpts) (*hcloud.Server, *hcloud.Response, error)
	DeleteWithResult(ctx context.Context, server *hcloud.Server) (*hcloud.ServerDeleteResult, *hcloud.Response, error)
	AttachToNetwork(ctx context.Context, server *hcloud.Server, opts hcloud.ServerAttachToNetworkOpts) (*hcloud.Action, *hcloud.Response, error)
	EnableBackup(ctx context.Context, server *hcloud.Server, window string) (*hcloud.Action, *hcloud.Response, error)
	Poweron(ctx context.Context, server *hcloud.Server) (*hcloud.Action, *hcloud.Response, error)
	Reset(ctx context.Context, server *hcloud.Server) (*hcloud.Action, *hcloud.Response, error)
}

// Create implements driver.Driver. A server that needs more than can be ordered with it is finished over
// several calls: each but the last fails in a passing way, so that the caller comes back.
func (d *Driver) Create(ctx context.Context, req driver.Request[Config]) (driver.Instance, error) {
	userData, err := encode(req.UserData, req.Format)
	if err != nil {
		return driver.Instance{}, err
	}
	server, err := d.byLabels(ctx, req.Identity)
	if err == nil && (server == nil || foreign(server, req.Identity)) {
		server, err = d.order(ctx, req, userData)
	}
	if err != nil {
		return driver.Instance{}, toError(err, req.Config, d.now())
	}
	instance, err := owned(server, req.Identity)
	if err != nil {
		return driver.Instance{}, err
	}
	if err := d.finish(ctx, server, req.Config); err != nil {
		return driver.Instance{}, withServer(toError(err, req.Config, d.now()))
	}
	return instance, nil
}

// order makes the server, or returns the one of its name.
func (d *Driver) order(ctx context.Context, req driver.Request[Config], userData string) (*hcloud.Server, error) {
	opts, err := d.options(ctx, req.Identity, req.Config)
	if err != nil {
		return nil, err
	}
	opts.UserData = userData
	// Last, so that nothing is made for a spec that names what does not exist.
	opts.Volumes, err = d.volumes.Ensure(ctx, volume.Wanted{
		Identity: req.Identity, Location: req.Config.Location, Labels: opts.Labels, Volumes: req.Config.Volumes,
	})
	if err != nil {
		return nil, d.noted(req.Identity, err)
	}
	for _, attached := range opts.Volumes {
		if attached.Server != nil {
			// The server exists and lists do not show it yet.
			return d.byID(ctx, attached.Server.ID)
		}
	}
	made, _, err := d.servers.Create(ctx, opts)
	if hcloud.IsError(err, hcloud.ErrorCodeUniquenessError) {
		return d.taken(ctx, req.Identity, err)
	}
	return made.Server, d.noted(req.Identity, err)
}

// noted remembers a request to make something that had no answer.
func (d *Driver) noted(id driver.Identity, err error) error {
	if err != nil && !answered(err) {
		d.inflight.Lost(id.UID)
	}
	return err
}

// options is the order without user data and volumes: everything is there that the spec names.
func (d *Driver) options(ctx context.Context, id driver.Identity, config Config) (opts hcloud.ServerCreateOpts, err error) {
	opts = hcloud.ServerCreateOpts{
		Name:             id.Name,
		Labels:           volume.Labels(config.Labels, id),
		StartAfterCreate: hcloud.Ptr(!startsLater(config)),
		Automount:        hcloud.Ptr(false),
	}
	if config.Location != "" {
		opts.Location = &hcloud.Location{Name: config.Location}
	}
	if opts.ServerType, opts.Image, err = d.choose(ctx, config); err != nil {
		return opts, err
	}
	if opts.SSHKeys, err = d.catalog.SSHKeys(ctx, config.SSHKeys); err != nil {
		return opts, err
	}
	if config.PlacementGroup != "" || config.PlacementGroupSelector != "" {
		if opts.PlacementGroup, err = d.catalog.PlacementGroup(ctx, config.PlacementGroup, config.PlacementGroupSelector); err != nil {
			return opts, err
		}
	}
	return opts, d.connectivity(ctx, config, &opts)
}

// choose returns the server type, and the image for its architecture.
func (d *Driver) choose(ctx context.Context, config Config) (*hcloud.ServerType, *hcloud.Image, error) {
	serverType, err := d.catalog.ServerType(ctx, config.ServerType)
	if err != nil {
		return nil, nil, err
	}
	image, err := d.catalog.Image(ctx, config.Image, config.ImageSelector, serverType.Architecture)
	return serverType, image, err
}

// connectivity adds networks, public addresses and firewalls to an order.
func (d *Driver) connectivity(ctx context.Context, config Config, opts *hcloud.ServerCreateOpts) (err error) {
	if opts.Networks, err = d.catalog.Networks(ctx, plain(config.Networks)); err != nil {
		return err
	}
	firewalls, err := d.catalog.Firewalls(ctx, config.Firewalls)
	if err != nil {
		return err
	}
	for _, firewall := range firewalls {
		opts.Firewalls = append(opts.Firewalls, &hcloud.ServerCreateFirewall{Firewall: *firewall})
	}
	public := &hcloud.ServerCreatePublicNet{EnableIPv4: enabled(config.PublicIPv4), EnableIPv6: enabled(config.PublicIPv6)}
	opts.PublicNet = public
	v4, v6 := config.PublicIPv4, config.PublicIPv6
	if public.IPv4, err = d.catalog.PrimaryIP(ctx, catalog.Address{
		Field: "spec.publicIPv4", Kind: hcloud.PrimaryIPTypeIPv4, Name: v4.PrimaryIP, Selector: v4.PrimaryIPSelector, Location: config.Location,
	}); err != nil {
		return err
	}
	public.IPv6, err = d.catalog.PrimaryIP(ctx, catalog.Address{
		Field: "spec.publicIPv6", Kind: hcloud.PrimaryIPTypeIPv6, Name: v6.PrimaryIP, Selector: v6.PrimaryIPSelector, Location: config.Location,
	})
	return err
}

// byID returns a server that was there a moment ago.
func (d *Driver) byID(ctx context.Context, id int64) (*hcloud.Server, error) {
	found, _, err := d.servers.GetByID(ctx, id)
	if err == nil && found == nil {
		err = fmt.Errorf("server %d went away", id)
	}
	return found, err
}

// taken returns the server whose name is in use if it is this machine's: made by a call whose answer was
// lost, or by a caller that was faster. A stranger's keeps the machine waiting until its name is free.
func (d *Driver) taken(ctx context.Context, id driver.Identity, cause error) (*hcloud.Server, error) {
	found, _, err := d.servers.GetByName(ctx, id.Name)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, cause
	}
	if _, foreign := owned(found, id); foreign != nil {
		return nil, fmt.Errorf("the project has another server with the name of this machine, %q (%s): delete one of them", found.Name, providerID(found.ID))
	}
	return found, nil
}

// finish asks for the next thing that a new server lacks. One at a time, because a server is locked while
// the cloud works on it.
func (d *Driver) finish(ctx context.Context, server *hcloud.Server, config Config) error {
	attach, err := d.unattached(ctx, server, config)
	if err != nil {
		return err
	}
	held := startsLater(config) && (server.Status == hcloud.ServerStatusOff || server.Status == hcloud.ServerStatusInitializing)
	switch {
	case attach == nil && (!config.Backups || server.BackupWindow != "") && !held:
		return nil
	case server.Locked:
		return errUnfinished
	case attach != nil:
		_, _, err = d.servers.AttachToNetwork(ctx, server, *attach)
	case config.Backups && server.BackupWindow == "":
		_, _, err = d.servers.EnableBackup(ctx, server, "")
	default:
		_, _, err = d.servers.Poweron(ctx, server)
	}
	if err != nil {
		return err
	}
	return errUnfinished
}

// unattached returns the next network that a server has to be attached to, or nil.
func (d *Driver) unattached(ctx context.Context, server *hcloud.Server, config Config) (*hcloud.ServerAttachToNetworkOpts, error) {
	for _, network := range config.Networks {
		if !chosen(network) {
			continue
		}
		found, err := d.catalog.Networks(ctx, []string{network.Name})
		if err != nil {
			return nil, err
		}
		if server.PrivateNetFor(found[0]) != nil {
			continue
		}
		opts, err := attachment(network)
		opts.Network = found[0]
		return &opts, err
	}
	return nil, nil
}

// Get implements driver.Driver.
func (d *Driver) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	_, found, err := d.have(ctx, id)
	return found, err
}

// have returns the server of an identity that there is and that is its own.
func (d *Driver) have(ctx context.Context, id driver.Identity) (*hcloud.Server, driver.Instance, error) {
	// What could still appear before the search began may appear behind its back.
	unsure := d.inflight.Any(id)
	server, err := d.find(ctx, id)
	if err != nil {
		return nil, driver.Instance{}, d.passing(err)
	}
	if unsure && (server == nil || foreign(server, id)) {
		return nil, driver.Instance{}, errInFlight
	}
	if server == nil {
		return nil, driver.Instance{}, &driver.NotFoundError{What: fmt.Sprintf("server %q", id.Name)}
	}
	found, err := owned(server, id)
	return server, found, err
}

// Delete implements driver.Driver. The server goes last: while its volumes are being detached Delete
// returns with the server still there, and goes on when it is called again.
func (d *Driver) Delete(ctx context.Context, id driver.Identity) error {
	server, err := d.find(ctx, id)
	if err != nil {
		return d.passing(err)
	}
	if server != nil {
		instance, err := owned(server, id)
		if err != nil && id.ProviderID == "" && foreign(server, id) {
			// It only carries the same UID; what a creation left that did not get as far as a server goes.
			if _, failure := d.volumes.Release(ctx, id); failure != nil {
				return d.passing(failure)
			}
		}
		if err != nil {
			return err
		}
		id = instance.Identity
	}
	return d.passing(d.remove(ctx, server, id))
}

func (d *Driver) remove(ctx context.Context, server *hcloud.Server, id driver.Identity) error {
	released, err := d.volumes.Release(ctx, id)
	switch {
	case err != nil:
		return err
	case server == nil && !released:
		return errors.New("waiting for volumes to be detached from a server of another machine")
	case server == nil, !released, server.Status == hcloud.ServerStatusDeleting:
		return nil
	}
	_, _, err = d.servers.DeleteWithResult(ctx, server)
	if hcloud.IsError(err, hcloud.ErrorCodeNotFound) {
		return nil
	}
	return err
}

// find returns the server of an identity, or nil: by its ID if that is known, otherwise by its name, which
// the project keeps unique, and failing that by its label.
func (d *Driver) find(ctx context.Context, id driver.Identity) (*hcloud.Server, error) {
	if number, ok := instanceID(id.ProviderID); ok {
		found, _, err := d.servers.GetByID(ctx, number)
		return found, err
	}
	found, _, err := d.servers.GetByName(ctx, id.Name)
	if err != nil {
		return nil, err
	}
	if found != nil {
		if _, foreign := owned(found, id); foreign == nil {
			return found, nil
		}
	}
	return d.byLabels(ctx, id)
}

// byLabels returns the server that carries an identity's label, or nil. It may be one of another name. Others may
// carry the same UID, because whoever makes a machine chooses it: the machine's own counts before them.
func (d *Driver) byLabels(ctx context.Context, id driver.Identity) (first *hcloud.Server, err error) {
	for server, err := range d.labelled(ctx, volume.Selector(id)) {
		if err != nil {
			return nil, err
		}
		if _, foreign := owned(server, id); foreign == nil {
			return server, nil
		}
		first = cmp.Or(first, server)
	}
	return first, nil
}

// foreign reports whether a server is another machine's, rather than one that lacks labels.
func foreign(server *hcloud.Server, id driver.Identity) bool {
	_, err := owned(server, id)
	return err != nil && !driver.IsUntagged(err)
}

// List implements driver.Driver. Pages are numbered, so a server may slip to a page that was read already
// when another is deleted meanwhile: the reason why callers confirm an absence by Get.
func (d *Driver) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		for server, err := range d.labelled(ctx, selector(owner)) {
			if err != nil {
				yield(driver.Instance{}, d.passing(fmt.Errorf("listing servers: %w", err)))
				return
			}
			if !yield(toInstance(server), nil) {
				return
			}
		}
	}
}

// labelled yields the servers of a label selector, the oldest first, over all pages. A failure comes last.
func (d *Driver) labelled(ctx context.Context, selector string) iter.Seq2[*hcloud.Server, error] {
	return func(yield func(*hcloud.Server, error) bool) {
		opts := hcloud.ServerListOpts{ListOpts: hcloud.ListOpts{Page: 1, PerPage: pageSize, LabelSelector: selector}, Sort: []string{"id:asc"}}
		for opts.Page != 0 {
			found, response, err := d.servers.List(ctx, opts)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, server := range found {
				if !yield(server, nil) {
					return
				}
			}
			opts.Page = 0
			if response.Meta.Pagination != nil {
				opts.Page = response.Meta.Pagination.NextPage
			}
		}
	}
}

// passing is the error of a call that no configuration is at fault for: what cannot be read or deleted now
// may be later, and a machine must not be stuck with it.
func (d *Driver) passing(err error) error {
	err = toError(err, Config{}, d.now())
	if driver.IsInvalidConfiguration(err) {
		return errors.New(err.Error())
	}
	return err
}

// architectures are Kubernetes' words for the cloud's.
var architectures = map[hcloud.Architecture]string{hcloud.ArchitectureX86: "amd64", hcloud.ArchitectureARM: "arm64"}
