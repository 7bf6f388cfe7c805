// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcd_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/internal/createcache"
	"drover.io/infra-providers/vcd"
	"drover.io/infra-providers/vcd/vcdfake"
)

// TestConformance in a Cloud Director whose vApp has a virtual machine from the beginning of its creation on, and in one that has it at
// the end only: it is not documented which of them is right.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]vcdfake.Options{
		"virtual machines appear at once": {TaskRequests: 1},
		"virtual machines appear late":    {TaskRequests: 3, LateChildren: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.Run(t, func(t *testing.T) drivertest.Environment[vcd.InstanceConfig] {
				return conformanceEnv(t, newEnv(t, options))
			})
		})
	}
}

func conformanceEnv(t *testing.T, w env) drivertest.Environment[vcd.InstanceConfig] {
	t.Helper()
	once := func(fault vcdfake.Fault) func() { return func() { w.cloud.FailNext(fault) } }
	return drivertest.Environment[vcd.InstanceConfig]{
		Driver: w.connect(t),
		Config: newConfig(t, unchanged),
		Invalid: map[string]vcd.InstanceConfig{
			"an unknown network":          newConfig(t, func(s *infrav1.VCDMachineSpec) { s.Networks[0].Name = "gone" }),
			"an unknown storage profile":  newConfig(t, func(s *infrav1.VCDMachineSpec) { s.StorageProfile = "gone" }),
			"an unknown sizing policy":    newConfig(t, func(s *infrav1.VCDMachineSpec) { s.SizingPolicy = "gone" }),
			"an unknown placement policy": newConfig(t, func(s *infrav1.VCDMachineSpec) { s.PlacementPolicy = vcdfake.SizingPolicy }),
		},
		NoImage: map[string]vcd.InstanceConfig{
			"an unknown catalog":                           newConfig(t, func(s *infrav1.VCDMachineSpec) { s.Catalog = "gone" }),
			"an unknown template":                          newConfig(t, func(s *infrav1.VCDMachineSpec) { s.Template = "gone" }),
			"a catalog without the template":               newConfig(t, func(s *infrav1.VCDMachineSpec) { s.Catalog = vcdfake.SharedCatalog }),
			"what is not a template":                       newConfig(t, func(s *infrav1.VCDMachineSpec) { s.Template = "tools.iso" }),
			"a template of several virtual machines":       newConfig(t, func(s *infrav1.VCDMachineSpec) { s.Template = vcdfake.PairTemplate }),
			"a template without the virtual machine named": newConfig(t, func(s *infrav1.VCDMachineSpec) { s.TemplateVM = "gone" }),
		},
		ImageOf:   func(created driver.Instance) string { return w.cloud.TemplateOf(created.ID) },
		Reconnect: func() driver.Driver[vcd.InstanceConfig] { return w.connect(t) },
		Lose:      once(vcdfake.Fault{Lost: true}),
		Refuse: map[drivertest.Refusal]func(){
			drivertest.Unauthorized: once(vcdfake.Fault{Status: http.StatusForbidden, Code: "ACCESS_TO_RESOURCE_IS_FORBIDDEN", Message: "Either you need some or all of the following rights"}),
			drivertest.RateLimited:  once(throttled),
			drivertest.ServerError:  once(vcdfake.Fault{Status: http.StatusInternalServerError, Code: "INTERNAL_SERVER_ERROR", Message: "Internal Server Error"}),
		},
		Hide:      func() { w.cloud.HideNext(6) },
		Attach:    func(created driver.Instance) func() bool { return w.cloud.Attach(created.ID) },
		Untag:     func(created driver.Instance, tags ...string) func() bool { return w.cloud.Untag(created.ID, tags...) },
		Stop:      w.cloud.Stop,
		Restarts:  w.cloud.Resets,
		Changes:   w.cloud.Changes,
		Leftovers: w.cloud.Leftovers,
	}
}

var throttled = vcdfake.Fault{Status: http.StatusTooManyRequests, Code: "TOO_MANY_REQUESTS", Message: "Too many requests", Headers: map[string]string{"Retry-After": "3"}}

// env is a fake Cloud Director behind HTTP, with a clock that can be advanced and runs at a speed.
type env struct {
	cloud *vcdfake.Cloud
	url   string
	clock *drivertest.Clock
}

