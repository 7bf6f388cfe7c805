// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstack

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/metal-stack/metal-go/api/models"
	"k8s.io/utils/clock"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/runtime/expiring"
	"drover.io/runtime/httplimit"
)

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=metalstackmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=metalstackmachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=metalstackmachinetemplates,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=metalstackmachinetemplates/status,verbs=patch

// Options are the settings of the provider.
type Options struct {
	// Transport carries the requests; nil means one to the URL of the credentials.
	Transport http.RoundTripper
	// Clock is the real clock if it is nil.
	Clock clock.PassiveClock
}

// Cloud returns the description of metal-stack. The API has no limit of its own; its database is shared by all tenants.
func Cloud(options Options) driver.Cloud[*infrav1.MetalStackMachine, InstanceConfig] {
	long := httplimit.NewCloudSeats()
	return driver.Cloud[*infrav1.MetalStackMachine, InstanceConfig]{
		Name:                "metalstack",
		NewMachine:          func() *infrav1.MetalStackMachine { return &infrav1.MetalStackMachine{} },
		NewMachineList:      func() driver.MachineList { return &infrav1.MetalStackMachineList{} },
		NewTemplate:         func() driver.Template[*infrav1.MetalStackMachine] { return &infrav1.MetalStackMachineTemplate{} },
		Config:              NewInstanceConfig,
		Account:             toAccount,
		NormalizeProviderID: normalizeProviderID,
		Alternatives:        alternatives,
		Offering:            toOffering,
		Limits:              driver.Limits{PerSecond: 5, Burst: 20},
		Connect: func(_ context.Context, account driver.Account, secret driver.Credentials) (driver.Driver[InstanceConfig], error) {
			return connect(options, account, secret, long)
		},
	}
}

// Driver implements driver.Driver, driver.AccountIdentifier, driver.CapacityProvider, driver.ImageFinder, driver.Tagger,
// driver.Restarter and driver.AttachedObjectLister.
type Driver struct {
	client  *client
	clock   clock.PassiveClock
	project string
	// api is the host and the path of the API, in one form.
	api string

	images, lookups expiring.Map[string, any]
	// creating has the machines with a creation in progress.
	creating sync.Map
	// holdings are the claims of this process, and freed the addresses of the machines that it freed, which the API releases by
	// itself.
	holdings expiring.Map[driver.Identity, holding]
	freed    expiring.Map[driver.Identity, []string]
}

// connect reads credentials and makes no call.
func connect(options Options, account driver.Account, secret driver.Credentials, long *httplimit.Seats) (*Driver, error) {
	if !projectPattern.MatchString(account.Region) {
		return nil, driver.InvalidField("spec.project", "%q is no project", account.Region)
	}
	found, err := readLogin(account, secret)
	if err != nil {
		return nil, err
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	transport := options.Transport
	if transport == nil {
		transport = found.server(long).Transport()
	}
	d := &Driver{
		client: newClient(found, transport), clock: options.Clock, project: account.Region,
		api: hostOf(found.url) + strings.TrimSuffix(found.url.Path, "/"),
	}
	d.images.Clock, d.images.TTL, d.images.Max = options.Clock, imageTTL, maxLookups
	d.lookups.Clock, d.lookups.TTL, d.lookups.Max = options.Clock, lookupTTL, maxLookups
	d.holdings.Clock, d.holdings.TTL = options.Clock, memoryTTL
	d.freed.Clock, d.freed.TTL = options.Clock, claimWindow
	return d, nil
}

// hostOf returns the host of a URL, with its port unless that is the one of the scheme.
func hostOf(of *url.URL) string {
	host := strings.ToLower(of.Host)
	for scheme, port := range map[string]string{"https": ":443", "http": ":80"} {
		if of.Scheme == scheme {
			host = strings.TrimSuffix(host, port)
		}
	}
	return strings.TrimSuffix(host, ":") // an empty port is the scheme's, too
}

// Get implements driver.Driver. Without a provider ID, a machine that may still be allocated is not reported as missing.
func (d *Driver) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	found, err := d.get(ctx, id)
	return found, driver.WithoutInvalidConfiguration(toError(err))
}

