// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitalocean

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/digitalocean/godo"
	"k8s.io/utils/clock"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/digitalocean/catalog"
	"drover.io/infra-providers/digitalocean/claim"
	"drover.io/infra-providers/digitalocean/tag"
	"drover.io/infra-providers/digitalocean/volume"
	"drover.io/infra-providers/driver"
	"drover.io/runtime/egress"
	"drover.io/runtime/expiring"
	"drover.io/runtime/httplimit"
)

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=digitaloceanmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=digitaloceanmachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=digitaloceanmachinetemplates,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=digitaloceanmachinetemplates/status,verbs=patch

// Options are the settings of the provider.
type Options struct {
	// Clock is the real clock if it is nil.
	Clock clock.PassiveClock
}

// Cloud returns the description of DigitalOcean.
func Cloud(options Options) driver.Cloud[*infrav1.DigitalOceanMachine, InstanceConfig] {
	return driver.Cloud[*infrav1.DigitalOceanMachine, InstanceConfig]{
		Name:           "digitalocean",
		NewMachine:     func() *infrav1.DigitalOceanMachine { return &infrav1.DigitalOceanMachine{} },
		NewMachineList: func() driver.MachineList { return &infrav1.DigitalOceanMachineList{} },
		NewTemplate:    func() driver.Template[*infrav1.DigitalOceanMachine] { return &infrav1.DigitalOceanMachineTemplate{} },
		Config:         NewInstanceConfig,
		Account:        toAccount,
		Alternatives:   alternatives,
		Offering:       toOffering,
		// A token has 5000 requests an hour and 250 a minute. A call of the driver makes one to seven of them.
		Limits: driver.Limits{PerSecond: 0.35, Burst: 40},
		Connect: func(_ context.Context, account driver.Account, credentials driver.Credentials) (driver.Driver[InstanceConfig], error) {
			return connect(options, account, credentials)
		},
	}
}

const (
	// timeout bounds one request. It is much shorter than claim.Window.
	timeout = 30 * time.Second
	// pageSize is the maximum page size of the API.
	pageSize = volume.PageSize
	// stoppingTime is how long a Droplet counts as being deleted after the cloud accepted that. It has no state for it.
	stoppingTime = time.Minute
	// lateTime is how long a request for a volume may take effect after its answer was lost. Usually it takes seconds.
	lateTime = 2 * time.Minute
	// memoryTTL is how long deletions are remembered.
	memoryTTL = time.Hour
)