// newEnv starts a fake Cloud Director. The test fails if a request has what no type of the SDK has.
func newEnv(t *testing.T, options vcdfake.Options) env {
	t.Helper()
	cloud := vcdfake.New(options)
	server := httptest.NewServer(cloud)
	t.Cleanup(func() {
		server.Close()
		for _, violation := range cloud.Violations() {
			t.Errorf("violation: %s", violation)
		}
	})
	return env{cloud: cloud, url: server.URL, clock: drivertest.NewClock()}
}

// connect returns a driver with valid credentials whose process started longer than the startup window ago.
func (w env) connect(t *testing.T) driver.Driver[vcd.InstanceConfig] {
	t.Helper()
	age := createcache.Window
	return w.connectAt(t, func() time.Time { return w.clock.Now().Add(-age) }, func() { age = 0 })
}

// connectRestarted returns the driver of a process that has just started.
func (w env) connectRestarted(t *testing.T) driver.Driver[vcd.InstanceConfig] {
	t.Helper()
	return w.connectAt(t, w.clock.Now, func() {})
}

func (w env) connectAt(t *testing.T, now func() time.Time, connected func()) driver.Driver[vcd.InstanceConfig] {
	t.Helper()
	defer connected()
	created, err := w.descriptionAt(now).Connect(t.Context(), driver.Account{SecretName: "vcd", Region: vcdfake.VDC + "/" + vcdfake.VApp}, w.secret())
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func (w env) description() driver.Cloud[*infrav1.VCDMachine, vcd.InstanceConfig] {
	return w.descriptionAt(w.clock.Now)
}

func (w env) descriptionAt(now func() time.Time) driver.Cloud[*infrav1.VCDMachine, vcd.InstanceConfig] {
	return vcd.Cloud(vcd.Options{PageSize: 7, Clock: drivertest.ClockFunc(now)})
}

func (w env) secret() driver.Credentials {
	return driver.Credentials{"url": []byte(w.url), "organization": []byte(vcdfake.Organization), "apiToken": []byte(vcdfake.APIToken + "\n")}
}

// newSpec returns a spec that the fake accepts.
func newSpec(change func(*infrav1.VCDMachineSpec)) infrav1.VCDMachineSpec {
	s := infrav1.VCDMachineSpec{
		VDC: vcdfake.VDC, VApp: vcdfake.VApp, Catalog: vcdfake.Catalog, Template: vcdfake.Template,
		CPUs: 4, MemoryMB: 8192, StorageProfile: vcdfake.StorageProfile,
		Networks: []infrav1.VCDNetwork{{Name: vcdfake.Network, IPAllocationMode: "POOL"}},
	}
	change(&s)
	return s
}

func unchanged(*infrav1.VCDMachineSpec) {}

func newConfig(t *testing.T, change func(*infrav1.VCDMachineSpec)) vcd.InstanceConfig {
	t.Helper()
	created, err := vcd.NewInstanceConfig(&infrav1.VCDMachine{Spec: newSpec(change)}, "")
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func newRequest(id driver.Identity, config vcd.InstanceConfig) driver.CreateRequest[vcd.InstanceConfig] {
	return driver.CreateRequest[vcd.InstanceConfig]{Identity: id, Config: config, UserData: []byte("#cloud-config\n"), Format: "cloud-config"}
}

var identity = driver.Identity{UID: "0a1b2c3d-0000-4000-8000-000000000001", Name: "worker-1", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}}

func create(t *testing.T, d driver.Driver[vcd.InstanceConfig], req driver.CreateRequest[vcd.InstanceConfig]) driver.Instance {
	t.Helper()
	created, err := drivertest.Create(t, d, req)
	if err != nil {
		t.Fatalf("creating: %v", err)
	}
	return created
}

// remove deletes an instance as the generic reconciler does.
func remove(t *testing.T, d driver.Driver[vcd.InstanceConfig], id driver.Identity) {
	t.Helper()
	for range 100 {
		if err := d.Delete(t.Context(), id); err != nil && !driver.IsUnfinished(err) {
			t.Fatalf("deleting: %v", err)
		}
		if _, err := d.Get(t.Context(), id); driver.IsNotFound(err) {
			return
		}
	}
	t.Fatal("the deletion does not end")
}
