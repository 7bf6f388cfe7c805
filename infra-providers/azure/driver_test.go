// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/azure"
	"drover.io/infra-providers/azure/azurefake"
	"drover.io/infra-providers/azure/tag"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
)

// The methods of the SDK that faults are for.
const (
	putMachine   = "VirtualMachinesClient.BeginCreateOrUpdate"
	putInterface = "InterfacesClient.BeginCreateOrUpdate"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]azurefake.Options{
		"when Azure is quick": {},
		"when Azure is slow":  {CreateReads: 2, DeleteReads: 2, NetworkReads: 1, NetworkDeleteReads: 1},
		"when Azure keeps what is to be deleted with a virtual machine": {KeepsAttached: true, NetworkDeleteReads: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.Run(t, func(t *testing.T) drivertest.Environment[azure.InstanceConfig] {
				return conformanceEnv(t, newEnv(t, options))
			})
		})
	}
}

func conformanceEnv(t *testing.T, arm env) drivertest.Environment[azure.InstanceConfig] {
	t.Helper()
	once := func(fault azurefake.Fault) func() { return func() { arm.cloud.FailNext(fault) } }
	other := newConfig(t, func(s *infrav1.AzureMachineSpec) { everything(s); s.VMSize, s.Zone = "Standard_D4s_v5", "2" })
	return drivertest.Environment[azure.InstanceConfig]{
		Driver:              arm.connect(t),
		NormalizeProviderID: arm.description().NormalizeProviderID,
		Config:              newConfig(t, everything),
		Other:               &other,
		Invalid: map[string]azure.InstanceConfig{
			"an unknown size":   newConfig(t, func(s *infrav1.AzureMachineSpec) { s.VMSize = "Standard_X2" }),
			"an unknown zone":   newConfig(t, func(s *infrav1.AzureMachineSpec) { s.Zone = "7" }),
			"an unknown subnet": newConfig(t, func(s *infrav1.AzureMachineSpec) { s.NetworkInterface.SubnetID += "x" }),
		},
		NoImage: map[string]azure.InstanceConfig{
			"an unknown version": newConfig(t, func(s *infrav1.AzureMachineSpec) { s.Image.Marketplace.Version = "1.2.3" }),
			"an unknown SKU":     newConfig(t, func(s *infrav1.AzureMachineSpec) { s.Image.Marketplace.SKU = "gone" }),
			"an unknown managed image": newConfig(t, func(s *infrav1.AzureMachineSpec) {
				s.Image = infrav1.AzureImage{ID: azurefake.ManagedImage + "x"}
			}),
		},
		UniqueNames: true,
		ImageOf:     func(created driver.Instance) string { return arm.cloud.ImageOf(created.ID) },
		Reconnect:   func() driver.Driver[azure.InstanceConfig] { return arm.connect(t) },
		Lose:        once(azurefake.Fault{Lost: true}),
		Interrupt:   once(azurefake.Fault{On: putMachine, Status: 500, Code: "InternalServerError"}),
		Refuse: map[drivertest.Refusal]func(){
			drivertest.Unauthorized:         once(azurefake.Fault{Status: 403, Code: "AuthorizationFailed", Message: "The client does not have authorization to perform the action."}),
			drivertest.RateLimited:          once(azurefake.Fault{Status: 429, Code: "TooManyRequests", Message: "The request is being throttled.", RetryAfter: "7"}),
			drivertest.ServerError:          once(azurefake.Fault{Status: 503, Code: "ServiceUnavailable", Message: "Try again."}),
			drivertest.QuotaExceeded:        once(azurefake.Fault{On: putMachine, Status: 409, Code: "OperationNotAllowed", Message: "Operation could not be completed as it results in exceeding approved Total Regional Cores quota."}),
			drivertest.InsufficientCapacity: once(azurefake.Fault{On: putMachine, Allocation: "ZonalAllocationFailed", LeavesDisks: true}),
		},
		Hide:     func() { arm.cloud.HideNext(4) },
		Attach:   func(created driver.Instance) func() bool { return arm.cloud.Attach(created.ID) },
		CopyTags: func(created driver.Instance) func() bool { return arm.cloud.CopyTags(created.ID) },
		Stop:     arm.cloud.Stop,
		Restarts: arm.cloud.Restarts,
		Write:    func(_ driver.Instance, output string) { arm.cloud.Write(output) },
		Untag: func(created driver.Instance, tags ...string) func() bool {
			return arm.cloud.Untag(created.ID, tagsOf(tags)...)
		},
		Leftovers: arm.cloud.Leftovers,
		Changes:   arm.cloud.Changes,
	}
}

