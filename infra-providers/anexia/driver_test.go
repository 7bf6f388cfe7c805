// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package anexia_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/anexia"
	"drover.io/infra-providers/anexia/anexiafake"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
)

// TestConformance with the least that a spec needs and with everything, where a search finds parts of names and where it finds
// whole names only, where a second removal is accepted and where it is refused: it is not documented what the Engine does.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change  func(*infrav1.AnexiaMachineSpec)
		options anexiafake.Options
	}{
		"minimal spec": {unchanged, anexiafake.Options{RepeatRemovals: true}},
		"full spec, tasks that take time, small pages": {allFields, anexiafake.Options{TaskReads: 2, PageSize: 7, WholeNames: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.Run(t, func(t *testing.T) drivertest.Environment[anexia.InstanceConfig] {
				return conformanceEnv(t, newEnv(t, test.options), test.change)
			})
		})
	}
}

func conformanceEnv(t *testing.T, w env, change func(*infrav1.AnexiaMachineSpec)) drivertest.Environment[anexia.InstanceConfig] {
	t.Helper()
	with := func(more func(*infrav1.AnexiaMachineSpec)) anexia.InstanceConfig {
		return newConfig(t, func(s *infrav1.AnexiaMachineSpec) {
			change(s)
			more(s)
		})
	}
	refuse := func(status int) func() { return func() { w.cloud.Fail(anexiafake.Fault{Status: status}) } }
	return drivertest.Environment[anexia.InstanceConfig]{
		Driver: w.connect(t),
		Config: with(unchanged),
		Invalid: map[string]anexia.InstanceConfig{
			"an unknown location":  with(func(s *infrav1.AnexiaMachineSpec) { s.LocationID = "gone" }),
			"an unknown VLAN":      with(func(s *infrav1.AnexiaMachineSpec) { s.Networks[0].VLANID = "gone" }),
			"an unknown prefix":    with(func(s *infrav1.AnexiaMachineSpec) { s.Networks[0].PrefixIDs = []string{"gone"} }),
			"an unknown disk type": with(func(s *infrav1.AnexiaMachineSpec) { s.Disks[0].PerformanceType = "FAST9" }),
			"an unknown CPU type":  with(func(s *infrav1.AnexiaMachineSpec) { s.CPUPerformanceType = "fast" }),
			"an unknown zone":      with(func(s *infrav1.AnexiaMachineSpec) { s.AvailabilityZoneID = "gone" }),
			"too little memory":    with(func(s *infrav1.AnexiaMachineSpec) { s.MemoryMB = 1 }),
		},
		NoImage: map[string]anexia.InstanceConfig{
			"an unknown template":            with(func(s *infrav1.AnexiaMachineSpec) { s.Template = "FooOS" }),
			"an unknown build":               with(func(s *infrav1.AnexiaMachineSpec) { s.TemplateBuild = "b75" }),
			"a template without a number":    with(func(s *infrav1.AnexiaMachineSpec) { s.Template, s.TemplateBuild = "Unnumbered", "" }),
			"an unknown template identifier": with(func(s *infrav1.AnexiaMachineSpec) { s.Template, s.TemplateBuild, s.TemplateID = "", "", "gone" }),
		},
		ImageOf:   func(created driver.Instance) string { return w.cloud.ImageOf(created.ID) },
		Reconnect: func() driver.Driver[anexia.InstanceConfig] { return w.connect(t) },
		// The loss of the answers to other requests is in exactlyonce_test.go.
		Lose: func() { w.cloud.Fail(anexiafake.Fault{}) },
		Refuse: map[drivertest.Refusal]func(){
			drivertest.Unauthorized: refuse(http.StatusForbidden),
			drivertest.RateLimited:  refuse(http.StatusTooManyRequests),
			drivertest.ServerError:  refuse(http.StatusInternalServerError),
		},
		Hide:      w.cloud.Hide,
		Stop:      w.cloud.Stop,
		Changes:   w.cloud.Changes,
		Leftovers: w.cloud.Leftovers,
	}
}

