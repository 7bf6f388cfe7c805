// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package google_test

import (
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	compute "google.golang.org/api/compute/v1"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/google"
	"drover.io/infra-providers/google/googlefake"
	"drover.io/infra-providers/google/request"
)

// requested returns the instance that is requested for a spec.
func requested(t *testing.T, change func(*infrav1.GoogleMachineSpec), alter func(*driver.CreateRequest[google.InstanceConfig])) *compute.Instance {
	t.Helper()
	gce := newEnv(t, googlefake.Options{})
	req := newRequest(identity, newConfig(t, change))
	alter(&req)
	if _, err := drivertest.Create(t, gce.connect(t), req); err != nil {
		t.Fatal(err)
	}
	all, _ := gce.cloud.Requests()
	return all[0]
}

func asIs(*driver.CreateRequest[google.InstanceConfig]) {}

// TestAllFieldsAreRequested: the discovery document is checked by the fake.
func TestAllFieldsAreRequested(t *testing.T) {
	t.Parallel()
	got := requested(t, allFields, asIs)
	content, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"machineType":"zones/europe-west3-a/machineTypes/n4-standard-2"`, `"canIpForward":true`, `"tags":{"items":["nodes"]}`,
		`"serviceAccounts":[{"email":"nodes@drover-test.iam.gserviceaccount.com","scopes":["https://www.googleapis.com/auth/cloud-platform"]}]`,
		`"provisioningModel":"SPOT"`, `"automaticRestart":false`, `"onHostMaintenance":"TERMINATE"`, `"instanceTerminationAction":"STOP"`,
		`"minCpuPlatform":"Intel Ice Lake"`, `"acceleratorType":"projects/drover-test/zones/europe-west3-a/acceleratorTypes/nvidia-tesla-t4"`,
		`"confidentialInstanceType":"TDX"`, `"enableNestedVirtualization":true`, `"threadsPerCore":1`,
		`"consumeReservationType":"SPECIFIC_RESERVATION","key":"compute.googleapis.com/reservation-name","values":["r"]`,
		`"resourcePolicies":["projects/drover-test/regions/europe-west3/resourcePolicies/compact"]`, `"cost-center":"x"`, `"enable-oslogin"`,
	} {
		if !strings.Contains(string(content), want) {
			t.Errorf("the request has no %s:\n%s", want, content)
		}
	}
	if len(got.Disks) != 4 || got.Disks[0].DiskEncryptionKey.KmsKeyName == "" || got.Disks[1].DeviceName != "data" || got.Disks[3].Type != "SCRATCH" {
		t.Errorf("got the disks %+v", got.Disks)
	}
	for _, disk := range got.Disks {
		if !disk.AutoDelete {
			t.Errorf("disk %+v would remain", disk)
		}
	}
	nics := got.NetworkInterfaces
	if len(nics) != 2 || len(nics[0].AccessConfigs) != 1 || len(nics[0].Ipv6AccessConfigs) != 1 || len(nics[0].AliasIpRanges) != 1 || len(nics[1].AccessConfigs) != 0 {
		t.Errorf("got the network interfaces %+v", nics)
	}
}

// TestShieldedSettingsAreSentIfTheyAreFalse, because the default of Compute Engine is true.
func TestShieldedSettingsAreSentIfTheyAreFalse(t *testing.T) {
	t.Parallel()
	config := newConfig(t, func(s *infrav1.GoogleMachineSpec) {
		s.ShieldedInstance.VTPM, s.ShieldedInstance.IntegrityMonitoring = ptr.To(false), ptr.To(false)
	})
	content := bodyOf(t, config)
	if !strings.Contains(content, `"shieldedInstanceConfig":{"enableIntegrityMonitoring":false,"enableVtpm":false}`) {
		t.Errorf("got %s", content)
	}
}

// TestUserData: cloud-init decodes base64 and gzip, Ignition decodes neither.
func TestUserData(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 200<<10)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(noise)
	for name, test := range map[string]struct {
		data     []byte
		format   string
		encoded  bool
		rejected bool
	}{
		"of a usual size":           {[]byte("#cloud-config\n"), "cloud-config", false, false},
		"that is too long":          {[]byte("#cloud-config\n" + strings.Repeat("# a comment\n", 30<<10)), "cloud-config", true, false},
		"that is no text":           {noise[:1000], "cloud-config", true, false},
		"that cannot be compressed": {noise, "cloud-config", false, true},
		"of Ignition":               {[]byte(`{"ignition":{"version":"3.4.0"}}`), "ignition", false, false},
		"of Ignition, too long":     {[]byte(strings.Repeat(" ", 257<<10)), "ignition", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gce := newEnv(t, googlefake.Options{})
			req := newRequest(identity, newConfig(t, unchanged))
			req.UserData, req.Format = test.data, test.format
			_, err := drivertest.Create(t, gce.connect(t), req)
			if test.rejected {
				if !driver.IsInvalidConfiguration(err) || len(gce.cloud.Leftovers()) > 0 {
					t.Errorf("got %v, want an InvalidConfigurationError", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			all, _ := gce.cloud.Requests()
			items := map[string]string{}
			for _, item := range all[0].Metadata.Items {
				items[item.Key] = *item.Value
			}
			if _, encoded := items["user-data-encoding"]; encoded != test.encoded {
				t.Errorf("encoded: %t, want %t", encoded, test.encoded)
			}
			if !test.encoded && items["user-data"] != string(test.data) {
				t.Error("the data was changed")
			}
			if _, err := base64.StdEncoding.DecodeString(items["user-data"]); test.encoded && err != nil {
				t.Error(err)
			}
		})
	}
}

// bodyOf returns the request for a configuration as JSON.
func bodyOf(t *testing.T, config google.InstanceConfig) string {
	t.Helper()
	instance, err := google.RequestOf(config, identity)
	if err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(instance)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestLongDiskNamesAreUnique(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, name := range []string{strings.Repeat("w", 60) + "-1", strings.Repeat("w", 60) + "-2"} {
		id := identity
		id.Name = name
		instance, err := google.RequestOf(newConfig(t, withDisk), id)
		if err != nil {
			t.Fatal(err)
		}
		disk := instance.Disks[1].InitializeParams.DiskName
		if len(disk) > 63 || names[disk] {
			t.Errorf("got the name %q", disk)
		}
		names[disk] = true
		for _, attached := range request.DiskNames(instance) {
			if other := identity; !request.IsDiskName(id, attached) || request.IsDiskName(other, attached) {
				t.Errorf("the disk %q counts as another machine's", attached)
			}
		}
	}
}

func TestAlternatives(t *testing.T) {
	t.Parallel()
	fallbacks := func(s *infrav1.GoogleMachineSpec) {
		s.Fallbacks = []infrav1.GoogleFallback{{MachineType: "n4-standard-4"}, {Zone: googlefake.ZoneB}, {ProvisioningModel: "SPOT"}}
	}
	for name, test := range map[string]struct {
		zone string
		want []string
	}{
		"all of them":                 {"", []string{"n4-standard-4 in europe-west3-a", "n4-standard-2 in europe-west3-b", "n4-standard-2 (spot) in europe-west3-a"}},
		"those in the failure domain": {googlefake.ZoneA, []string{"n4-standard-4 in europe-west3-a", "n4-standard-2 (spot) in europe-west3-a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, err := google.NewInstanceConfig(&infrav1.GoogleMachine{Spec: newSpec(fallbacks)}, test.zone)
			if err != nil {
				t.Fatal(err)
			}
			cloud := google.Cloud(google.Options{})
			var got []string
			for _, other := range cloud.Alternatives(config) {
				machineType, zone := cloud.Offering(other)
				got = append(got, machineType+" in "+zone)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNamesThatNoInstanceMayHave are refused before anything is requested.
func TestNamesThatNoInstanceMayHave(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"worker.1", "1-worker", strings.Repeat("w", 64), "worker-"} {
		machine := &infrav1.GoogleMachine{Spec: newSpec(unchanged)}
		machine.Name = name
		if _, err := google.NewInstanceConfig(machine, ""); !driver.IsInvalidConfiguration(err) {
			t.Errorf("%q: got %v, want an InvalidConfigurationError", name, err)
		}
	}
	machine := &infrav1.GoogleMachine{Spec: newSpec(unchanged)}
	if _, err := google.NewInstanceConfig(machine, "not a zone"); !driver.IsInvalidConfiguration(err) {
		t.Errorf("a failure domain that is no zone: got %v, want an InvalidConfigurationError", err)
	}
}

func TestCapacity(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change                     func(*infrav1.GoogleMachineSpec)
		cpu, memory, storage, gpus string
		architecture               string
	}{
		"of a predefined type": {unchanged, "2", "8Gi", "10Gi", "0", "amd64"},
		"with a larger disk":   {func(s *infrav1.GoogleMachineSpec) { s.BootDisk.SizeGB = ptr.To[int64](50) }, "2", "8Gi", "50Gi", "0", "amd64"},
		"with its own GPU":     {func(s *infrav1.GoogleMachineSpec) { s.MachineType = "g2-standard-4" }, "4", "16Gi", "10Gi", "1", "amd64"},
		"with attached GPUs": {func(s *infrav1.GoogleMachineSpec) {
			s.GuestAccelerators = []infrav1.GoogleAccelerator{{Type: "nvidia-tesla-t4", Count: 2}}
		}, "2", "8Gi", "10Gi", "2", "amd64"},
		"of an ARM type":       {func(s *infrav1.GoogleMachineSpec) { s.MachineType = "c4a-standard-4" }, "4", "16Gi", "10Gi", "0", "arm64"},
		"with a thread a core": {func(s *infrav1.GoogleMachineSpec) { s.AdvancedMachineFeatures.ThreadsPerCore = ptr.To[int64](1) }, "1", "8Gi", "10Gi", "0", "amd64"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newEnv(t, googlefake.Options{}).connect(t)
			got, err := d.(driver.CapacityProvider[google.InstanceConfig]).Capacity(t.Context(), newConfig(t, test.change))
			if err != nil {
				t.Fatal(err)
			}
			gpus := got.Capacity["nvidia.com/gpu"]
			values := []string{got.Capacity.Cpu().String(), got.Capacity.Memory().String(), got.Capacity.StorageEphemeral().String(), gpus.String(), got.Architecture}
			if diff := cmp.Diff([]string{test.cpu, test.memory, test.storage, test.gpus, test.architecture}, values); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	d := newEnv(t, googlefake.Options{}).connect(t)
	config := newConfig(t, func(s *infrav1.GoogleMachineSpec) { s.MachineType = "n9-standard-2" })
	if _, err := d.(driver.CapacityProvider[google.InstanceConfig]).Capacity(t.Context(), config); !driver.IsInvalidConfiguration(err) {
		t.Errorf("a type that does not exist: got %v, want an InvalidConfigurationError", err)
	}
}
