// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alibaba_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/alibaba"
	"drover.io/infra-providers/alibaba/alibabafake"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/internal/createcache"
)

// TestConformance in a cloud that answers a client token with the refusal that it got before, and in one that does not: it is
// not documented which of them ECS is.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, replay := range map[string]bool{"refusals are replayed": true, "refusals are forgotten": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.Run(t, func(t *testing.T) drivertest.Environment[alibaba.InstanceConfig] {
				return conformanceEnv(t, newEnv(t, alibabafake.Options{StoppingReads: 2, ReplayRefusals: replay}))
			})
		})
	}
}

func conformanceEnv(t *testing.T, w env) drivertest.Environment[alibaba.InstanceConfig] {
	t.Helper()
	once := func(fault alibabafake.Fault) func() { return func() { w.cloud.FailNext(fault) } }
	other := newConfig(t, func(s *infrav1.AlibabaMachineSpec) { s.InstanceType, s.ZoneID = "ecs.g8i.xlarge", alibabafake.ZoneB })
	return drivertest.Environment[alibaba.InstanceConfig]{
		Driver:              w.connect(t),
		NormalizeProviderID: w.description().NormalizeProviderID,
		Config:              newConfig(t, withDisk),
		Other:               &other,
		Invalid: map[string]alibaba.InstanceConfig{
			"an unknown type": newConfig(t, func(s *infrav1.AlibabaMachineSpec) { s.InstanceType = "ecs.g99.large" }),
			"an unknown zone": newConfig(t, func(s *infrav1.AlibabaMachineSpec) {
				s.ZoneID = "eu-central-1x"
				s.VSwitches[0].ZoneID = s.ZoneID
			}),
			"an unknown vSwitch":                             newConfig(t, func(s *infrav1.AlibabaMachineSpec) { s.VSwitches[0].VSwitchID = "vsw-gone" }),
			"a vSwitch of another zone":                      newConfig(t, func(s *infrav1.AlibabaMachineSpec) { s.VSwitches[0].VSwitchID = alibabafake.VSwitchB }),
			"an unknown security group":                      newConfig(t, func(s *infrav1.AlibabaMachineSpec) { s.SecurityGroupIDs = []string{"sg-gone"} }),
			"an image of another architecture than the type": newConfig(t, func(s *infrav1.AlibabaMachineSpec) { s.InstanceType = "ecs.g8y.large" }),
		},
		NoImage: map[string]alibaba.InstanceConfig{
			"an unknown image":               newConfig(t, func(s *infrav1.AlibabaMachineSpec) { s.Image = infrav1.AlibabaImage{ID: "m-gone"} }),
			"an image that is not available": newConfig(t, func(s *infrav1.AlibabaMachineSpec) { s.Image = infrav1.AlibabaImage{ID: alibabafake.GoneImage} }),
			"an unknown family":              newConfig(t, func(s *infrav1.AlibabaMachineSpec) { s.Image = infrav1.AlibabaImage{Family: "gone"} }),
			"a name of another owner":        newConfig(t, func(s *infrav1.AlibabaMachineSpec) { s.Image = infrav1.AlibabaImage{Name: "ubuntu*", Owner: "self"} }),
		},
		ImageOf:   func(created driver.Instance) string { return w.cloud.ImageOf(created.ID) },
		Reconnect: func() driver.Driver[alibaba.InstanceConfig] { return w.connect(t) },
		Lose:      once(alibabafake.Fault{Lost: true}),
		Refuse: map[drivertest.Refusal]func(){
			drivertest.Unauthorized:         once(alibabafake.Fault{Status: http.StatusForbidden, Code: "Forbidden.RAM", Message: "User not authorized to operate on the specified resource."}),
			drivertest.RateLimited:          once(throttled),
			drivertest.ServerError:          once(alibabafake.Fault{Status: http.StatusInternalServerError, Code: "InternalError", Message: "The request processing has failed due to some unknown error."}),
			drivertest.QuotaExceeded:        once(alibabafake.Fault{Status: http.StatusForbidden, Code: "QuotaExceed.ElasticQuota", Message: "The number of vCPUs exceeds the quota."}),
			drivertest.InsufficientCapacity: once(alibabafake.Fault{Status: http.StatusForbidden, Code: "OperationDenied.NoStock", Message: "The requested resource is sold out in the specified zone."}),
		},
		Hide:       func() { w.cloud.HideNext(4) },
		Attach:     func(created driver.Instance) func() bool { return w.cloud.Attach(created.ID) },
		AttachCopy: func(created driver.Instance) func() bool { return w.cloud.AttachCopy(created.ID) },
		Untag:      func(created driver.Instance, tags ...string) func() bool { return w.cloud.Untag(created.ID, tags...) },
		Stop:       w.cloud.Stop,
		Restarts:   w.cloud.Reboots,
		Write:      func(_ driver.Instance, output string) { w.cloud.Write(output) },
		Changes:    w.cloud.Changes,
		Leftovers:  w.cloud.Leftovers,
	}
}

