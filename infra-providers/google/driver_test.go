// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package google_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/google"
	"drover.io/infra-providers/google/googlefake"
	"drover.io/infra-providers/internal/inflight"
	"drover.io/infra-providers/internal/label"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, func(t *testing.T) drivertest.Environment[google.InstanceConfig] {
		return conformanceEnv(t, newEnv(t, googlefake.Options{OperationReads: 1, StoppingReads: 2}))
	})
}

func conformanceEnv(t *testing.T, gce env) drivertest.Environment[google.InstanceConfig] {
	t.Helper()
	once := func(fault googlefake.Fault) func() { return func() { gce.cloud.FailNext(fault) } }
	key := func(created driver.Instance) string { return created.FailureDomain + "/" + created.ID }
	other := newConfig(t, func(s *infrav1.GoogleMachineSpec) { s.MachineType, s.Zone = "n4-standard-4", googlefake.ZoneB })
	return drivertest.Environment[google.InstanceConfig]{
		Driver: gce.connect(t),
		Config: newConfig(t, withDisk),
		Other:  &other,
		Invalid: map[string]google.InstanceConfig{
			"an unknown machine type": newConfig(t, func(s *infrav1.GoogleMachineSpec) { s.MachineType = "n9-standard-2" }),
			"an unknown zone":         newConfig(t, func(s *infrav1.GoogleMachineSpec) { s.Zone = "europe-west3-x" }),
			"an unknown subnetwork": newConfig(t, func(s *infrav1.GoogleMachineSpec) {
				s.NetworkInterfaces = []infrav1.GoogleNetworkInterface{{Subnetwork: "gone"}}
			}),
		},
		NoImage: map[string]google.InstanceConfig{
			"an unknown image":  newConfig(t, func(s *infrav1.GoogleMachineSpec) { s.Image.Family, s.Image.Name = "", "gone" }),
			"an unknown family": newConfig(t, func(s *infrav1.GoogleMachineSpec) { s.Image.Family = "gone" }),
			"an obsolete image": newConfig(t, func(s *infrav1.GoogleMachineSpec) { s.Image.Family, s.Image.Name = "", googlefake.ObsoleteImage }),
		},
		UniqueNames: true,
		ImageOf:     func(created driver.Instance) string { return gce.cloud.ImageOf(created.ID) },
		Reconnect:   func() driver.Driver[google.InstanceConfig] { return gce.connect(t) },
		Lose:        once(googlefake.Fault{Lost: true}),
		Interrupt:   once(googlefake.Fault{Operation: "INTERNAL_ERROR", Message: "An internal error occurred.", LeavesDisks: true}),
		Refuse: map[drivertest.Refusal]func(){
			drivertest.Unauthorized:         once(googlefake.Fault{Status: 403, Reason: "forbidden", Message: "Required 'compute.instances.get' permission"}),
			drivertest.RateLimited:          once(googlefake.Fault{Status: 403, Reason: "rateLimitExceeded", Message: "Rate Limit Exceeded"}),
			drivertest.ServerError:          once(googlefake.Fault{Status: 503, Reason: "backendError", Message: "Backend Error"}),
			drivertest.QuotaExceeded:        once(googlefake.Fault{Status: 403, Reason: "quotaExceeded", Message: "Quota 'CPUS' exceeded. Limit: 24.0 in region europe-west3."}),
			drivertest.InsufficientCapacity: once(googlefake.Fault{Operation: "ZONE_RESOURCE_POOL_EXHAUSTED", Message: "The zone does not have enough resources available to fulfill the request."}),
		},
		Hide:       func() { gce.cloud.HideNext(4) },
		Attach:     func(created driver.Instance) func() bool { return gce.cloud.Attach(key(created)) },
		AttachCopy: func(created driver.Instance) func() bool { return gce.cloud.AttachCopy(key(created), true) },
		CopyTags:   func(created driver.Instance) func() bool { return gce.cloud.CopyLabels(key(created)) },
		Stop:       gce.cloud.Stop,
		Restarts:   gce.cloud.Resets,
		Write:      func(_ driver.Instance, output string) { gce.cloud.Write(output) },
		Untag: func(created driver.Instance, tags ...string) func() bool {
			return gce.cloud.Untag(key(created), labelsOf(tags)...)
		},
		Leftovers: gce.cloud.Leftovers,
		Changes:   gce.cloud.Changes,
	}
}