// connect reads the token from the key token of the Secret, or from DIGITALOCEAN_TOKEN.
func connect(options Options, account driver.Account, credentials driver.Credentials) (driver.Driver[InstanceConfig], error) {
	token, source := os.Getenv("DIGITALOCEAN_TOKEN"), "the environment variable DIGITALOCEAN_TOKEN"
	if account.SecretName != "" {
		token, source = string(credentials["token"]), fmt.Sprintf("the key token of Secret %q", account.SecretName)
	}
	token = strings.TrimSpace(token)
	if token == "" {
		return nil, &driver.UnauthorizedError{Err: fmt.Errorf("%s has no API token", source)}
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, &driver.UnauthorizedError{Err: fmt.Errorf("%s has characters that no API token has", source)}
	}
	client, err := NewClient(token, os.Getenv("DIGITALOCEAN_API_URL"), http.DefaultTransport)
	if err != nil {
		return nil, err
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return New(client, options.Clock), nil
}

// NewClient returns a client of the API; an empty endpoint is the cloud's own. Retries are the caller's.
func NewClient(token, endpoint string, transport http.RoundTripper) (*godo.Client, error) {
	options := []godo.ClientOpt{godo.SetUserAgent("drover"), godo.SetRequestHeaders(map[string]string{"Authorization": "Bearer " + token})}
	if endpoint != "" {
		options = append(options, godo.SetBaseURL(strings.TrimSuffix(endpoint, "/")+"/"))
	}
	client, err := godo.New(&http.Client{
		Timeout: timeout, Transport: ownAnswers{httplimit.Wrap(transport, httplimit.MaxCloudAnswer)}, CheckRedirect: egress.NoRedirects,
	}, options...)
	if err != nil {
		return nil, fmt.Errorf("the environment variable DIGITALOCEAN_API_URL: %w", err)
	}
	return client, nil
}

// Driver implements driver.Driver, driver.AccountIdentifier, driver.CapacityProvider, driver.ImageFinder, driver.Tagger,
// driver.Restarter and driver.AttachedObjectLister.
type Driver struct {
	client  *godo.Client
	catalog *catalog.Catalog
	claims  *claim.Store
	volumes *volume.Store
	clock   clock.PassiveClock

	// creating has the machines with a creation in progress.
	creating sync.Map
	// holders has the name under which this process claimed a machine, as long as no request for a Droplet was sent
	// under it, or the cloud refused all.
	holders expiring.Map[driver.Identity, string]
	// lateVolumes has the machines for which a request for a volume had no answer. It may still be carried out.
	lateVolumes expiring.Map[driver.Identity, struct{}]
	// deletions has when the deletion of the Droplet of a machine was accepted.
	deletions expiring.Map[driver.Identity, time.Time]
}

// New returns a driver of the team of a client.
func New(client *godo.Client, clock clock.PassiveClock) *Driver {
	d := &Driver{client: client, catalog: catalog.New(client, clock), claims: claim.NewStore(client), volumes: volume.NewStore(client), clock: clock}
	d.holders.Clock, d.holders.TTL = clock, memoryTTL
	d.deletions.Clock, d.deletions.TTL = clock, memoryTTL
	d.lateVolumes.Clock, d.lateVolumes.TTL = clock, lateTime
	return d
}

// withoutUID returns the part of an identity that never changes.
func withoutUID(id driver.Identity) driver.Identity {
	id.ProviderID, id.Owner.UID = "", ""
	return id
}

// Create implements driver.Driver. A Droplet with a reserved IP is completed over several calls: each but the last fails
// with an UnfinishedError, so that the caller retries.
func (d *Driver) Create(ctx context.Context, req driver.CreateRequest[InstanceConfig]) (driver.Instance, error) {
	req.Identity.ProviderID = ""
	if err := checkRequest(req); err != nil {
		return driver.Instance{}, err
	}
	machine := withoutUID(req.Identity)
	if _, busy := d.creating.LoadOrStore(machine, true); busy {
		return driver.Instance{}, errBusy
	}
	defer d.creating.Delete(machine)
	droplet, _, err := d.find(ctx, req.Identity)
	if err == nil && droplet == nil {
		droplet, err = d.createDroplet(ctx, req)
	}
	if err != nil {
		return driver.Instance{}, toError(err, d.clock.Now())
	}
	instance, err := req.Identity.Checked(d.toInstance(droplet))
	if err == nil && req.Config.ReservedIP {
		err = withDroplet(toError(d.ensureReservedIP(ctx, req.Identity, droplet), d.clock.Now()))
	}
	if err != nil {
		return driver.Instance{}, err
	}
	return instance, nil
}

// checkRequest refuses what no Droplet can be created with.
func checkRequest(req driver.CreateRequest[InstanceConfig]) error {
	if err := tag.Check(req.Identity); err != nil {
		return driver.NeverValid("metadata.name", "%w", err)
	}
	return checkUserData(req.UserData)
}

// Get implements driver.Driver. Without a provider ID, a Droplet that may still appear is not reported as missing.
func (d *Driver) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	droplet, claimed, err := d.find(ctx, id)
	if err == nil && droplet == nil && claimed != nil && d.mayCreate(*claimed) {
		err = errBusy
	}
	if err != nil {
		return driver.Instance{}, d.toRetryableError(err)
	}
	if droplet == nil {
		return driver.Instance{}, &driver.NotFoundError{What: fmt.Sprintf("Droplet of machine %q", id.Name)}
	}
	return id.Checked(d.toInstance(droplet))
}

// mayCreate reports whether a Droplet may still be created under a claim.
func (d *Driver) mayCreate(claimed claim.Claim) bool {
	holder, known := d.holders.Get(withoutUID(claimed.Identity))
	unused := known && holder == claimed.Holder
	return claimed.DropletID == 0 && claimed.Fresh(d.clock.Now()) && !unused
}

// find returns the Droplet of an identity, or nil: by its ID if that is known, otherwise by the tag of its UID, and otherwise
// by the record in its claim, because the cloud lists a Droplet by its tags some time after its creation. Where it read the
// claim, it returns that, too.
func (d *Driver) find(ctx context.Context, id driver.Identity) (*godo.Droplet, *claim.Claim, error) {
	if number, ok := parseProviderID(id.ProviderID); ok {
		droplet, err := d.read(ctx, number)
		return droplet, nil, err
	}
	found, err := d.findByUID(ctx, id)
	if err != nil || len(found) > 0 {
		return first(found), nil, err
	}
	return d.findByClaim(ctx, id)
}

