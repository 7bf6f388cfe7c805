// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstack_test

import (
	"net/http"
	"testing"

	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/metalstack"
	"drover.io/infra-providers/metalstack/metalstackfake"
)

// TestConformance proves the contract with the least that a spec needs, and with everything.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*infrav1.MetalStackMachineSpec){"minimal": unchanged, "full": allFields} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.Run(t, func(t *testing.T) drivertest.Environment[metalstack.InstanceConfig] {
				return conformanceEnv(t, newEnv(t, metalstackfake.Options{InstallDelay: 3, ReleaseDelay: 4, WipeDelay: 20}), change)
			})
		})
	}
}

func conformanceEnv(t *testing.T, w env, change func(*infrav1.MetalStackMachineSpec)) drivertest.Environment[metalstack.InstanceConfig] {
	t.Helper()
	with := func(then func(*infrav1.MetalStackMachineSpec)) metalstack.InstanceConfig {
		return newConfig(t, func(s *infrav1.MetalStackMachineSpec) {
			change(s)
			then(s)
		})
	}
	other := with(func(s *infrav1.MetalStackMachineSpec) {
		s.Partition, s.Size = metalstackfake.PartitionB, metalstackfake.BigSize
	})
	once := func(status int) func() { return func() { w.cloud.Refuse(status) } }
	return drivertest.Environment[metalstack.InstanceConfig]{
		Driver:              w.connect(t),
		NormalizeProviderID: metalstack.Cloud(metalstack.Options{}).NormalizeProviderID,
		Config:              with(unchanged),
		Other:               &other,
		Invalid: map[string]metalstack.InstanceConfig{
			"an unknown size":    with(func(s *infrav1.MetalStackMachineSpec) { s.Size = "huge" }),
			"an unknown network": with(func(s *infrav1.MetalStackMachineSpec) { s.PrivateNetworks[0].NetworkID = "gone" }),
			"a network of another project": with(func(s *infrav1.MetalStackMachineSpec) {
				s.PrivateNetworks[0].NetworkID = metalstackfake.OtherNetwork
			}),
			"an unknown further network": with(func(s *infrav1.MetalStackMachineSpec) {
				s.Networks = []infrav1.MetalStackNetwork{{NetworkID: "gone"}}
			}),
			"an unknown layout":  with(func(s *infrav1.MetalStackMachineSpec) { s.FilesystemLayout = "gone" }),
			"an unknown address": with(func(s *infrav1.MetalStackMachineSpec) { s.IPs = []string{"203.0.113.77"} }),
		},
		NoImage: map[string]metalstack.InstanceConfig{
			"an unknown image":       with(func(s *infrav1.MetalStackMachineSpec) { s.Image = "plan9-4.0" }),
			"an image for firewalls": with(func(s *infrav1.MetalStackMachineSpec) { s.Image = metalstackfake.FirewallImage }),
		},
		ImageOf:   func(created driver.Instance) string { return w.cloud.ImageOf(created.ID) },
		Reconnect: func() driver.Driver[metalstack.InstanceConfig] { return w.connect(t) },
		// The loss of the answers about addresses is in exactlyonce_test.go: after one, another process waits.
		Lose: func() { w.cloud.Lose("allocateMachine", "freeMachine") },
		Interrupt: func() {
			w.cloud.RefuseOperation("allocateMachine", http.StatusTooManyRequests, "injected error")
			w.cloud.RefuseOperation("freeIP", http.StatusInternalServerError, "injected error")
		},
		Refuse: map[drivertest.Refusal]func(){
			drivertest.Unauthorized:         once(http.StatusForbidden),
			drivertest.RateLimited:          once(http.StatusTooManyRequests),
			drivertest.ServerError:          once(http.StatusInternalServerError),
			drivertest.QuotaExceeded:        w.cloud.Fill,
			drivertest.InsufficientCapacity: w.cloud.SellOut,
		},
		Restarts:  w.cloud.Restarts,
		Untag:     func(created driver.Instance, keys ...string) func() bool { return w.cloud.Untag(created.ID, keys...) },
		Leftovers: w.cloud.Leftovers,
		Changes:   w.cloud.Changes,
	}
}

// env is a fake metal-stack with a clock that can be advanced and runs at a speed.
type env struct {
	cloud *metalstackfake.Cloud
	clock *drivertest.Clock
}

// newEnv starts a fake metal-stack. The test fails if a request or an answer violates the description of the API.
func newEnv(t *testing.T, options metalstackfake.Options) env { return newFastEnv(t, options, 1) }

