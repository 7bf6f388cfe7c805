// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/machinestatus"
	"drover.io/infra-providers/internal/providertest"
	"drover.io/infra-providers/internal/testenv"
	"drover.io/infra-providers/qemu"
	"drover.io/infra-providers/qemu/host"
)

// cluster is started by the first test that needs it.
var (
	cluster *testenv.Cluster
	account *rest.Config
	begin   sync.Once
)

func startCluster(t *testing.T) {
	t.Helper()
	begin.Do(func() {
		started, err := testenv.Start()
		if err != nil {
			t.Fatal(err)
		}
		cluster = started
		if account, err = cluster.As(context.Background(), "drover-infra-qemu", "../config/rbac/qemu/role.yaml"); err != nil {
			t.Fatal(err)
		}
	})
	if account == nil {
		t.Fatal("the API server did not start")
	}
}

// harness is a namespace with a Cluster and a provider of its own.
type harness struct {
	t       *testing.T
	home    *clusterv1.Cluster
	options host.Options
	stop    func()
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	startCluster(t)
	namespace, err := cluster.Namespace(t.Context(), "qemu")
	if err != nil {
		t.Fatal(err)
	}
	s := &harness{t: t, options: newOptions(t, false)}
	if s.home, err = cluster.Cluster(t.Context(), namespace, "home"); err != nil {
		t.Fatal(err)
	}
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
	stop := providertest.Run(s.t, account, s.home.Namespace, qemu.Cloud(machines, hostName))
	s.stop = sync.OnceFunc(func() {
		stop()
		if err := machines.Close(); err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(s.stop)
}

// create makes a Machine, its bootstrap data and its QEMUMachine, as machine-controller does.
func (s *harness) create(machine *infrav1.QEMUMachine) {
	s.t.Helper()
	labels := map[string]string{clusterv1.ClusterNameLabel: s.home.Name}
	at := metav1.ObjectMeta{Namespace: s.home.Namespace, Name: machine.Name, Labels: labels}
	owner := &clusterv1.Machine{ObjectMeta: at, Spec: clusterv1.MachineSpec{
		ClusterName: s.home.Name, Bootstrap: clusterv1.Bootstrap{DataSecretName: &at.Name},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "QEMUMachine", Name: at.Name},
	}}
	s.must(cluster.Client.Create(s.t.Context(), owner))
	s.must(cluster.Client.Create(s.t.Context(), &corev1.Secret{ObjectMeta: at, Data: map[string][]byte{"value": []byte("#cloud-config\n"), "format": []byte("cloud-config")}}))
	machine.ObjectMeta = at
	machine.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, clusterv1.GroupVersion.WithKind("Machine"))}
	s.must(cluster.Client.Create(s.t.Context(), machine))
}

func (s *harness) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// awaitReason waits until the Ready condition has a reason.
func (s *harness) awaitReason(machine *infrav1.QEMUMachine, want string) {
	s.t.Helper()
	for deadline := time.Now().Add(4 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		s.must(cluster.Client.Get(s.t.Context(), client.ObjectKeyFromObject(machine), machine))
		ready := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.ReadyCondition)
		if ready != nil && ready.Reason == want {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("Ready is %+v, want reason %s", ready, want)
		}
	}
}

// remove deletes a QEMUMachine, waits until it does not exist, and requires that nothing is left.
func (s *harness) remove(machine *infrav1.QEMUMachine) {
	s.t.Helper()
	s.must(cluster.Client.Delete(s.t.Context(), machine))
	for deadline := time.Now().Add(4 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := cluster.Client.Get(s.t.Context(), client.ObjectKeyFromObject(machine), machine)
		if apierrors.IsNotFound(err) {
			break
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("it still exists: %v %+v", err, machine.Status)
		}
	}
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
	s.create(machine)
	s.awaitReason(machine, machinestatus.InstanceRunningReason)
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
		s.create(machine)
		s.awaitReason(machine, machinestatus.InvalidConfigurationReason)
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
		machine.Namespace, machine.Name = s.home.Namespace, "refused"
		change(&machine.Spec)
		if err := cluster.Client.Create(t.Context(), machine); !apierrors.IsInvalid(err) {
			t.Errorf("%s: got %v, want it refused as invalid", name, err)
		}
	}
	machine := newMachine()
	machine.Namespace, machine.Name = s.home.Namespace, "kept"
	s.must(cluster.Client.Create(t.Context(), machine))
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
		if err := cluster.Client.Patch(t.Context(), changed, client.MergeFrom(machine)); !apierrors.IsInvalid(err) {
			t.Errorf("changing the %s: got %v, want it refused as invalid", name, err)
		}
	}
	s.must(cluster.Client.Delete(t.Context(), machine))
}

func bridged(spec *infrav1.QEMUMachineSpec) {
	spec.Network = infrav1.QEMUNetwork{Bridge: "br0", Forwards: []infrav1.QEMUForward{{HostPort: 1, Port: 1}}}
}