// tagsOf returns Azure's tags for those of a driver.
func tagsOf(tags []string) (all []string) {
	for _, one := range tags {
		all = append(all, tag.Prefix+strings.TrimPrefix(one, "drover.io/"))
	}
	return all
}

// env is a fake Resource Manager behind a server with TLS, with a clock that can be advanced.
type env struct {
	cloud *azurefake.Cloud
	url   string
	clock *drivertest.Clock
}

// newEnv starts a fake Resource Manager. The test fails if a request or an answer violates Azure's specification, or if anything
// is without an identity.
func newEnv(t *testing.T, options azurefake.Options) env {
	t.Helper()
	cloud := azurefake.New(options)
	server := httptest.NewTLSServer(cloud)
	cloud.Serve(server.URL)
	trust(server.Certificate())
	t.Cleanup(func() {
		server.Close()
		for _, violation := range cloud.Violations() {
			t.Errorf("violation: %s", violation)
		}
		for name, machine := range cloud.Tags(tag.MachineUID) {
			if machine == "" {
				t.Errorf("%s has no identity", name)
			}
		}
	})
	return env{cloud: cloud, url: server.URL, clock: drivertest.NewClock()}
}

var trusted atomic.Bool

// trust has the transports of this process trust the only certificate of all servers of package httptest.
func trust(certificate *x509.Certificate) {
	if trusted.Swap(true) {
		return
	}
	pool := x509.NewCertPool()
	pool.AddCert(certificate)
	http.DefaultTransport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

func (e env) connect(t *testing.T) driver.Driver[azure.InstanceConfig] {
	t.Helper()
	created, err := e.description().Connect(t.Context(), account, azurefake.Secret())
	if err != nil {
		t.Fatal(err)
	}
	return created
}

var account = driver.Account{SecretName: "azure", Region: azurefake.Subscription + "/" + azurefake.ResourceGroup}

func (e env) description() driver.Cloud[*infrav1.AzureMachine, azure.InstanceConfig] {
	return azure.Cloud(e.options())
}

func (e env) options() azure.Options {
	return azure.Options{Endpoint: e.url, AuthorityHost: e.url, Clock: e.clock}
}

// newSpec returns a spec that the fake accepts.
func newSpec(change func(*infrav1.AzureMachineSpec)) infrav1.AzureMachineSpec {
	s := infrav1.AzureMachineSpec{
		SubscriptionID:   azurefake.Subscription,
		ResourceGroup:    azurefake.ResourceGroup,
		Location:         azurefake.Location,
		Zone:             "1",
		VMSize:           "Standard_D2s_v5",
		Image:            infrav1.AzureImage{Marketplace: infrav1.AzureMarketplaceImage{Publisher: azurefake.Publisher, Offer: azurefake.Offer, SKU: azurefake.SKU}},
		NetworkInterface: infrav1.AzureNetworkInterface{SubnetID: azurefake.SubnetID},
	}
	change(&s)
	return s
}

func unchanged(*infrav1.AzureMachineSpec) {}

// everything has all that can be beside a virtual machine.
func everything(s *infrav1.AzureMachineSpec) {
	s.DataDisks = []infrav1.AzureDataDisk{{Name: "data", SizeGB: 20}}
	s.NetworkInterface.PublicIP = ptr.To(true)
	s.Tags = map[string]infrav1.AzureTagValue{"cost-center": "edge"}
}

func newConfig(t *testing.T, change func(*infrav1.AzureMachineSpec)) azure.InstanceConfig {
	t.Helper()
	created, err := azure.NewInstanceConfig(&infrav1.AzureMachine{Spec: newSpec(change)}, "")
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func newRequest(id driver.Identity, config azure.InstanceConfig) driver.CreateRequest[azure.InstanceConfig] {
	return driver.CreateRequest[azure.InstanceConfig]{Identity: id, Config: config, UserData: []byte("#cloud-config\n"), Format: "cloud-config"}
}

var identity = driver.Identity{UID: "0a1b2c3d-0000-4000-8000-000000000001", Name: "worker-1", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}}

// remove deletes an instance as the generic reconciler does.
func remove(t *testing.T, d driver.Driver[azure.InstanceConfig], id driver.Identity) {
	t.Helper()
	for range 100 {
		if err := d.Delete(t.Context(), id); err != nil && !driver.IsUnfinished(err) {
			t.Fatal(err)
		}
		if _, err := d.Get(t.Context(), id); driver.IsNotFound(err) {
			return
		}
	}
	t.Fatal("the deletion does not finish")
}

func connectWith(t *testing.T, options azure.Options) (driver.Driver[azure.InstanceConfig], error) {
	t.Helper()
	return azure.Cloud(options).Connect(t.Context(), account, azurefake.Secret())
}
