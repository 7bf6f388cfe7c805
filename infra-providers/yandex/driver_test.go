// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandex_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/yandex-cloud/go-genproto/yandex/cloud/quota"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/internal/inflight"
	"drover.io/infra-providers/internal/label"
	"drover.io/infra-providers/yandex"
	"drover.io/infra-providers/yandex/yandexfake"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, func(t *testing.T) drivertest.Environment[yandex.InstanceConfig] {
		return conformanceEnv(t, newEnv(t, yandexfake.Options{OperationReads: 1, DeletingReads: 2}))
	})
}

func conformanceEnv(t *testing.T, w env) drivertest.Environment[yandex.InstanceConfig] {
	t.Helper()
	once := func(fault yandexfake.Fault) func() { return func() { w.cloud.FailNext(fault) } }
	other := newConfig(t, func(s *infrav1.YandexMachineSpec) { s.Cores, s.Zone = 4, yandexfake.ZoneB })
	return drivertest.Environment[yandex.InstanceConfig]{
		Driver: w.connect(t),
		Config: newConfig(t, withDisk),
		Other:  &other,
		Invalid: map[string]yandex.InstanceConfig{
			"an unknown platform": newConfig(t, func(s *infrav1.YandexMachineSpec) { s.PlatformID = "standard-v9" }),
			"an unknown zone": newConfig(t, func(s *infrav1.YandexMachineSpec) {
				s.Zone = "ru-central1-x"
				s.NetworkInterfaces[0].Subnets[0].Zone = s.Zone
			}),
			"an unknown subnet": newConfig(t, func(s *infrav1.YandexMachineSpec) { s.NetworkInterfaces[0].Subnets[0].SubnetID = "gone" }),
		},
		NoImage: map[string]yandex.InstanceConfig{
			"an unknown image":  newConfig(t, func(s *infrav1.YandexMachineSpec) { s.Image = infrav1.YandexImage{ID: "gone"} }),
			"an unknown family": newConfig(t, func(s *infrav1.YandexMachineSpec) { s.Image.Family = "gone" }),
			"a broken image":    newConfig(t, func(s *infrav1.YandexMachineSpec) { s.Image = infrav1.YandexImage{ID: yandexfake.BrokenImage} }),
		},
		UniqueNames: true,
		ImageOf:     func(created driver.Instance) string { return w.cloud.ImageOf(created.ID) },
		Reconnect:   func() driver.Driver[yandex.InstanceConfig] { return w.connect(t) },
		Lose:        once(yandexfake.Fault{Lost: true}),
		Interrupt:   once(yandexfake.Fault{Operation: codes.Internal, Message: "Internal error"}),
		Refuse: map[drivertest.Refusal]func(){
			drivertest.Unauthorized:         once(yandexfake.Fault{Code: codes.PermissionDenied, Message: "Permission denied"}),
			drivertest.RateLimited:          once(yandexfake.Fault{Code: codes.ResourceExhausted, Message: "The limit of requests is exceeded", Details: []proto.Message{quotaFailure("compute.requests.rate")}}),
			drivertest.ServerError:          once(yandexfake.Fault{Code: codes.Internal, Message: "Internal error"}),
			drivertest.QuotaExceeded:        once(yandexfake.Fault{Code: codes.ResourceExhausted, Message: "Quota limit compute.instances.count exceeded", Details: []proto.Message{quotaFailure("compute.instances.count")}}),
			drivertest.InsufficientCapacity: once(yandexfake.Fault{Operation: codes.ResourceExhausted, Message: "Not enough resources"}),
		},
		Hide:       func() { w.cloud.HideNext(4) },
		Attach:     func(created driver.Instance) func() bool { return w.cloud.Attach(created.ID) },
		AttachCopy: func(created driver.Instance) func() bool { return w.cloud.AttachCopy(created.ID) },
		CopyTags:   func(created driver.Instance) func() bool { return w.cloud.CopyLabels(created.ID) },
		Stop:       w.cloud.Stop,
		Restarts:   w.cloud.Restarts,
		Write:      func(_ driver.Instance, output string) { w.cloud.Write(output) },
		Untag: func(created driver.Instance, tags ...string) func() bool {
			return w.cloud.Untag(created.ID, labelsOf(tags)...)
		},
		Leftovers: w.cloud.Leftovers,
		Changes:   w.cloud.Changes,
	}
}

func quotaFailure(metric string) *quota.QuotaFailure {
	return &quota.QuotaFailure{Violations: []*quota.QuotaFailure_Violation{{Metric: &quota.QuotaMetric{Name: metric, Limit: 8, Usage: 8}, Required: 9}}}
}

