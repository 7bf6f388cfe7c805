// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alibaba_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/alibaba"
	"drover.io/infra-providers/alibaba/alibabafake"
	"drover.io/infra-providers/alibaba/request"
	"drover.io/infra-providers/driver"
)

// requested returns the parameters with which an instance is requested.
func requested(t *testing.T, change func(*infrav1.AlibabaMachineSpec), alter func(*driver.CreateRequest[alibaba.InstanceConfig])) map[string]string {
	t.Helper()
	w := newEnv(t, alibabafake.Options{})
	req := newRequest(identity, newConfig(t, change))
	alter(&req)
	if _, err := w.connect(t).Create(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	return w.cloud.Requests()[0]
}

func unaltered(*driver.CreateRequest[alibaba.InstanceConfig]) {}

// TestLeastRequest has what is requested of a spec without optional fields.
func TestLeastRequest(t *testing.T) {
	t.Parallel()
	got := requested(t, unchanged, unaltered)
	if len(got["ClientToken"]) != 64 {
		t.Errorf("the client token %q has not 64 characters", got["ClientToken"])
	}
	delete(got, "ClientToken")
	want := map[string]string{
		"RegionId": "eu-central-1", "ZoneId": "eu-central-1a", "Amount": "1", "InstanceType": "ecs.g8i.large", "InstanceChargeType": "PostPaid", "ImageId": alibabafake.Image,
		"VSwitchId": alibabafake.VSwitchA, "SecurityGroupIds.1": alibabafake.Group, "InstanceName": "worker-1", "HostName": "worker-1",
		"UserData": base64.StdEncoding.EncodeToString([]byte("#cloud-config\n")),
	}
	tags := identity.Tags()
	for n, key := range slices.Sorted(maps.Keys(tags)) {
		want[fmt.Sprintf("Tag.%d.Key", n+1)], want[fmt.Sprintf("Tag.%d.Value", n+1)] = key, tags[key]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAllFieldsAreRequested: the names of parameters are checked by the fake.
func TestAllFieldsAreRequested(t *testing.T) {
	t.Parallel()
	got := requested(t, allFields, unaltered)
	for name, want := range map[string]string{
		"InternetMaxBandwidthOut": "5", "InternetChargeType": "PayByTraffic", "Ipv6AddressCount": "2",
		"SystemDisk.Size": "40", "SystemDisk.Category": "cloud_auto", "SystemDisk.ProvisionedIops": "1000", "SystemDisk.BurstingEnabled": "true", "SystemDisk.Encrypted": "true",
		"SystemDisk.KMSKeyId": "0e478b7a-4262-4802-b8cb-00d3fb40826X", "SystemDisk.AutoSnapshotPolicyId": "sp-gw8",
		"DataDisk.1.DiskName": "drover-1fcf3b1435bd318e-data", "DataDisk.1.Size": "100", "DataDisk.1.Category": "cloud_essd", "DataDisk.1.PerformanceLevel": "PL2", "DataDisk.1.Encrypted": "true",
		"DataDisk.1.DeleteWithInstance": "true", "DataDisk.2.SnapshotId": "s-gw8", "DataDisk.2.DeleteWithInstance": "true",
		"RamRoleName": "nodes", "KeyPairName": "ops", "SpotStrategy": "SpotWithPriceLimit", "SpotPriceLimit": "0.125", "SpotDuration": "0", "SpotInterruptionBehavior": "Terminate",
		"HttpTokens": "required", "HttpEndpoint": "enabled", "DeploymentSetId": "ds-gw8", "DeploymentSetGroupNo": "3",
		"PrivatePoolOptions.MatchCriteria": "Target", "PrivatePoolOptions.Id": "crp-gw8", "CpuOptions.Core": "2", "CpuOptions.ThreadsPerCore": "1", "CreditSpecification": "Standard",
		"SecurityEnhancementStrategy": "Deactive", "SecurityOptions.TrustedSystemMode": "vTPM", "ResourceGroupId": "rg-gw8",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if !slices.Contains(slices.Collect(maps.Values(got)), "a/b") {
		t.Error("the request has no tag of the user")
	}
}

func TestMarketsAndHosts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*infrav1.AlibabaMachineSpec)
		want   map[string]string
	}{
		"at the market price": {func(s *infrav1.AlibabaMachineSpec) { s.Spot = &infrav1.AlibabaSpot{} }, map[string]string{"SpotStrategy": "SpotAsPriceGo", "SpotInterruptionBehavior": "Terminate", "SpotPriceLimit": ""}},
		"on a dedicated host": {func(s *infrav1.AlibabaMachineSpec) { s.DedicatedHostID = "dh-gw8" }, map[string]string{"DedicatedHostId": "dh-gw8", "Tenancy": "host", "SpotStrategy": ""}},
		"unencrypted": {func(s *infrav1.AlibabaMachineSpec) {
			s.SystemDisk = infrav1.AlibabaDisk{Encrypted: ptr.To(false)}
		}, map[string]string{"SystemDisk.Encrypted": "false", "SystemDisk.Size": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := requested(t, test.change, unaltered)
			for parameter, want := range test.want {
				if got[parameter] != want {
					t.Errorf("%s is %q, want %q", parameter, got[parameter], want)
				}
			}
		})
	}
}

// TestNamesThatECSRefusesAreLeftOut: neither the name nor that of the host is the identity.
func TestNamesThatECSRefusesAreLeftOut(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][2]string{
		"w": {"", ""}, "1-worker": {"", "1-worker"}, "worker.example": {"worker.example", "worker.example"},
		"shoot--team--worker":   {"shoot--team--worker", ""},
		strings.Repeat("w", 64): {strings.Repeat("w", 64), strings.Repeat("w", 64)}, strings.Repeat("w", 65): {strings.Repeat("w", 65), ""},
	} {
		got := requested(t, unchanged, func(req *driver.CreateRequest[alibaba.InstanceConfig]) { req.Identity.Name = name })
		if got["InstanceName"] != want[0] || got["HostName"] != want[1] {
			t.Errorf("%q: got the names %q and %q, want %q", name, got["InstanceName"], got["HostName"], want)
		}
	}
}

