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
	"k8s.io/utils/clock"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/hetzner/catalog"
	"drover.io/infra-providers/hetzner/volume"
	"drover.io/infra-providers/internal/inflight"
)

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=hetznermachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=hetznermachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=hetznermachinetemplates,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=hetznermachinetemplates/status,verbs=patch

// Options are the settings of the provider.
type Options struct {
	// Clock is the real clock if it is nil.
	Clock clock.PassiveClock
}

// Cloud returns the description of Hetzner Cloud.
func Cloud(options Options) driver.Cloud[*infrav1.HetznerMachine, InstanceConfig] {
	return driver.Cloud[*infrav1.HetznerMachine, InstanceConfig]{
		Name:           "hetzner",
		NewMachine:     func() *infrav1.HetznerMachine { return &infrav1.HetznerMachine{} },
		NewMachineList: func() driver.MachineList { return &infrav1.HetznerMachineList{} },
		NewTemplate:    func() driver.Template[*infrav1.HetznerMachine] { return &infrav1.HetznerMachineTemplate{} },
		Config:         NewInstanceConfig,
		Account:        toAccount,
		Alternatives:   alternatives,
		Offering:       toOffering,
		// A project has 3600 requests an hour for all its clients, replenished at one per second. A call of the driver
		// makes one to a handful of them.
		Limits: driver.Limits{PerSecond: 0.5, Burst: 300},
		Connect: func(_ context.Context, account driver.Account, credentials driver.Credentials) (driver.Driver[InstanceConfig], error) {
			return connect(options, account, credentials)
		},
	}
}

const (
	// timeout bounds one request.
	timeout = 30 * time.Second
	// pageSize is the maximum page size of the API.
	pageSize = volume.PageSize
)