// labelsOf returns the labels of tags.
func labelsOf(tags []string) (labels []string) {
	for _, tag := range tags {
		labels = append(labels, label.Prefix+strings.TrimPrefix(tag, "drover.io/"))
	}
	return labels
}

// env is a fake Yandex Cloud behind a gRPC server, with a clock that can be advanced and runs at a speed.
type env struct {
	cloud *yandexfake.Cloud
	url   string
	clock *drivertest.Clock
}

// newEnv starts a fake Yandex Cloud. The test fails if a request violates a rule of the API.
func newEnv(t *testing.T, options yandexfake.Options) env {
	t.Helper()
	cloud, err := yandexfake.New(options)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := cloud.Server()
	go server.Serve(listener) //nolint:errcheck // it ends with the test
	t.Cleanup(func() {
		server.Stop()
		for _, violation := range cloud.Violations() {
			t.Errorf("violation of the rules of the API: %s", violation)
		}
		for name, machine := range cloud.Labels(label.MachineUID) {
			if machine == "" {
				t.Errorf("%s has no identity", name)
			}
		}
	})
	return env{cloud: cloud, url: "http://" + listener.Addr().String(), clock: drivertest.NewClock()}
}

// connect returns a driver with valid credentials whose process started longer than the startup window ago.
func (w env) connect(t *testing.T) driver.Driver[yandex.InstanceConfig] {
	t.Helper()
	age := inflight.Window
	return w.connectAt(t, func() time.Time { return w.clock.Now().Add(-age) }, func() { age = 0 })
}

// connectRestarted returns the driver of a process that has just started.
func (w env) connectRestarted(t *testing.T) driver.Driver[yandex.InstanceConfig] {
	t.Helper()
	return w.connectAt(t, w.clock.Now, func() {})
}

func (w env) connectAt(t *testing.T, now func() time.Time, connected func()) driver.Driver[yandex.InstanceConfig] {
	t.Helper()
	defer connected()
	account := driver.Account{SecretName: "yandex", Region: yandexfake.Folder}
	created, err := w.descriptionAt(now).Connect(t.Context(), account, w.secret())
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func (w env) description() driver.Cloud[*infrav1.YandexMachine, yandex.InstanceConfig] {
	return w.descriptionAt(w.clock.Now)
}

func (w env) descriptionAt(now func() time.Time) driver.Cloud[*infrav1.YandexMachine, yandex.InstanceConfig] {
	return yandex.Cloud(yandex.Options{Endpoint: w.url, PageSize: 7, Clock: drivertest.ClockFunc(now)})
}

func (w env) secret() driver.Credentials { return driver.Credentials{"key.json": w.cloud.Key()} }

// newSpec returns a spec that the fake accepts.
func newSpec(change func(*infrav1.YandexMachineSpec)) infrav1.YandexMachineSpec {
	s := infrav1.YandexMachineSpec{
		FolderID:   yandexfake.Folder,
		Zone:       yandexfake.ZoneA,
		PlatformID: "standard-v3",
		Cores:      2,
		MemoryMiB:  4096,
		Image:      infrav1.YandexImage{Family: yandexfake.Family},
		NetworkInterfaces: []infrav1.YandexNetworkInterface{{Subnets: []infrav1.YandexSubnet{
			{Zone: yandexfake.ZoneA, SubnetID: yandexfake.SubnetA}, {Zone: yandexfake.ZoneB, SubnetID: yandexfake.SubnetB},
		}}},
	}
	change(&s)
	return s
}

func unchanged(*infrav1.YandexMachineSpec) {}

func withDisk(s *infrav1.YandexMachineSpec) {
	s.Disks = []infrav1.YandexDisk{{Name: "data", YandexDiskSettings: infrav1.YandexDiskSettings{SizeGiB: ptr.To[int64](20)}}}
}

func newConfig(t *testing.T, change func(*infrav1.YandexMachineSpec)) yandex.InstanceConfig {
	t.Helper()
	created, err := yandex.NewInstanceConfig(&infrav1.YandexMachine{Spec: newSpec(change)}, "")
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func newRequest(id driver.Identity, config yandex.InstanceConfig) driver.CreateRequest[yandex.InstanceConfig] {
	return driver.CreateRequest[yandex.InstanceConfig]{Identity: id, Config: config, UserData: []byte("#cloud-config\n"), Format: "cloud-config"}
}

var identity = driver.Identity{UID: "0a1b2c3d-0000-4000-8000-000000000001", Name: "worker-1", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}}