// TestNameOfADiskFits, and shows whose disk it is.
func TestNameOfADiskFits(t *testing.T) {
	t.Parallel()
	got := requested(t, func(s *infrav1.AlibabaMachineSpec) {
		withDisk(s)
		s.DataDisks[0].Name = strings.Repeat("d", 128)
	}, unaltered)["DataDisk.1.DiskName"]
	if len(got) != 128 || !request.IsDiskName(identity, got) || request.IsDiskName(driver.Identity{UID: "other"}, got) {
		t.Errorf("got the name %q", got)
	}
}

// TestOwnersThatDoNotFitAreRefused: what is cut off would be the tag of another.
func TestOwnersThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{})
	long := strings.Repeat("n", 129)
	machine := &infrav1.AlibabaMachine{Spec: newSpec(unchanged)}
	machine.Name = long
	if _, err := alibaba.NewInstanceConfig(machine, ""); !driver.IsInvalidConfiguration(err) || !strings.Contains(err.Error(), "metadata.name") {
		t.Errorf("a long name: got %v, want an InvalidConfigurationError", err)
	}
	req := newRequest(identity, newConfig(t, unchanged))
	req.Identity.Owner.Name = long
	if _, err := w.connect(t).Create(t.Context(), req); !driver.IsInvalidConfiguration(err) || !strings.Contains(err.Error(), driver.TagCluster) {
		t.Errorf("a Cluster of a long name: got %v, want an InvalidConfigurationError", err)
	}
}