func newFastEnv(t *testing.T, options metalstackfake.Options, speed int64) env {
	t.Helper()
	w := env{clock: drivertest.NewClock()}
	w.clock.Run(speed)
	options.Now = w.clock.Now
	cloud, err := metalstackfake.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	w.cloud = cloud
	t.Cleanup(func() {
		cloud.Close()
		for _, violation := range cloud.Violations() {
			t.Errorf("violation of the description of the API: %s", violation)
		}
	})
	return w
}

// connect returns the driver of another process, with the permissions of an administrator.
func (w env) connect(t *testing.T) *metalstack.Driver { return w.connectThrough(t, nil) }

func (w env) connectThrough(t *testing.T, transport http.RoundTripper) *metalstack.Driver {
	t.Helper()
	created, err := w.description(transport).Connect(t.Context(), driver.Account{SecretName: "metal", Region: metalstackfake.Project}, w.secret())
	if err != nil {
		t.Fatal(err)
	}
	return created.(*metalstack.Driver)
}

func (w env) description(transport http.RoundTripper) driver.Cloud[*infrav1.MetalStackMachine, metalstack.InstanceConfig] {
	return metalstack.Cloud(metalstack.Options{Transport: transport, Clock: w.clock})
}

func (w env) secret() driver.Credentials {
	return driver.Credentials{
		"METAL_API_URL": []byte(w.cloud.Endpoint + "\n"), "METAL_API_HMAC": []byte(metalstackfake.AdminHMAC + "\n"), "METAL_API_HMAC_AUTH_TYPE": []byte("Metal-Admin"),
	}
}

// newSpec returns a spec that the fake accepts.
func newSpec(change func(*infrav1.MetalStackMachineSpec)) infrav1.MetalStackMachineSpec {
	s := infrav1.MetalStackMachineSpec{
		Project: metalstackfake.Project, Partition: metalstackfake.PartitionA, Size: metalstackfake.Size, Image: metalstackfake.Image,
		PrivateNetworks: []infrav1.MetalStackPrivateNetwork{
			{Partition: metalstackfake.PartitionA, NetworkID: metalstackfake.NetworkA}, {Partition: metalstackfake.PartitionB, NetworkID: metalstackfake.NetworkB},
		},
	}
	change(&s)
	return s
}

func unchanged(*infrav1.MetalStackMachineSpec) {}

const sshKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE2xyHS5hWUAHvbIsKzRvLXHBuqMBrSMc0xkVV2sdYtY ops@example.org"

// allFields sets every field but the credentials and those of other machines.
func allFields(s *infrav1.MetalStackMachineSpec) {
	s.PrivateNetworks[0].NetworkID = metalstackfake.DualNetwork
	s.Networks = []infrav1.MetalStackNetwork{{NetworkID: metalstackfake.Internet, AutoAcquire: ptr.To(false)}}
	s.IPs, s.SSHKeys = []string{metalstackfake.StaticIP}, []string{sshKey}
	s.Tags, s.PlacementTags = []string{"billing=web", "plain"}, []string{"pool=a"}
	s.FilesystemLayout = metalstackfake.Layout
	s.DNSServers, s.NTPServers = []string{"9.9.9.9", "2620:fe::fe"}, []string{"ntp.example.org", "192.0.2.1"}
	s.Fallbacks = []infrav1.MetalStackFallback{{Size: metalstackfake.BigSize}, {Partition: metalstackfake.PartitionB}}
}

func newConfig(t *testing.T, change func(*infrav1.MetalStackMachineSpec)) metalstack.InstanceConfig {
	t.Helper()
	created, err := metalstack.NewInstanceConfig(&infrav1.MetalStackMachine{Spec: newSpec(change)}, "")
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func newRequest(t *testing.T, id driver.Identity) driver.CreateRequest[metalstack.InstanceConfig] {
	t.Helper()
	return driver.CreateRequest[metalstack.InstanceConfig]{Identity: id, Config: newConfig(t, unchanged), UserData: []byte("#cloud-config\n"), Format: "cloud-config"}
}

var identity = driver.Identity{UID: "0a1b2c3d-0000-4000-8000-000000000001", Name: "worker-1", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}}

// mustCreate allocates a machine.
func mustCreate(t *testing.T, d *metalstack.Driver, id driver.Identity) driver.Instance {
	t.Helper()
	created, err := d.Create(t.Context(), newRequest(t, id))
	if err != nil {
		t.Fatal(err)
	}
	return created
}
