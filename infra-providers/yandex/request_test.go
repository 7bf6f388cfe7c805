// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandex_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/yandex-cloud/go-genproto/yandex/cloud/compute/v1"
	"google.golang.org/protobuf/encoding/protojson"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/yandex"
	"drover.io/infra-providers/yandex/request"
	"drover.io/infra-providers/yandex/yandexfake"
)

// requested returns the instance that is requested for a spec.
func requested(t *testing.T, change func(*infrav1.YandexMachineSpec), alter func(*driver.CreateRequest[yandex.InstanceConfig])) *compute.CreateInstanceRequest {
	t.Helper()
	w := newEnv(t, yandexfake.Options{})
	req := newRequest(identity, newConfig(t, change))
	alter(&req)
	if _, err := drivertest.Create(t, w.connect(t), req); err != nil {
		t.Fatal(err)
	}
	all, _ := w.cloud.Requests()
	return all[0]
}

// TestAllFieldsAreRequested: the rules of the API are checked by the fake.
func TestAllFieldsAreRequested(t *testing.T) {
	t.Parallel()
	got := requested(t, allFields, func(*driver.CreateRequest[yandex.InstanceConfig]) {})
	text := strings.ReplaceAll(protojson.MarshalOptions{}.Format(got), " ", "")
	for _, want := range []string{
		`"folderId":"b1gdrovertest0000001"`, `"name":"worker-1"`, `"hostname":"worker-1"`, `"zoneId":"ru-central1-a"`, `"platformId":"standard-v3"`,
		`"resourcesSpec":{"memory":"4294967296","cores":"2","coreFraction":"100","gpus":"1"}`, `"deviceName":"data"`, `"user-data":"#cloud-config\n"`,
		`"filesystemSpecs":[{"mode":"READ_ONLY","deviceName":"shared","filesystemId":"fhmfs00000000000001"}]`,
		`{"size":"1599875317760","physicalLocalDisk":{"kmsKeyId":"abjkey00000000000001"}}`, `"oneToOneNatSpec":{"ipVersion":"IPV4"}`, `"primaryV6AddressSpec":{}`,
		`"securityGroupIds":["enpgroup000000000001"]`, `"schedulingPolicy":{"preemptible":true}`, `"serviceAccountId":"ajenodes00000000001"`,
		`"networkSettings":{"type":"SOFTWARE_ACCELERATED"}`, `"placementGroupPartition":"3"`, `"key":"yc.hostGroupId","op":"IN"`,
		`"gpuClusterId":"fd8gpus0000000000001"`, `"reservedInstancePoolId":"fd8pool0000000000001"`, `"maintenancePolicy":"MIGRATE"`, `"maintenanceGracePeriod":"60s"`,
		`"gceHttpEndpoint":"ENABLED"`, `"awsV2HttpToken":"DISABLED"`, `"sshAuthorization":"OS_LOGIN"`, `"cost-center":"a/b"`, `"drover-machine":"worker-1"`, `"ssh-keys"`,
	} {
		if !strings.Contains(text, strings.ReplaceAll(want, " ", "")) {
			t.Errorf("the request has no %s:\n%s", want, text)
		}
	}
	for _, disk := range append([]*compute.AttachedDiskSpec{got.BootDiskSpec}, got.SecondaryDiskSpecs...) {
		if !disk.AutoDelete || disk.GetDiskId() == "" {
			t.Errorf("%v is not deleted with the instance", disk)
		}
	}
}

func TestDisksAreRequested(t *testing.T) {
	t.Parallel()
	config := newConfig(t, allFields)
	config.Spec.Disks = append(config.Spec.Disks, infrav1.YandexDisk{Name: "copy", YandexDiskSettings: infrav1.YandexDiskSettings{SizeGiB: ptr.To[int64](5)}, SnapshotID: "fd8snapshot"})
	all := request.Disks(request.Input{Spec: config.Spec, Zone: config.Zone, Identity: identity}, &compute.Image{Id: "fd8image", MinDiskSize: 1})
	if len(all) != 3 {
		t.Fatalf("got %d disks, want 3", len(all))
	}
	boot, data, snapshot := all[0], all[1], all[2]
	if boot.GetImageId() != "fd8image" || boot.Name != "worker-1" || boot.Size != 93<<30 || boot.TypeId != "network-ssd-nonreplicated" || boot.BlockSize != 8192 ||
		boot.KmsKeyId == "" || boot.DiskPlacementPolicy.PlacementGroupPartition != 2 || len(boot.SnapshotScheduleIds) != 1 || boot.Labels["cost-center"] != "a/b" {
		t.Errorf("got the boot disk %v", boot)
	}
	if data.Name != "worker-1-data" || data.Source != nil || snapshot.GetSnapshotId() != "fd8snapshot" || snapshot.Name != "worker-1-copy" {
		t.Errorf("got the disks %v and %v", data, snapshot)
	}
	long := identity
	long.Name = strings.Repeat("w", 63)
	for _, disk := range request.Disks(request.Input{Spec: config.Spec, Zone: config.Zone, Identity: long}, &compute.Image{}) {
		if len(disk.Name) > 63 {
			t.Errorf("the name %q is too long", disk.Name)
		}
	}
}

