// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanix_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/nutanix/ntnx-api-golang-clients/vmm-go-client/v4/models/vmm/v4/ahv/config"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/nutanix"
	"drover.io/infra-providers/nutanix/nutanixfake"
)

// sent returns the request for a spec.
func sent(t *testing.T, change func(*infrav1.NutanixMachineSpec), format string, userData []byte) *config.Vm {
	t.Helper()
	w := newEnv(t, nutanixfake.Options{})
	req := newRequest(identity, newConfig(t, change))
	req.Format, req.UserData = format, userData
	patiently(t, w.connect(t), req)
	vm := config.NewVm()
	if err := json.Unmarshal(w.cloud.Requests()[0], vm); err != nil {
		t.Fatal(err)
	}
	return vm
}

func TestRequestHasTheSpec(t *testing.T) {
	t.Parallel()
	vm := sent(t, func(s *infrav1.NutanixMachineSpec) {
		s.VCPUsPerSocket, s.CPUPassthrough, s.BootType, s.VTPM = ptr.To[int32](3), ptr.To(true), "SecureBoot", ptr.To(true)
		s.SystemDisk = infrav1.NutanixDiskSettings{SizeGiB: ptr.To[int64](50), FlashMode: ptr.To(true)}
		s.DataDisks = []infrav1.NutanixDisk{
			{Name: "a", NutanixDiskSettings: infrav1.NutanixDiskSettings{SizeGiB: ptr.To[int64](20), StorageContainer: nutanixfake.Container}},
			{Name: "b", NutanixDiskSettings: infrav1.NutanixDiskSettings{SizeGiB: ptr.To[int64](30), Bus: "PCI"}},
		}
		s.NetworkInterfaces = append(s.NetworkInterfaces, infrav1.NutanixNetworkInterface{Subnet: nutanixfake.SubnetID(nutanixfake.ClusterA), Queues: ptr.To[int32](4)})
		s.GPUs = []infrav1.NutanixGPU{{Mode: "PassthroughCompute", Vendor: "NVIDIA", DeviceID: nutanixfake.GPU}}
		s.Categories = []infrav1.NutanixCategory{{Key: nutanixfake.CategoryKey, Value: nutanixfake.CategoryValue}}
		s.ProjectID, s.HardwareClockTimezone = nutanixfake.Project, "Europe/Berlin"
	}, "ignition", []byte(`{"ignition": {"version": "3.4.0"}}`))
	boot, _ := vm.BootConfig.GetValue().(config.UefiBoot)
	customization, _ := vm.GuestCustomization.Config.GetValue().(config.CloudInit)
	script, _ := customization.CloudInitScript.GetValue().(config.Userdata)
	data, err := base64.StdEncoding.DecodeString(ptr.Deref(script.Value, ""))
	places := []string{}
	for _, disk := range vm.Disks {
		places = append(places, disk.DiskAddress.BusType.GetName()+string(rune('0'+*disk.DiskAddress.Index)))
	}
	for name, ok := range map[string]bool{
		"size":          *vm.NumSockets == 2 && *vm.NumCoresPerSocket == 3 && *vm.MemorySizeBytes == 4<<30 && *vm.IsCpuPassthroughEnabled,
		"boot":          ptr.Deref(boot.IsSecureBootEnabled, false) && *vm.MachineType == config.MACHINETYPE_Q35 && *vm.VtpmConfig.IsVtpmEnabled,
		"places":        strings.Join(places, " ") == "SCSI0 SCSI1 PCI0",
		"interfaces":    len(vm.Nics) == 2 && *vm.Nics[1].BackingInfo.NumQueues == 4 && *vm.Nics[0].NetworkInfo.Subnet.ExtId == nutanixfake.SubnetID(nutanixfake.ClusterA),
		"GPU":           *vm.Gpus[0].DeviceId == nutanixfake.GPU && *vm.Gpus[0].Mode == config.GPUMODE_PASSTHROUGH_COMPUTE,
		"categories":    len(vm.Categories) == 2,
		"project":       *vm.Project.ExtId == nutanixfake.Project,
		"time zone":     *vm.HardwareClockTimezone == "Europe/Berlin",
		"no power":      vm.PowerState == nil,
		"user data":     err == nil && strings.HasPrefix(string(data), `{"ignition"`),
		"configuration": *customization.DatasourceType == config.CLOUDINITDATASOURCETYPE_CONFIG_DRIVE_V2,
	} {
		if !ok {
			t.Errorf("%s is not that of the spec", name)
		}
	}
}

func TestLongUserDataIsRefused(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{})
	req := newRequest(identity, newConfig(t, unchanged))
	req.UserData = make([]byte, 96001)
	if _, err := w.connect(t).Create(t.Context(), req); !driver.IsInvalidConfiguration(err) {
		t.Errorf("got %v, want an InvalidConfigurationError", err)
	}
	if w.cloud.Counts()["POST vms"] != 0 {
		t.Error("it was requested")
	}
}

func TestCapacity(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{})
	got, err := w.connect(t).(driver.CapacityProvider[nutanix.InstanceConfig]).Capacity(t.Context(), newConfig(t, func(s *infrav1.NutanixMachineSpec) {
		s.VCPUsPerSocket = ptr.To[int32](2)
		s.GPUs = []infrav1.NutanixGPU{{Mode: "Virtual", Vendor: "NVIDIA", DeviceID: 1}, {Mode: "Virtual", Vendor: "NVIDIA", DeviceID: 1}}
	}))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[corev1.ResourceName]int64{"cpu": 4, "memory": 4 << 30, "ephemeral-storage": 10 << 30, "nvidia.com/gpu": 2} {
		if quantity := got.Capacity[name]; quantity.Value() != want {
			t.Errorf("%s: got %s, want %d", name, quantity.String(), want)
		}
	}
	if got.Architecture != "amd64" {
		t.Errorf("got the architecture %q", got.Architecture)
	}
}

func TestLongNameIsRefused(t *testing.T) {
	t.Parallel()
	machine := &infrav1.NutanixMachine{Spec: newSpec(unchanged)}
	machine.Name = strings.Repeat("a", 81)
	if _, err := nutanix.NewInstanceConfig(machine, ""); !driver.IsInvalidConfiguration(err) {
		t.Errorf("got %v, want an InvalidConfigurationError", err)
	}
}