func (d *Driver) get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	found, err := d.find(ctx, id)
	if err != nil {
		return driver.Instance{}, err
	}
	if len(found) > 0 {
		return id.Checked(found[0])
	}
	if id.ProviderID == "" {
		if busy, err := d.mayAppear(ctx, id); err != nil || busy {
			return driver.Instance{}, cmp.Or(err, error(errBusy))
		}
	}
	if _, err := d.AccountID(ctx); err != nil { // nothing is found in an installation that does not have the project
		return driver.Instance{}, err
	}
	return driver.Instance{}, &driver.NotFoundError{What: fmt.Sprintf("allocation of machine %q", id.Name)}
}

// find returns the machine that the provider ID names, and otherwise those that are allocated with the UID.
func (d *Driver) find(ctx context.Context, id driver.Identity) ([]driver.Instance, error) {
	if id.ProviderID == "" {
		return d.findByUID(ctx, id)
	}
	machine, ok := parseProviderID(id.ProviderID)
	if !ok {
		return nil, nil
	}
	found, err := d.client.machine(ctx, machine)
	if err != nil || !d.isConcerned(found) {
		return nil, err
	}
	return []driver.Instance{toInstance(found)}, nil
}

// isConcerned reports whether a machine that was read by its ID may be one of Drover. It is not if it is free, or allocated
// anew: its ID is that of the hardware, which another project may have by now, or an allocation that has neither the tags of
// Drover nor its description. With the one and without the other, somebody has changed the tags.
func (d *Driver) isConcerned(found *models.V1MachineResponse) bool {
	if found == nil || found.Allocation == nil || value(found.Allocation.Project) != d.project {
		return false
	}
	return identityOf(found) != (driver.Identity{}) || strings.HasPrefix(found.Allocation.Description, driver.TagMachineUID+"=") ||
		slices.ContainsFunc(found.Tags, func(tag string) bool { return strings.HasPrefix(tag, "drover.io/") })
}

// findByUID returns the machines that are allocated with the UID of a machine, its own first and the oldest of them first.
func (d *Driver) findByUID(ctx context.Context, id driver.Identity) (found []driver.Instance, err error) {
	if id.UID == "" {
		return nil, nil
	}
	listed, err := d.client.findMachines(ctx, d.project, driver.TagMachineUID+"="+string(id.UID))
	if err != nil {
		return nil, err
	}
	for _, machine := range listed {
		if machine.Allocation != nil && identityOf(machine).UID != "" {
			found = append(found, toInstance(machine))
		}
	}
	slices.SortFunc(found, func(a, b driver.Instance) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return id.Own(found), nil
}

// List implements driver.Driver. The API has no pages: one answer has all machines.
func (d *Driver) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		listed, err := d.client.findMachines(ctx, d.project, ownerTags(owner)...)
		if err != nil {
			yield(driver.Instance{}, driver.WithoutInvalidConfiguration(toError(err)))
			return
		}
		for _, machine := range listed {
			if machine.Allocation == nil {
				continue
			}
			instance := toInstance(machine)
			if instance.Identity.UID != "" && owner.Selects(instance.Identity.Owner) && !yield(instance, nil) {
				return
			}
		}
	}
}

// ownerTags returns the tags of everything of an owner; none for all owners.
func ownerTags(owner driver.Owner) (tags []string) {
	for key, value := range map[string]string{
		driver.TagClusterUID: string(owner.UID), driver.TagClusterNamespace: owner.Namespace, driver.TagCluster: owner.Name,
	} {
		if value != "" {
			tags = append(tags, key+"="+value)
		}
	}
	return tags
}