func TestUserDataThatDoesNotFit(t *testing.T) {
	t.Parallel()
	w := newEnv(t, yandexfake.Options{})
	for name, data := range map[string][]byte{"too long": bytes.Repeat([]byte("a"), request.MaxUserData+1), "no text": {0xff, 0xfe}} {
		req := newRequest(identity, newConfig(t, unchanged))
		req.UserData = data
		if _, err := w.connect(t).Create(t.Context(), req); !driver.IsInvalidConfiguration(err) {
			t.Errorf("%s: got %v, want an InvalidConfigurationError", name, err)
		}
	}
	if left := w.cloud.Leftovers(); len(left) > 0 {
		t.Errorf("%q was created", left)
	}
}

// TestIgnitionIsRefused before anything costs money: nothing on an instance of Yandex Cloud reads it.
func TestIgnitionIsRefused(t *testing.T) {
	t.Parallel()
	w := newEnv(t, yandexfake.Options{})
	req := newRequest(identity, newConfig(t, unchanged))
	req.UserData, req.Format = []byte(`{"ignition":{"version":"3.4.0"}}`), "ignition"
	if _, err := w.connect(t).Create(t.Context(), req); !driver.IsInvalidConfiguration(err) || !strings.Contains(err.Error(), "cloud-init") {
		t.Errorf("got %v, want an InvalidConfigurationError that names the alternative", err)
	}
	if left := w.cloud.Leftovers(); len(left) > 0 {
		t.Errorf("%q was created", left)
	}
}

func TestCapacity(t *testing.T) {
	t.Parallel()
	w := newEnv(t, yandexfake.Options{})
	provider := w.connect(t).(driver.CapacityProvider[yandex.InstanceConfig])
	got, err := provider.Capacity(t.Context(), newConfig(t, func(s *infrav1.YandexMachineSpec) { s.GPUs = ptr.To[int64](2) }))
	if err != nil {
		t.Fatal(err)
	}
	want := driver.Capacity{Architecture: "amd64", OperatingSystem: "linux", Capacity: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("10Gi"), "nvidia.com/gpu": resource.MustParse("2"),
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAlternatives(t *testing.T) {
	t.Parallel()
	spec := newSpec(func(s *infrav1.YandexMachineSpec) {
		s.Fallbacks = []infrav1.YandexFallback{{Zone: yandexfake.ZoneB}, {PlatformID: "standard-v2", Cores: 4, Preemptible: ptr.To(true)}}
	})
	for zone, want := range map[string][]string{
		"":               {"ru-central1-b standard-v3, 2 cores, 4096 MiB", "ru-central1-a standard-v2, 4 cores, 4096 MiB (preemptible)"},
		yandexfake.ZoneA: {"ru-central1-a standard-v2, 4 cores, 4096 MiB (preemptible)"},
	} {
		cloud := yandex.Cloud(yandex.Options{})
		config, err := cloud.Config(&infrav1.YandexMachine{Spec: spec}, zone)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, other := range cloud.Alternatives(config) {
			offered, in := cloud.Offering(other)
			got = append(got, in+" "+offered)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("in %q (-want +got):\n%s", zone, diff)
		}
	}
}

// TestOwnSubnetOfEachFallback: a fallback in a zone without a subnet is refused before anything is requested.
func TestOwnSubnetOfEachFallback(t *testing.T) {
	t.Parallel()
	spec := newSpec(func(s *infrav1.YandexMachineSpec) { s.Fallbacks = []infrav1.YandexFallback{{Zone: "ru-central1-d"}} })
	if _, err := yandex.NewInstanceConfig(&infrav1.YandexMachine{Spec: spec}, ""); !driver.IsInvalidConfiguration(err) || !strings.Contains(err.Error(), "spec.fallbacks[0].zone") {
		t.Errorf("got %v, want an InvalidConfigurationError about the fallback", err)
	}
}
