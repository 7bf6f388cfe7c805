// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanix_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/nutanix"
	"drover.io/infra-providers/nutanix/nutanixfake"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, func(t *testing.T) drivertest.Environment[nutanix.InstanceConfig] {
		return conformanceEnv(t, newEnv(t, nutanixfake.Options{TaskRequests: 2}))
	})
}

func conformanceEnv(t *testing.T, w env) drivertest.Environment[nutanix.InstanceConfig] {
	t.Helper()
	once := func(fault nutanixfake.Fault) func() { return func() { w.cloud.FailNext(fault) } }
	other := newConfig(t, func(s *infrav1.NutanixMachineSpec) { s.Cluster, s.VCPUSockets = nutanixfake.ClusterB, 4 })
	return drivertest.Environment[nutanix.InstanceConfig]{
		Driver: w.connect(t),
		Config: newConfig(t, withDisk),
		Other:  &other,
		Invalid: map[string]nutanix.InstanceConfig{
			"an unknown cluster": newConfig(t, func(s *infrav1.NutanixMachineSpec) { s.Cluster = "gone" }),
			"an unknown subnet":  newConfig(t, func(s *infrav1.NutanixMachineSpec) { s.NetworkInterfaces[0].Subnet = "gone" }),
			"a subnet of another cluster": newConfig(t, func(s *infrav1.NutanixMachineSpec) {
				s.NetworkInterfaces[0].Subnet = nutanixfake.SubnetID(nutanixfake.ClusterB)
			}),
			"an unknown storage container": newConfig(t, func(s *infrav1.NutanixMachineSpec) { s.SystemDisk.StorageContainer = "gone" }),
			"an unknown category": newConfig(t, func(s *infrav1.NutanixMachineSpec) {
				s.Categories = []infrav1.NutanixCategory{{Key: "gone", Value: "gone"}}
			}),
			"an unknown GPU": newConfig(t, func(s *infrav1.NutanixMachineSpec) {
				s.GPUs = []infrav1.NutanixGPU{{Mode: "Virtual", Vendor: "NVIDIA", DeviceID: 1}}
			}),
		},
		NoImage: map[string]nutanix.InstanceConfig{
			"an unknown name":   newConfig(t, func(s *infrav1.NutanixMachineSpec) { s.Image.Name = "gone" }),
			"an ambiguous name": newConfig(t, func(s *infrav1.NutanixMachineSpec) { s.Image.Name = nutanixfake.AmbiguousImage }),
			"an ISO image":      newConfig(t, func(s *infrav1.NutanixMachineSpec) { s.Image.Name = nutanixfake.ISOImage }),
			"an unknown UUID":   newConfig(t, func(s *infrav1.NutanixMachineSpec) { s.Image = infrav1.NutanixImage{UUID: nutanixfake.ImageID(99)} }),
		},
		ImageOf:   func(created driver.Instance) string { return w.cloud.ImageOf(created.ID) },
		Reconnect: func() driver.Driver[nutanix.InstanceConfig] { return w.connect(t) },
		Lose:      once(nutanixfake.Fault{Lost: true}),
		Interrupt: once(nutanixfake.Fault{Start: "RETRYABLE_ERROR"}),
		Refuse: map[drivertest.Refusal]func(){
			drivertest.Unauthorized:         once(nutanixfake.Fault{Status: http.StatusForbidden, Group: "FORBIDDEN"}),
			drivertest.RateLimited:          once(nutanixfake.Fault{Status: http.StatusTooManyRequests, Group: "RATE_LIMIT_EXCEEDED", RetryAfter: "7"}),
			drivertest.ServerError:          once(nutanixfake.Fault{Status: http.StatusInternalServerError, Group: "VM_INTERNAL_ERROR"}),
			drivertest.InsufficientCapacity: once(nutanixfake.Fault{Start: "NO_HOST_RESOURCES"}),
		},
		Hide:          func() { w.cloud.HideNext(4) },
		Attach:        func(created driver.Instance) func() bool { return w.cloud.Attach(created.ID) },
		Stop:          w.cloud.Stop,
		Restarts:      w.cloud.Resets,
		NamesIdentify: true,
		Untag:         func(created driver.Instance, tags ...string) func() bool { return w.cloud.Untag(created.ID, tags...) },
		Leftovers:     w.cloud.Leftovers,
		Changes:       w.cloud.Changes,
	}
}