// connect reads the token from the key token of the Secret, or from HCLOUD_TOKEN.
func connect(options Options, account driver.Account, credentials driver.Credentials) (driver.Driver[InstanceConfig], error) {
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
	clientOptions := []hcloud.ClientOption{
		hcloud.WithToken(token),
		hcloud.WithApplication("drover", ""),
		hcloud.WithHTTPClient(&http.Client{Timeout: timeout}),
		// Retries are the caller's.
		hcloud.WithRetryOpts(hcloud.RetryOpts{MaxRetries: 0}),
	}
	if endpoint := os.Getenv("HCLOUD_ENDPOINT"); endpoint != "" {
		clientOptions = append(clientOptions, hcloud.WithEndpoint(endpoint))
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return New(hcloud.NewClient(clientOptions...), options.Clock), nil
}

// New returns a driver of the project of a client.
func New(client *hcloud.Client, clock clock.PassiveClock) *Driver {
	return &Driver{
		api: &client.Server, catalog: catalog.New(client, clock), volumes: volume.NewStore(client), creations: inflight.New(clock), clock: clock,
	}
}

// Driver implements driver.Driver, driver.AccountIdentifier, driver.CapacityProvider, driver.ImageFinder, driver.Tagger,
// driver.Restarter and driver.AttachedObjectLister.
type Driver struct {
	api       api
	catalog   *catalog.Catalog
	volumes   *volume.Store
	creations *inflight.Creations
	clock     clock.PassiveClock
}

// api lists the calls for servers in use. Packages catalog and volume have the others.
type api interface {
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

// Create implements driver.Driver. A server that needs more than the API accepts at its creation is completed over
// several calls: each but the last fails with a transient error, so that the caller retries.
func (d *Driver) Create(ctx context.Context, req driver.CreateRequest[InstanceConfig]) (driver.Instance, error) {
	userData, err := encodeUserData(req.UserData, req.Format)
	if err != nil {
		return driver.Instance{}, err
	}
	server, err := d.findByLabels(ctx, req.Identity)
	if err == nil && (server == nil || isOtherMachines(server, req.Identity)) {
		server, err = d.createServer(ctx, req, userData)
	}
	if err != nil {
		return driver.Instance{}, toError(err, req.Config, d.clock.Now())
	}
	instance, err := req.Identity.Checked(toInstance(server))
	if err != nil {
		return driver.Instance{}, err
	}
	if err := d.completeServer(ctx, server, req.Config); err != nil {
		return driver.Instance{}, withServer(toError(err, req.Config, d.clock.Now()))
	}
	return instance, nil
}

// Get implements driver.Driver.
func (d *Driver) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	_, found, err := d.get(ctx, id)
	return found, err
}

// serverObject names the server among the creations of a machine, of which it is the only one.
const serverObject = "server"

// mayAppear reports whether a request for a machine may still take effect. For a machine with a provider ID none can: its
// request was answered.
func (d *Driver) mayAppear(id driver.Identity) bool {
	if id.ProviderID != "" {
		return false
	}
	unanswered, known := d.creations.Get(id, serverObject)
	return known && d.creations.MayAppear(unanswered) || d.creations.InStartupWindow()
}

// get returns the server of an identity and its instance.
func (d *Driver) get(ctx context.Context, id driver.Identity) (*hcloud.Server, driver.Instance, error) {
	// Whether a request may take effect is read first: the window may end during the search.
	mayAppear := d.mayAppear(id)
	server, err := d.find(ctx, id)
	if err != nil {
		return nil, driver.Instance{}, d.toRetryableError(err)
	}
	if mayAppear && (server == nil || isOtherMachines(server, id)) {
		return nil, driver.Instance{}, errCreationUnknown
	}
	if server == nil {
		return nil, driver.Instance{}, &driver.NotFoundError{What: fmt.Sprintf("server %q", id.Name)}
	}
	found, err := id.Checked(toInstance(server))
	return server, found, err
}

// Delete implements driver.Driver. The server is deleted last: while its volumes are being detached Delete returns with
// the server still there, and continues when it is called again.
func (d *Driver) Delete(ctx context.Context, id driver.Identity) error {
	server, err := d.find(ctx, id)
	if err != nil {
		return d.toRetryableError(err)
	}
	if server != nil {
		instance, err := id.Checked(toInstance(server))
		if err != nil && id.ProviderID == "" && isOtherMachines(server, id) {
			// Another machine's server has the same UID. The volumes of a creation without a server are deleted.
			if _, failure := d.volumes.Delete(ctx, id); failure != nil {
				return d.toRetryableError(failure)
			}
		}
		if err != nil {
			return err
		}
		id = instance.Identity
	}
	return d.toRetryableError(d.deleteServer(ctx, server, id))
}

func (d *Driver) deleteServer(ctx context.Context, server *hcloud.Server, id driver.Identity) error {
	deleted, err := d.volumes.Delete(ctx, id)
	switch {
	case err != nil:
		return err
	case server == nil && !deleted:
		return errors.New("waiting for volumes to be detached from a server of another machine")
	case server == nil, !deleted, server.Status == hcloud.ServerStatusDeleting:
		return nil
	}
	_, _, err = d.api.DeleteWithResult(ctx, server)
	if hcloud.IsError(err, hcloud.ErrorCodeNotFound) {
		return nil
	}
	return err
}

// find returns the server of an identity, or nil: by its ID if that is known, otherwise by its name, which is unique in
// the project, and otherwise by its labels.
func (d *Driver) find(ctx context.Context, id driver.Identity) (*hcloud.Server, error) {
	if number, ok := parseProviderID(id.ProviderID); ok {
		found, _, err := d.api.GetByID(ctx, number)
		return found, err
	}
	found, _, err := d.api.GetByName(ctx, id.Name)
	if err != nil {
		return nil, err
	}
	if found != nil {
		if _, err := id.Checked(toInstance(found)); err == nil {
			return found, nil
		}
	}
	return d.findByLabels(ctx, id)
}

// findByLabels returns the server with the labels of an identity, or nil. It may have another name. Servers of other
// machines may have the same UID, because the author of a machine may choose it: the machine's own takes precedence.
func (d *Driver) findByLabels(ctx context.Context, id driver.Identity) (first *hcloud.Server, err error) {
	for server, err := range d.listByLabels(ctx, volume.Selector(id)) {
		if err != nil {
			return nil, err
		}
		if _, err := id.Checked(toInstance(server)); err == nil {
			return server, nil
		}
		first = cmp.Or(first, server)
	}
	return first, nil
}

// isOtherMachines reports whether a server belongs to another machine, rather than lacks labels.
func isOtherMachines(server *hcloud.Server, id driver.Identity) bool {
	_, err := id.Checked(toInstance(server))
	return err != nil && !driver.IsUntagged(err)
}

// List implements driver.Driver. Pages are numbered, so a server may move to a page that was already read when another
// one is deleted meanwhile. This is why callers confirm an absence by Get.
func (d *Driver) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		for server, err := range d.listByLabels(ctx, toSelector(owner)) {
			if err != nil {
				yield(driver.Instance{}, d.toRetryableError(fmt.Errorf("listing servers: %w", err)))
				return
			}
			if !yield(toInstance(server), nil) {
				return
			}
		}
	}
}

// listByLabels yields the servers of a label selector over all pages, the oldest first, and a failure last.
func (d *Driver) listByLabels(ctx context.Context, selector string) iter.Seq2[*hcloud.Server, error] {
	return func(yield func(*hcloud.Server, error) bool) {
		opts := hcloud.ServerListOpts{ListOpts: hcloud.ListOpts{Page: 1, PerPage: pageSize, LabelSelector: selector}, Sort: []string{"id:asc"}}
		for opts.Page != 0 {
			found, response, err := d.api.List(ctx, opts)
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

// toRetryableError returns the kind of an error that is independent of the configuration: what cannot be read or deleted
// now may be later, and must not count as an invalid configuration.
func (d *Driver) toRetryableError(err error) error {
	return driver.WithoutInvalidConfiguration(toError(err, InstanceConfig{}, d.clock.Now()))
}