var throttled = alibabafake.Fault{
	Status: http.StatusBadRequest, Code: "Throttling.User", Message: "Request was denied due to user flow control.",
	Headers: map[string]string{"X-Ratelimit-User": "Limit:500,Remain:0,TimeLeft:1200"},
}

// env is a fake ECS behind HTTP, with a clock that can be advanced and runs at a speed.
type env struct {
	cloud *alibabafake.Cloud
	url   string
	clock *drivertest.Clock
}

// newEnv starts a fake ECS. The test fails if a request violates the published metadata, or if anything exists at its end that
// has no identity.
func newEnv(t *testing.T, options alibabafake.Options) env {
	t.Helper()
	cloud, err := alibabafake.New(options)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(cloud)
	t.Cleanup(func() {
		server.Close()
		for _, violation := range cloud.Violations() {
			t.Errorf("violation of the published metadata: %s", violation)
		}
		for name, machine := range cloud.Tags(driver.TagMachineUID) {
			if machine == "" {
				t.Errorf("%s has no identity", name)
			}
		}
	})
	return env{cloud: cloud, url: server.URL, clock: drivertest.NewClock()}
}

// connect returns a driver with valid credentials whose process started longer than the startup window ago.
func (w env) connect(t *testing.T) driver.Driver[alibaba.InstanceConfig] {
	t.Helper()
	age := createcache.Window
	return w.connectAt(t, func() time.Time { return w.clock.Now().Add(-age) }, func() { age = 0 })
}

// connectRestarted returns the driver of a process that has just started.
func (w env) connectRestarted(t *testing.T) driver.Driver[alibaba.InstanceConfig] {
	t.Helper()
	return w.connectAt(t, w.clock.Now, func() {})
}

func (w env) connectAt(t *testing.T, now func() time.Time, connected func()) driver.Driver[alibaba.InstanceConfig] {
	t.Helper()
	defer connected()
	created, err := w.descriptionAt(now).Connect(t.Context(), driver.Account{SecretName: "alibaba", Region: alibabafake.Region}, secret())
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func (w env) description() driver.Cloud[*infrav1.AlibabaMachine, alibaba.InstanceConfig] {
	return w.descriptionAt(w.clock.Now)
}

func (w env) descriptionAt(now func() time.Time) driver.Cloud[*infrav1.AlibabaMachine, alibaba.InstanceConfig] {
	return alibaba.Cloud(alibaba.Options{Endpoint: w.url, PageSize: 7, Clock: drivertest.ClockFunc(now)})
}

func secret() driver.Credentials {
	return driver.Credentials{"ALIBABA_CLOUD_ACCESS_KEY_ID": []byte(alibabafake.AccessKey), "ALIBABA_CLOUD_ACCESS_KEY_SECRET": []byte(alibabafake.AccessSecret + "\n")}
}

// newSpec returns a spec that the fake accepts.
func newSpec(change func(*infrav1.AlibabaMachineSpec)) infrav1.AlibabaMachineSpec {
	s := infrav1.AlibabaMachineSpec{
		RegionID:         alibabafake.Region,
		ZoneID:           alibabafake.ZoneA,
		InstanceType:     "ecs.g8i.large",
		Image:            infrav1.AlibabaImage{Family: alibabafake.Family},
		VSwitches:        []infrav1.AlibabaVSwitch{{ZoneID: alibabafake.ZoneA, VSwitchID: alibabafake.VSwitchA}, {ZoneID: alibabafake.ZoneB, VSwitchID: alibabafake.VSwitchB}},
		SecurityGroupIDs: []string{alibabafake.Group},
	}
	change(&s)
	return s
}

func unchanged(*infrav1.AlibabaMachineSpec) {}

func withDisk(s *infrav1.AlibabaMachineSpec) {
	s.DataDisks = []infrav1.AlibabaDataDisk{{Name: "data", AlibabaDisk: infrav1.AlibabaDisk{SizeGiB: ptr.To[int32](20)}}}
}

func newConfig(t *testing.T, change func(*infrav1.AlibabaMachineSpec)) alibaba.InstanceConfig {
	t.Helper()
	created, err := alibaba.NewInstanceConfig(&infrav1.AlibabaMachine{Spec: newSpec(change)}, "")
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func newRequest(id driver.Identity, config alibaba.InstanceConfig) driver.CreateRequest[alibaba.InstanceConfig] {
	return driver.CreateRequest[alibaba.InstanceConfig]{Identity: id, Config: config, UserData: []byte("#cloud-config\n"), Format: "cloud-config"}
}

var identity = driver.Identity{UID: "0a1b2c3d-0000-4000-8000-000000000001", Name: "worker-1", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}}