// env is a fake Prism Central behind TLS, with a clock that can be advanced and runs at a speed.
type env struct {
	cloud  *nutanixfake.Cloud
	server *httptest.Server
	clock  *drivertest.Clock
}

// newEnv starts a fake Prism Central. The test fails if a request violates a rule of the API.
func newEnv(t *testing.T, options nutanixfake.Options) env {
	t.Helper()
	w := env{clock: drivertest.NewClock()}
	options.Now = w.clock.Now
	cloud := nutanixfake.New(options)
	server := httptest.NewUnstartedServer(cloud)
	server.Config.ErrorLog = nil
	server.StartTLS()
	t.Cleanup(func() {
		server.Close()
		for _, violation := range cloud.Violations() {
			t.Errorf("violation of the rules of the API: %s", violation)
		}
	})
	w.cloud, w.server = cloud, server
	return w
}

// creationTime is how long after the start of a process the absence of a virtual machine is not concluded.
const creationTime = 10 * time.Minute

// connect returns a driver with valid credentials whose process started longer than that ago.
func (w env) connect(t *testing.T) driver.Driver[nutanix.InstanceConfig] {
	t.Helper()
	age := creationTime
	return w.connectAt(t, func() time.Time { return w.clock.Now().Add(-age) }, func() { age = 0 })
}

// connectRestarted returns the driver of a process that has just started.
func (w env) connectRestarted(t *testing.T) driver.Driver[nutanix.InstanceConfig] {
	t.Helper()
	return w.connectAt(t, w.clock.Now, func() {})
}

func (w env) connectAt(t *testing.T, now func() time.Time, connected func()) driver.Driver[nutanix.InstanceConfig] {
	t.Helper()
	defer connected()
	created, err := descriptionAt(now).Connect(t.Context(), driver.Account{SecretName: "nutanix"}, w.secret())
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func (w env) description() driver.Cloud[*infrav1.NutanixMachine, nutanix.InstanceConfig] {
	return descriptionAt(w.clock.Now)
}

func descriptionAt(now func() time.Time) driver.Cloud[*infrav1.NutanixMachine, nutanix.InstanceConfig] {
	return nutanix.Cloud(nutanix.Options{PageSize: 7, Clock: drivertest.ClockFunc(now)})
}

func (w env) secret() driver.Credentials {
	return driver.Credentials{
		"NUTANIX_ENDPOINT": []byte(w.server.URL), "NUTANIX_USER": []byte(nutanixfake.User), "NUTANIX_PASSWORD": []byte(nutanixfake.Password),
		"NUTANIX_CA_BUNDLE": w.bundle(),
	}
}

func (w env) bundle() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.server.Certificate().Raw})
}

// newSpec returns a spec that the fake accepts.
func newSpec(change func(*infrav1.NutanixMachineSpec)) infrav1.NutanixMachineSpec {
	s := infrav1.NutanixMachineSpec{
		Cluster:           nutanixfake.ClusterA,
		VCPUSockets:       2,
		MemoryMiB:         4096,
		Image:             infrav1.NutanixImage{Name: nutanixfake.Image},
		NetworkInterfaces: []infrav1.NutanixNetworkInterface{{Subnet: nutanixfake.Subnet}},
	}
	change(&s)
	return s
}

func unchanged(*infrav1.NutanixMachineSpec) {}

func withDisk(s *infrav1.NutanixMachineSpec) {
	s.DataDisks = []infrav1.NutanixDisk{{Name: "data", NutanixDiskSettings: infrav1.NutanixDiskSettings{SizeGiB: ptr.To[int64](20), StorageContainer: nutanixfake.Container}}}
}

func newConfig(t *testing.T, change func(*infrav1.NutanixMachineSpec)) nutanix.InstanceConfig {
	t.Helper()
	created, err := nutanix.NewInstanceConfig(&infrav1.NutanixMachine{Spec: newSpec(change)}, "")
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func newRequest(id driver.Identity, config nutanix.InstanceConfig) driver.CreateRequest[nutanix.InstanceConfig] {
	return driver.CreateRequest[nutanix.InstanceConfig]{Identity: id, Config: config, UserData: []byte("#cloud-config\n"), Format: "cloud-config"}
}

var identity = driver.Identity{UID: "0a1b2c3d-0000-4000-8000-000000000001", Name: "worker-1", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}}