func TestUserData(t *testing.T) {
	t.Parallel()
	noise := make([]byte, request.MaxUserData+1)
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("a"), 3*request.MaxUserData)
	w := newEnv(t, alibabafake.Options{})
	for name, test := range map[string]struct {
		data   []byte
		format string
		fits   bool
	}{
		"long text":                      {text, "cloud-config", true},
		"long Ignition":                  {text, "ignition", false},
		"what cannot be compressed":      {noise, "cloud-config", false},
		"as much as fits, of any format": {text[:request.MaxUserData], "ignition", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := newRequest(identity, newConfig(t, unchanged))
			req.Identity.UID, req.UserData, req.Format = types.UID(name), test.data, test.format
			_, err := w.connect(t).Create(t.Context(), req)
			if test.fits != (err == nil) || err != nil && !driver.IsInvalidConfiguration(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCapacity(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{})
	provider := w.connect(t).(driver.CapacityProvider[alibaba.InstanceConfig])
	for name, test := range map[string]struct {
		change func(*infrav1.AlibabaMachineSpec)
		want   driver.Capacity
	}{
		"of a type with a GPU": {func(s *infrav1.AlibabaMachineSpec) { s.InstanceType = alibabafake.OnlyInA }, driver.Capacity{Architecture: "amd64", OperatingSystem: "linux", Capacity: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("30Gi"), corev1.ResourceEphemeralStorage: resource.MustParse("40Gi"), "nvidia.com/gpu": resource.MustParse("1"),
		}}},
		"without hyper-threading, with a large image": {func(s *infrav1.AlibabaMachineSpec) {
			s.CPU.ThreadsPerCore, s.Image = ptr.To[int32](1), infrav1.AlibabaImage{ID: alibabafake.OwnImage}
		}, driver.Capacity{Architecture: "amd64", OperatingSystem: "linux", Capacity: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourceEphemeralStorage: resource.MustParse("60Gi"),
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := provider.Capacity(t.Context(), newConfig(t, test.change))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := provider.Capacity(t.Context(), newConfig(t, func(s *infrav1.AlibabaMachineSpec) { s.InstanceType = "ecs.g99.large" })); !driver.IsInvalidConfiguration(err) {
		t.Errorf("an unknown type: got %v, want an InvalidConfigurationError", err)
	}
}

func TestImagesAreFound(t *testing.T) {
	t.Parallel()
	w := newEnv(t, alibabafake.Options{})
	finder := w.connect(t).(driver.ImageFinder[alibaba.InstanceConfig])
	for name, test := range map[string]struct {
		image infrav1.AlibabaImage
		want  string
	}{
		"the newest of a family":            {infrav1.AlibabaImage{Family: alibabafake.Family}, alibabafake.Image},
		"the newest of a name":              {infrav1.AlibabaImage{Name: "ubuntu_24_04_x64_*.vhd"}, alibabafake.Image},
		"one by a pattern of several parts": {infrav1.AlibabaImage{Name: "*24_04*alibase_202601*"}, alibabafake.OldImage},
		"one by its ID":                     {infrav1.AlibabaImage{ID: alibabafake.OldImage}, alibabafake.OldImage},
		"one of the account":                {infrav1.AlibabaImage{Name: "nodes-*", Owner: "self"}, alibabafake.OwnImage},
		"one of a family of the account":    {infrav1.AlibabaImage{Family: "nodes"}, alibabafake.OwnImage},
		"one of a family of others":         {infrav1.AlibabaImage{Family: "nodes", Owner: "others", OwnerID: ptr.To[int64](6543210987654321)}, alibabafake.SharedImage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := finder.FindImage(t.Context(), newConfig(t, func(s *infrav1.AlibabaMachineSpec) { s.Image = test.image }))
			if want := (driver.Image{ID: test.want, Architecture: "amd64"}); err != nil || got != want {
				t.Errorf("got %+v and %v, want %+v", got, err, want)
			}
		})
	}
}

func TestAlternatives(t *testing.T) {
	t.Parallel()
	spec := newSpec(func(s *infrav1.AlibabaMachineSpec) {
		s.Spot = &infrav1.AlibabaSpot{PriceLimit: "0.1"}
		s.Fallbacks = []infrav1.AlibabaFallback{{ZoneID: alibabafake.ZoneB}, {InstanceType: "ecs.g8i.xlarge", Market: "PayAsYouGo"}, {Market: "Spot"}}
	})
	for zone, want := range map[string][]string{
		"":                {"eu-central-1b ecs.g8i.large (spot)", "eu-central-1a ecs.g8i.xlarge", "eu-central-1a ecs.g8i.large (spot)"},
		alibabafake.ZoneA: {"eu-central-1a ecs.g8i.xlarge", "eu-central-1a ecs.g8i.large (spot)"},
	} {
		cloud := alibaba.Cloud(alibaba.Options{})
		config, err := cloud.Config(&infrav1.AlibabaMachine{Spec: spec}, zone)
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

// TestOwnVSwitchOfEachFallback: a fallback in a zone without a vSwitch is refused before anything is requested.
func TestOwnVSwitchOfEachFallback(t *testing.T) {
	t.Parallel()
	spec := newSpec(func(s *infrav1.AlibabaMachineSpec) {
		s.Fallbacks = []infrav1.AlibabaFallback{{ZoneID: "eu-central-1c"}}
	})
	if _, err := alibaba.NewInstanceConfig(&infrav1.AlibabaMachine{Spec: spec}, ""); !driver.IsInvalidConfiguration(err) || !strings.Contains(err.Error(), "spec.fallbacks[0].zoneID") {
		t.Errorf("got %v, want an InvalidConfigurationError about the fallback", err)
	}
}