// env is a fake Engine behind HTTP, with a clock that can be advanced, and the journals of its machines.
type env struct {
	cloud   *anexiafake.Cloud
	url     string
	journal *drivertest.Journal
	clock   *drivertest.Clock
}

// newEnv starts a fake Engine. The test fails if a request is none that a client of the Engine sends.
func newEnv(t *testing.T, options anexiafake.Options) env {
	t.Helper()
	w := env{journal: drivertest.NewJournal(), clock: drivertest.NewClock()}
	options.Now = w.clock.Now
	w.cloud = anexiafake.New(options)
	server := httptest.NewServer(w.cloud)
	w.url = server.URL
	t.Cleanup(func() {
		server.Close()
		for _, violation := range w.cloud.Violations() {
			t.Errorf("a request is none of the Engine's: %s", violation)
		}
	})
	return w
}

// connect returns the driver of another process.
func (w env) connect(t *testing.T) *anexia.Driver {
	t.Helper()
	connected, err := w.description().Connect(t.Context(), driver.Account{SecretName: "anexia", Region: anexiafake.VLAN}, secret())
	if err != nil {
		t.Fatal(err)
	}
	connected.(driver.Journaled).UseJournal(w.journal)
	return connected.(*anexia.Driver)
}

func (w env) description() driver.Cloud[*infrav1.AnexiaMachine, anexia.InstanceConfig] {
	return anexia.Cloud(anexia.Options{Endpoint: w.url, PageSize: 50, Clock: w.clock})
}

func secret() driver.Credentials { return driver.Credentials{"token": []byte(anexiafake.Token + "\n")} }

// newSpec returns a spec that the fake accepts.
func newSpec(change func(*infrav1.AnexiaMachineSpec)) infrav1.AnexiaMachineSpec {
	s := infrav1.AnexiaMachineSpec{
		LocationID: anexiafake.Location,
		Template:   anexiafake.Template,
		CPUs:       2,
		MemoryMB:   4096,
		Disks:      []infrav1.AnexiaDisk{{SizeGB: 40}},
		Networks:   []infrav1.AnexiaNetwork{{VLANID: anexiafake.VLAN}},
	}
	change(&s)
	return s
}

func unchanged(*infrav1.AnexiaMachineSpec) {}

// allFields sets every field but the identifier of a template.
func allFields(s *infrav1.AnexiaMachineSpec) {
	s.AvailabilityZoneID, s.TemplateBuild, s.Sockets, s.CPUPerformanceType = anexiafake.ZoneA, "b74", 2, "performance"
	s.Disks = []infrav1.AnexiaDisk{{SizeGB: 40, PerformanceType: "ENT2"}, {SizeGB: 100, PerformanceType: "STD1"}}
	s.Networks = []infrav1.AnexiaNetwork{
		{VLANID: anexiafake.VLAN, ReserveAddress: ptr.To(true), PrefixIDs: []string{anexiafake.Prefix, anexiafake.PublicPrefix}, NICType: "virtio", BandwidthLimit: 1000},
		{VLANID: anexiafake.OtherVLAN, ReserveAddress: ptr.To(false), NICType: "virtio"},
	}
	s.DNSServers = []string{"94.16.16.94", "94.16.16.16", "2a00:11c0:11c0::2a00", "2a00:11c0:11c0::11c0"}
	s.SSHPublicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGd5vVnAJ6cQeY4yY3kXoZ3kqQkz5bqk6Q9k2kq3kq3k ops@example.org"
}

func newConfig(t *testing.T, change func(*infrav1.AnexiaMachineSpec)) anexia.InstanceConfig {
	t.Helper()
	created, err := anexia.NewInstanceConfig(&infrav1.AnexiaMachine{Spec: newSpec(change)}, "")
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func newRequest(id driver.Identity, config anexia.InstanceConfig) driver.CreateRequest[anexia.InstanceConfig] {
	return driver.CreateRequest[anexia.InstanceConfig]{Identity: id, Config: config, UserData: []byte("#cloud-config\n"), Format: "cloud-config"}
}

var identity = driver.Identity{UID: "0a1b2c3d-0000-4000-8000-000000000001", Name: "worker-1", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}}
