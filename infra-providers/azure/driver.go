// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/azure/request"
	"drover.io/infra-providers/azure/tag"
	"drover.io/infra-providers/driver"
	"drover.io/runtime/expiring"
)

// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=azuremachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=azuremachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=azuremachinetemplates,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.drover.io,resources=azuremachinetemplates/status,verbs=patch

const (
	// callTimeout bounds one call of the API. An answer that takes longer counts as lost.
	callTimeout = 30 * time.Second
	// maxAnswer is how many bytes one answer may have. That with the sizes of a location has some megabytes.
	maxAnswer = 64 << 20
	// refusalTTL is how long it is known why Azure could not create a virtual machine while that is being deleted.
	// and the UID of one that a restore lost.
	refusalTTL = time.Hour
)

// Options are the settings of the provider.
type Options struct {
	// Cloud is AzurePublic, AzureGovernment or AzureChina; empty means AzurePublic.
	Cloud string
	// Endpoint and AuthorityHost replace the URLs of the cloud's Resource Manager and of Microsoft Entra.
	Endpoint, AuthorityHost string
	// Clock is the real clock if it is nil.
	Clock clock.PassiveClock
}

// Cloud returns the description of Azure. The limits leave capacity for other clients of the subscription: Resource Manager
// permits 25 reads and 10 writes a second of one client, and bursts of 250 and 200.
func Cloud(options Options) driver.Cloud[*infrav1.AzureMachine, InstanceConfig] {
	return driver.Cloud[*infrav1.AzureMachine, InstanceConfig]{
		Name:                "azure",
		NewMachine:          func() *infrav1.AzureMachine { return &infrav1.AzureMachine{} },
		NewMachineList:      func() driver.MachineList { return &infrav1.AzureMachineList{} },
		NewTemplate:         func() driver.Template[*infrav1.AzureMachine] { return &infrav1.AzureMachineTemplate{} },
		Config:              NewInstanceConfig,
		Account:             toAccount,
		NormalizeProviderID: normalizeProviderID,
		Alternatives:        alternatives,
		Offering:            toOffering,
		Limits:              driver.Limits{PerSecond: 5, Burst: 50},
		Connect: func(_ context.Context, account driver.Account, credentials driver.Credentials) (driver.Driver[InstanceConfig], error) {
			return connect(options, account, credentials)
		},
	}
}

// Driver implements driver.Driver, driver.AccountIdentifier, driver.CapacityProvider, driver.ImageFinder, driver.Tagger,
// driver.Restarter, driver.ConsoleReader and driver.AttachedObjectLister.
type Driver struct {
	place     request.Place
	vms       *armcompute.VirtualMachinesClient
	disks     *armcompute.DisksClient
	nics      *armnetwork.InterfacesClient
	addresses *armnetwork.PublicIPAddressesClient
	other     *arm.Client
	lookup    *request.Lookup
	consoles  *http.Client
	clock     clock.PassiveClock
	// refusals are why Azure could not create virtual machines that are being deleted. A process that does not know it requests
	// the same again.
	refusals expiring.Map[driver.Identity, error]
	// uids are those of machines whose UID a restore lost and whose virtual machine is being deleted: what is beside it is found
	// by the UID only.
	uids expiring.Map[driver.Identity, types.UID]
	// dataDisks are the names of the data disks of virtual machines that this process has deleted.
	dataDisks expiring.Map[driver.Identity, []string]
}

// connect reads the credentials and makes no call. The SDK repeats no call: retries are the same for all clouds and happen
// outside the drivers.
func connect(options Options, account driver.Account, secret driver.Credentials) (*Driver, error) {
	place, err := toPlace(account, secret)
	if err != nil {
		return nil, err
	}
	clients, err := newClientOptions(options)
	if err != nil {
		return nil, err
	}
	tokens, err := newCredential(clients.ClientOptions, account, secret)
	if err != nil {
		return nil, err
	}
	d := &Driver{place: place, consoles: newConsoleClient()}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	d.clock = options.Clock
	d.lookup = request.NewLookup(place, tokens, clients, options.Clock)
	d.refusals.Clock, d.refusals.TTL = options.Clock, refusalTTL
	d.uids.Clock, d.uids.TTL = options.Clock, refusalTTL
	d.dataDisks.Clock, d.dataDisks.TTL = options.Clock, refusalTTL
	for _, err := range []error{
		set(&d.vms)(armcompute.NewVirtualMachinesClient(place.Subscription, tokens, clients)),
		set(&d.disks)(armcompute.NewDisksClient(place.Subscription, tokens, clients)),
		set(&d.nics)(armnetwork.NewInterfacesClient(place.Subscription, tokens, clients)),
		set(&d.addresses)(armnetwork.NewPublicIPAddressesClient(place.Subscription, tokens, clients)),
		set(&d.other)(arm.NewClient("drover", "v1.0.0", tokens, clients)),
	} {
		if err != nil {
			return nil, fmt.Errorf("configuring the clients of Azure: %w", err)
		}
	}
	return d, nil
}

// set stores a value unless there is an error, which it returns.
func set[T any](to *T) func(T, error) error {
	return func(value T, err error) error {
		*to = value
		return err
	}
}