// labelsOf returns the labels of tags.
func labelsOf(tags []string) (labels []string) {
	for _, tag := range tags {
		labels = append(labels, label.Prefix+strings.TrimPrefix(tag, "drover.io/"))
	}
	return labels
}

// env is a fake Compute Engine behind an HTTP server, with a clock that can be advanced and runs at a speed.
type env struct {
	cloud *googlefake.Cloud
	url   string
	clock *drivertest.Clock
}

// newEnv starts a fake Compute Engine. The test fails if a request or an answer violates the discovery document.
func newEnv(t *testing.T, options googlefake.Options) env {
	t.Helper()
	cloud, err := googlefake.New(options)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(cloud)
	t.Cleanup(func() {
		server.Close()
		for _, violation := range cloud.Violations() {
			t.Errorf("violation of the discovery document: %s", violation)
		}
		for name, machine := range cloud.Labels(label.MachineUID) {
			if machine == "" {
				t.Errorf("%s has no identity", name)
			}
		}
	})
	return env{cloud: cloud, url: server.URL, clock: drivertest.NewClock()}
}

// connect returns a driver with valid credentials whose process started longer than the startup window ago.
func (w env) connect(t *testing.T) driver.Driver[google.InstanceConfig] {
	t.Helper()
	age := inflight.Window
	return w.connectAt(t, func() time.Time { return w.clock.Now().Add(-age) }, func() { age = 0 })
}

// connectRestarted returns the driver of a process that has just started.
func (w env) connectRestarted(t *testing.T) driver.Driver[google.InstanceConfig] {
	t.Helper()
	return w.connectAt(t, w.clock.Now, func() {})
}

func (w env) connectAt(t *testing.T, now func() time.Time, connected func()) driver.Driver[google.InstanceConfig] {
	t.Helper()
	defer connected()
	account := driver.Account{SecretName: "google", Region: googlefake.Project}
	created, err := w.descriptionAt(now).Connect(t.Context(), account, w.secret())
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func (w env) description() driver.Cloud[*infrav1.GoogleMachine, google.InstanceConfig] {
	return w.descriptionAt(w.clock.Now)
}

func (w env) descriptionAt(now func() time.Time) driver.Cloud[*infrav1.GoogleMachine, google.InstanceConfig] {
	return google.Cloud(google.Options{Endpoint: w.url, TokenEndpoint: w.url + "/token", PageSize: 7, Clock: drivertest.ClockFunc(now)})
}

func (w env) secret() driver.Credentials {
	return driver.Credentials{"serviceaccount.json": w.cloud.Key()}
}

// newSpec returns a spec that the fake accepts.
func newSpec(change func(*infrav1.GoogleMachineSpec)) infrav1.GoogleMachineSpec {
	s := infrav1.GoogleMachineSpec{
		Project:           googlefake.Project,
		Zone:              googlefake.ZoneA,
		MachineType:       "n4-standard-2",
		Image:             infrav1.GoogleImage{Family: googlefake.Family, Project: googlefake.ImageProject},
		NetworkInterfaces: []infrav1.GoogleNetworkInterface{{Subnetwork: googlefake.Subnetwork}},
	}
	change(&s)
	return s
}

func unchanged(*infrav1.GoogleMachineSpec) {}

func withDisk(s *infrav1.GoogleMachineSpec) {
	s.Disks = []infrav1.GoogleDisk{{Name: "data", GoogleDiskSettings: infrav1.GoogleDiskSettings{SizeGB: ptr.To[int64](20)}}}
}

func newConfig(t *testing.T, change func(*infrav1.GoogleMachineSpec)) google.InstanceConfig {
	t.Helper()
	created, err := google.NewInstanceConfig(&infrav1.GoogleMachine{Spec: newSpec(change)}, "")
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func newRequest(id driver.Identity, config google.InstanceConfig) driver.CreateRequest[google.InstanceConfig] {
	return driver.CreateRequest[google.InstanceConfig]{Identity: id, Config: config, UserData: []byte("#cloud-config\n"), Format: "cloud-config"}
}

var identity = driver.Identity{UID: "0a1b2c3d-0000-4000-8000-000000000001", Name: "worker-1", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}}
