// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/providertest"
	"drover.io/infra-providers/internal/testenv"
	"drover.io/infra-providers/qemu"
	"drover.io/infra-providers/qemu/host"
)

var shared = testenv.NewShared("qemu", "../config/rbac/qemu/role.yaml")

// harness is a namespace with a Cluster, and a host with a provider of its own.
type harness struct {
	*testenv.Harness
	t       *testing.T
	options host.Options
	stop    func()
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	s := &harness{Harness: shared.NewHarness(t, "qemu"), t: t, options: newOptions(t, false)}
	s.serve()
	return s
}

// serve runs the provider with its role until the test ends or stop is called.
func (s *harness) serve() {
	s.t.Helper()
	machines, err := host.Open(s.options)
	if err != nil {
		s.t.Fatal(err)
	}
	stop := providertest.Run(s.t, shared.Provider(s.t), s.Home.Namespace, qemu.Cloud(machines, hostName))
	s.stop = sync.OnceFunc(func() {
		stop()
		if err := machines.Close(); err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(s.stop)
}

// remove deletes a QEMUMachine, and requires that nothing of it is left on the host.
func (s *harness) remove(machine *infrav1.QEMUMachine) {
	s.t.Helper()
	s.Delete(machine)
	left, err := os.ReadDir(filepath.Join(s.options.StateDir, "machines"))
	if err != nil || len(left) > 0 {
		s.t.Errorf("left: %v, %v", left, err)
	}
}

// TestReconcileMachine creates and deletes a machine, with a restart of the provider in between.
func TestReconcileMachine(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	machine := newMachine()
	machine.Name = "worker-1"
	machine.Spec.ShutdownGracePeriodSeconds = ptr.To[int32](30)
	s.CreateMachine(machine, "")
	s.WaitForReason(machine, infrav1.InstanceRunningReason)
	want := infrav1.MachineStatus{
		Initialization: infrav1.MachineInitialization{Provisioned: ptr.To(true)},
		Addresses:      []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "10.0.2.15"}, {Type: clusterv1.MachineHostName, Address: "worker-1"}},
		CloudAddresses: []string{"10.0.2.15", "worker-1"},
		FailureDomain:  hostName,
		InstanceState:  "Running",
		Account:        machine.Annotations[infrav1.AccountAnnotation],
	}
	if !strings.HasPrefix(want.Account, "qemu/") {
		t.Errorf("the machine is pinned to account %q", want.Account)
	}
	got := machine.Status.DeepCopy()
	got.Conditions = nil
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Error(diff)
	}
	if want := "qemu:///lab-1/vm-" + string(machine.UID); machine.Spec.ProviderID != want {
		t.Errorf("providerID is %q, want %q", machine.Spec.ProviderID, want)
	}
	s.stop()
	s.serve()
	s.remove(machine)
}

// TestReconcileInvalidMachine has machines that the host cannot create, and deletes them.
func TestReconcileInvalidMachine(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	for name, change := range map[string]func(*infrav1.QEMUMachineSpec){
		"no-image":  func(spec *infrav1.QEMUMachineSpec) { spec.Image.Path = "none.qcow2" },
		"no-bridge": func(spec *infrav1.QEMUMachineSpec) { spec.Network.Bridge = "nobridge0" },
		"no-kernel": func(spec *infrav1.QEMUMachineSpec) { spec.Kernel.Image.Path = "none" },
	} {
		machine := newMachine()
		machine.Name = name
		change(&machine.Spec)
		s.CreateMachine(machine, "")
		s.WaitForReason(machine, infrav1.InvalidConfigurationReason)
		s.remove(machine)
	}
}

// TestInvalidSpecsAreRefused by the API server.
func TestInvalidSpecsAreRefused(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	for name, change := range map[string]func(*infrav1.QEMUMachineSpec){
		"no image":                   func(spec *infrav1.QEMUMachineSpec) { spec.Image.Path = "" },
		"path and url":               func(spec *infrav1.QEMUMachineSpec) { spec.Image.URL = "http://example.test/a" },
		"url without checksum":       func(spec *infrav1.QEMUMachineSpec) { spec.Image.Path, spec.Image.URL = "", "http://example.test/a" },
		"a path out of the folder":   func(spec *infrav1.QEMUMachineSpec) { spec.Image.Path = "../a" },
		"an absolute path":           func(spec *infrav1.QEMUMachineSpec) { spec.Image.Path = "/etc/shadow" },
		"too little memory":          func(spec *infrav1.QEMUMachineSpec) { spec.Memory = quantity("1Mi") },
		"a disk without a size":      func(spec *infrav1.QEMUMachineSpec) { spec.Disks = []infrav1.QEMUDisk{{Size: *quantity("0")}} },
		"forwards on a bridge":       bridged,
		"a forward from a host name": forward("localhost.test"),
		"an unknown format":          func(spec *infrav1.QEMUMachineSpec) { spec.Image.Format = "vmdk" },
	} {
		machine := newMachine()
		machine.Namespace, machine.Name = s.Home.Namespace, "refused"
		change(&machine.Spec)
		if err := shared.Cluster(t).Client.Create(t.Context(), machine); !apierrors.IsInvalid(err) {
			t.Errorf("%s: got %v, want it refused as invalid", name, err)
		}
	}
	machine := newMachine()
	machine.Namespace, machine.Name = s.Home.Namespace, "kept"
	s.Create(machine)
	for name, change := range map[string]func(*infrav1.QEMUMachineSpec){
		"image":     func(spec *infrav1.QEMUMachineSpec) { spec.Image.Path = "other.raw" },
		"cpus":      func(spec *infrav1.QEMUMachineSpec) { spec.CPUs = ptr.To[int32](9) },
		"disk size": func(spec *infrav1.QEMUMachineSpec) { spec.DiskSize = quantity("9Gi") },
		"disks":     func(spec *infrav1.QEMUMachineSpec) { spec.Disks = []infrav1.QEMUDisk{{Size: *quantity("1Gi")}} },
		"kernel":    func(spec *infrav1.QEMUMachineSpec) { spec.Kernel.Image.Path = "k" },
		"network":   func(spec *infrav1.QEMUMachineSpec) { spec.Network.Bridge = "br0" },
		"grace":     func(spec *infrav1.QEMUMachineSpec) { spec.ShutdownGracePeriodSeconds = ptr.To[int32](9) },
	} {
		changed := machine.DeepCopy()
		change(&changed.Spec)
		if err := shared.Cluster(t).Client.Patch(t.Context(), changed, client.MergeFrom(machine)); !apierrors.IsInvalid(err) {
			t.Errorf("changing the %s: got %v, want it refused as invalid", name, err)
		}
	}
	s.Delete(machine)
}

func bridged(spec *infrav1.QEMUMachineSpec) {
	spec.Network = infrav1.QEMUNetwork{Bridge: "br0", Forwards: []infrav1.QEMUForward{{HostPort: 1, Port: 1}}}
}