// Get implements driver.Driver. While something is left beside a virtual machine that does not exist any more, or not yet, the
// instance is being deleted, and the next step is due. Nothing changes before that, so it need not be read again.
func (d *Driver) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	found, err := d.find(ctx, id)
	if err != nil {
		return driver.Instance{}, err
	}
	if found != nil {
		instance := d.toInstance(found)
		if err := id.Check(instance.Identity); err != nil {
			return driver.Instance{}, err
		}
		instance.Addresses, err = d.readAddresses(ctx, found)
		return instance, err
	}
	left, err := d.remaining(ctx, d.withUID(id))
	if err != nil {
		return driver.Instance{}, err
	}
	if len(left) == 0 {
		return driver.Instance{}, &driver.NotFoundError{What: fmt.Sprintf("virtual machine of %q", id.Name)}
	}
	id.ProviderID = d.place.ProviderID(id.Name)
	return driver.Instance{
		ID: id.Name, ProviderID: id.ProviderID, Identity: id, State: driver.Stopping, StepDue: true,
		Message: fmt.Sprintf("there is no virtual machine, and the %s remains", left[0].kind),
	}, nil
}

// withUID returns an identity with the UID that a restore lost, if the deletion of its virtual machine found it.
func (d *Driver) withUID(id driver.Identity) driver.Identity {
	if known, ok := d.uids.Get(id); ok && id.UID == "" {
		id.UID = known
	}
	return id
}

// find returns the virtual machine of an identity, or nil if there is none: the one of the provider ID, or the one of the UID,
// which has the machine's name or the network interface of the UID. Each is a direct read, because a list may be behind.
func (d *Driver) find(ctx context.Context, id driver.Identity) (*armcompute.VirtualMachine, error) {
	if id.ProviderID != "" {
		name, ok := d.parseProviderID(id.ProviderID)
		if !ok {
			return nil, nil
		}
		return d.read(ctx, name)
	}
	if id.UID == "" {
		return nil, nil
	}
	if id.Name != "" && namePattern.MatchString(id.Name) {
		found, err := d.read(ctx, id.Name)
		if err != nil || found != nil && tag.Decode(found.Tags).UID == id.UID {
			return found, err
		}
	}
	nic, err := d.readInterface(ctx, id)
	if err != nil || nic == nil {
		return nil, err
	}
	if nic.Properties == nil || nic.Properties.VirtualMachine == nil {
		return nil, nil
	}
	name, ok := d.place.VirtualMachine(ptr.Deref(nic.Properties.VirtualMachine.ID, ""))
	if !ok {
		return nil, fmt.Errorf("the network interface %q is attached to a virtual machine of another resource group", ptr.Deref(nic.Name, ""))
	}
	return d.read(ctx, name)
}

func interfacesOf(vm *armcompute.VirtualMachine) []*armcompute.NetworkInterfaceReference {
	if vm.Properties == nil || vm.Properties.NetworkProfile == nil {
		return nil
	}
	return vm.Properties.NetworkProfile.NetworkInterfaces
}

// read returns a virtual machine with its status by its name, or nil.
func (d *Driver) read(ctx context.Context, name string) (*armcompute.VirtualMachine, error) {
	answer, err := d.vms.Get(ctx, d.place.ResourceGroup, name, &armcompute.VirtualMachinesClientGetOptions{
		Expand: ptr.To(armcompute.InstanceViewTypesInstanceView),
	})
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, toError(err)
	}
	return &answer.VirtualMachine, nil
}

// List implements driver.Driver. A virtual machine that Azure may not be able to start is left out: it would be taken for the
// machine's and count as missing when it is gone, although another zone may have capacity.
func (d *Driver) List(ctx context.Context, owner driver.Owner) iter.Seq2[driver.Instance, error] {
	return func(yield func(driver.Instance, error) bool) {
		found, err := d.listed(ctx, owner)
		if err != nil {
			yield(driver.Instance{}, err)
			return
		}
		for _, instance := range found {
			if !yield(instance, nil) {
				return
			}
		}
	}
}

// listed returns the instances of an owner. Lists have no status, so that of all comes from one query of Resource Graph, and
// is read where it matters.
func (d *Driver) listed(ctx context.Context, owner driver.Owner) ([]driver.Instance, error) {
	vms, err := d.listVirtualMachines(ctx, owner)
	if err != nil || len(vms) == 0 {
		return nil, err
	}
	stopped, err := d.notRunning(ctx)
	if err != nil {
		return nil, err
	}
	addresses, err := d.listAddresses(ctx, vms)
	if err != nil {
		return nil, err
	}
	var all []driver.Instance
	for _, vm := range vms {
		if needsStatus(vm) || stopped[strings.ToLower(ptr.Deref(vm.Name, ""))] {
			if vm, err = d.read(ctx, ptr.Deref(vm.Name, "")); err != nil {
				return nil, err
			}
			if vm == nil || mayFail(vm) {
				continue
			}
		}
		instance := d.toInstance(vm)
		instance.Addresses = addresses[instance.ID]
		all = append(all, instance)
	}
	return all, nil
}

// listVirtualMachines returns the virtual machines of an owner in the resource group, over all pages.
func (d *Driver) listVirtualMachines(ctx context.Context, owner driver.Owner) (all []*armcompute.VirtualMachine, err error) {
	for pages := d.vms.NewListPager(d.place.ResourceGroup, nil); pages.More(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, toError(err)
		}
		for _, vm := range page.Value {
			if identity := tag.Decode(vm.Tags); identity.UID != "" && owner.Selects(identity.Owner) {
				all = append(all, vm)
			}
		}
	}
	return all, nil
}
