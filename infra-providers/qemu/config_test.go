// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/qemu"
	"drover.io/infra-providers/qemu/image"
	"drover.io/infra-providers/qemu/vm"
)

func TestNewInstanceConfig(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec infrav1.QEMUMachineSpec
		zone string
		want qemu.InstanceConfig
	}{
		"defaults all but the image": {
			spec: infrav1.QEMUMachineSpec{Image: infrav1.QEMUImage{QEMUFile: infrav1.QEMUFile{Path: "a.qcow2"}}},
			zone: hostName,
			want: qemu.InstanceConfig{
				Architecture: "amd64", Acceleration: "Auto", CPUs: 2, MemoryMiB: 2048,
				Image: image.Source{Path: "a.qcow2"}, ImageFormat: "qcow2", Grace: time.Minute,
			},
		},
		"takes everything that can be said": {
			spec: infrav1.QEMUMachineSpec{
				Architecture: "arm64", Acceleration: "TCG", CPUs: ptr.To[int32](3), Memory: quantity("1Gi"),
				Image:    infrav1.QEMUImage{QEMUFile: infrav1.QEMUFile{URL: "http://a/b", SHA256: "00"}, Format: "raw"},
				DiskSize: quantity("20Gi"), Disks: []infrav1.QEMUDisk{{Size: *quantity("1Mi")}, {Size: *quantity("2Mi")}},
				Kernel:                     infrav1.QEMUKernel{Image: infrav1.QEMUFile{Path: "k"}, Initrd: infrav1.QEMUFile{Path: "i"}, CommandLine: "quiet"},
				Firmware:                   infrav1.QEMUFile{Path: "f"},
				Network:                    infrav1.QEMUNetwork{Forwards: []infrav1.QEMUForward{{HostPort: 2222, Port: 22}}},
				ShutdownGracePeriodSeconds: ptr.To[int32](0),
			},
			want: qemu.InstanceConfig{
				Architecture: "arm64", Acceleration: "TCG", CPUs: 3, MemoryMiB: 1024,
				Image: image.Source{URL: "http://a/b", SHA256: "00"}, ImageFormat: "raw", DiskBytes: 20 << 30, Disks: []int64{1 << 20, 2 << 20},
				Kernel: image.Source{Path: "k"}, Initrd: image.Source{Path: "i"}, CommandLine: "quiet", Firmware: image.Source{Path: "f"},
				Forwards: []vm.Forward{{Protocol: "TCP", Address: netip.MustParseAddr("127.0.0.1"), HostPort: 2222, Port: 22}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := qemu.NewInstanceConfig(&infrav1.QEMUMachine{Spec: test.spec}, test.zone, hostName)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNewInstanceConfigRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*infrav1.QEMUMachineSpec)
		zone   string
		field  string
	}{
		"another host":                  {zone: "lab-2", field: "failureDomain"},
		"half a mebibyte":               {change: func(s *infrav1.QEMUMachineSpec) { s.Memory = quantity("64.5Mi") }, field: "spec.memory"},
		"no image":                      {change: func(s *infrav1.QEMUMachineSpec) { s.Image = infrav1.QEMUImage{} }, field: "spec.image"},
		"arm64 with nothing to boot":    {change: func(s *infrav1.QEMUMachineSpec) { s.Architecture = "arm64" }, field: "spec.firmware"},
		"a forward from no address":     {change: forward("somewhere"), field: "spec.network.forwards[0].hostAddress"},
		"a forward from half a address": {change: forward("127.0.0"), field: "spec.network.forwards[0].hostAddress"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := newMachine()
			if test.change != nil {
				test.change(&machine.Spec)
			}
			_, err := qemu.NewInstanceConfig(machine, test.zone, hostName)
			invalid, ok := errors.AsType[*driver.InvalidConfigurationError](err)
			if !ok || invalid.Field != test.field {
				t.Errorf("got %v, want an InvalidConfigurationError for %s", err, test.field)
			}
		})
	}
}

func forward(address string) func(*infrav1.QEMUMachineSpec) {
	return func(s *infrav1.QEMUMachineSpec) {
		s.Network.Forwards = []infrav1.QEMUForward{{HostAddress: address, HostPort: 1, Port: 1}}
	}
}

func quantity(s string) *resource.Quantity { return ptr.To(resource.MustParse(s)) }