// findByUID returns the Droplets with the UID of a machine, its own first and the oldest of them first. Droplets of other
// machines may have the same UID, because the author of a machine may choose it.
func (d *Driver) findByUID(ctx context.Context, id driver.Identity) (found []*godo.Droplet, err error) {
	if id.UID == "" || !tag.Valid(tag.Machine(id.UID)) {
		return nil, nil
	}
	var others []*godo.Droplet
	for droplet, err := range d.listByTag(ctx, tag.Machine(id.UID)) {
		switch {
		case err != nil:
			return nil, err
		case isOwn(droplet, id):
			found = append(found, droplet)
		default:
			others = append(others, droplet)
		}
	}
	slices.SortFunc(found, func(a, b *godo.Droplet) int { return cmp.Compare(a.ID, b.ID) })
	return append(found, others...), nil
}

// isOwn reports whether a Droplet has the tags of a machine.
func isOwn(droplet *godo.Droplet, id driver.Identity) bool {
	return id.Check(tag.Identity(droplet.Tags)) == nil
}

func first(found []*godo.Droplet) *godo.Droplet {
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// findByClaim returns the Droplet that the claim of a machine has the ID of.
func (d *Driver) findByClaim(ctx context.Context, id driver.Identity) (*godo.Droplet, *claim.Claim, error) {
	if id.UID == "" {
		return nil, nil, nil
	}
	claimed, err := d.claims.Read(ctx, id)
	if err != nil || claimed == nil || claimed.DropletID == 0 {
		return nil, claimed, err
	}
	droplet, err := d.read(ctx, claimed.DropletID)
	return droplet, claimed, err
}

// read returns a Droplet by a direct read, or nil. A new one without tags is an error, because its tags follow.
func (d *Driver) read(ctx context.Context, id int) (*godo.Droplet, error) {
	droplet, _, err := d.client.Droplets.Get(ctx, id)
	switch {
	case isNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Droplet %d: %w", id, err)
	case droplet.Status == "new" && len(droplet.Tags) == 0:
		return nil, errUntagged
	default:
		return droplet, nil
	}
}

// List implements driver.Driver. Pages are numbered, so a Droplet may move to a page that was already read when another
// one is deleted meanwhile. This is why callers confirm an absence by Get.
func (d *Driver) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		selected := tag.Drover
		if owner.UID != "" {
			selected = tag.Cluster(owner.UID)
		}
		for droplet, err := range d.listByTag(ctx, selected) {
			if err != nil {
				yield(driver.Instance{}, d.toRetryableError(err))
				return
			}
			instance := d.toInstance(droplet)
			if isListed(owner, instance.Identity) && !yield(instance, nil) {
				return
			}
		}
	}
}

// isListed reports whether a list for an owner has something; what has no UID is in none.
func isListed(owner driver.Owner, id driver.Identity) bool {
	return id.UID != "" && owner.Selects(id.Owner)
}

// listByTag yields the Droplets with a tag over all pages, the oldest first, and a failure last.
func (d *Driver) listByTag(ctx context.Context, name string) iter.Seq2[*godo.Droplet, error] {
	return func(yield func(*godo.Droplet, error) bool) {
		for page := 1; ; page++ {
			found, response, err := d.client.Droplets.ListByTag(ctx, name, &godo.ListOptions{Page: page, PerPage: pageSize})
			if err != nil {
				yield(nil, fmt.Errorf("listing Droplets: %w", err))
				return
			}
			for i := range found {
				if !yield(&found[i], nil) {
					return
				}
			}
			if response.Links == nil || response.Links.IsLastPage() {
				return
			}
		}
	}
}

// toInstance converts a Droplet. The cloud shows a Droplet that is being deleted as before, until it does not exist.
func (d *Driver) toInstance(droplet *godo.Droplet) driver.Instance {
	instance := toInstance(droplet)
	if at, ok := d.deletions.Get(withoutUID(instance.Identity)); ok && d.clock.Since(at) < stoppingTime {
		instance.State, instance.PollAfter, instance.Message = driver.Stopping, pollInterval, "Droplet is being deleted"
	}
	return instance
}

// toRetryableError returns the kind of an error that is independent of the configuration: what cannot be read or deleted
// now may be later, and must not count as an invalid configuration.
func (d *Driver) toRetryableError(err error) error {
	return driver.WithoutInvalidConfiguration(toError(err, d.clock.Now()))
}
