// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/testenv"
)

// create creates a machine that no provider reconciles.
func create(t *testing.T, spec infrav1.KubeVirtMachineSpec) (*infrav1.KubeVirtMachine, error) {
	t.Helper()
	cluster := shared.Cluster(t)
	namespace, err := cluster.Namespace(t.Context(), "rules")
	if err != nil {
		t.Fatal(err)
	}
	machine := &infrav1.KubeVirtMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m"}, Spec: spec}
	return machine, cluster.Client.Create(t.Context(), machine)
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	machine, err := create(t, minimalSpec())
	if err != nil {
		t.Fatal(err)
	}
	want := minimalSpec()
	want.Architecture, want.BootstrapDisk, want.EvictionStrategy, want.RootDisk.Bus = "amd64", "NoCloud", "External", "virtio"
	if diff := cmp.Diff(want, machine.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestAllFieldsAreValid(t *testing.T) {
	t.Parallel()
	spec := fullSpec()
	spec.CredentialsSecretName, spec.Namespace, spec.Zone = "infra", "vms", "zone-a"
	machine, err := create(t, spec)
	if err != nil {
		t.Fatal(err)
	}
	template := &infrav1.KubeVirtMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: "t"}}
	template.Spec.Template.Spec = spec
	cluster := shared.Cluster(t)
	if err := cluster.Client.Create(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	template.Spec.Template.Spec.Zone = "zone-b"
	testenv.WantRefusal(t, cluster.Client.Update(t.Context(), template), "template is immutable")
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	disk := func(name string) []infrav1.KubeVirtDisk {
		return []infrav1.KubeVirtDisk{{Name: name, Storage: infrav1.KubeVirtStorage{SizeGiB: 1}}}
	}
	source := func(source infrav1.KubeVirtDiskSource) func(*infrav1.KubeVirtMachineSpec) {
		return func(s *infrav1.KubeVirtMachineSpec) { s.RootDisk = infrav1.KubeVirtRootDisk{Source: source} }
	}
	for name, test := range map[string]struct {
		change func(*infrav1.KubeVirtMachineSpec)
		about  string
	}{
		"neither size nor instancetype": {func(s *infrav1.KubeVirtMachineSpec) { s.CPU, s.MemoryMiB = infrav1.KubeVirtCPU{}, 0 }, "either instancetype or cpu"},
		"size and instancetype":         {func(s *infrav1.KubeVirtMachineSpec) { s.Instancetype.Name = "x" }, "either instancetype or cpu"},
		"cpu without memory":            {func(s *infrav1.KubeVirtMachineSpec) { s.MemoryMiB = 0 }, "belong together"},
		"namespace without a Secret":    {func(s *infrav1.KubeVirtMachineSpec) { s.Namespace = "kube-system" }, "provider's own credentials"},
		"two root disks":                {func(s *infrav1.KubeVirtMachineSpec) { s.RootDisk.Source.HTTP = "https://x" }, "either containerDisk or source"},
		"no root disk":                  {func(s *infrav1.KubeVirtMachineSpec) { s.RootDisk = infrav1.KubeVirtRootDisk{Bus: "virtio"} }, "either containerDisk or source"},
		"storage of a container disk":   {func(s *infrav1.KubeVirtMachineSpec) { s.RootDisk.Storage.SizeGiB = 50 }, "storage is that of a source"},
		"two sources":                   {source(infrav1.KubeVirtDiskSource{HTTP: "https://x", Registry: "docker://x"}), "set one of"},
		"an import without a size":      {source(infrav1.KubeVirtDiskSource{Registry: "docker://x"}), "storage.sizeGiB is required"},
		"an import with a class alone": {func(s *infrav1.KubeVirtMachineSpec) {
			s.RootDisk = infrav1.KubeVirtRootDisk{Source: infrav1.KubeVirtDiskSource{HTTP: "https://x"}, Storage: infrav1.KubeVirtStorage{StorageClassName: "fast"}}
		}, "storage.sizeGiB is required"},
		"a file":                              {source(infrav1.KubeVirtDiskSource{HTTP: "file:///etc/passwd"}), "http"},
		"a Secret of a DataSource":            {source(infrav1.KubeVirtDiskSource{DataSource: infrav1.KubeVirtVolumeReference{Name: "x"}, SecretName: "x"}), "those of registry and http"},
		"a disk with the name of another one": {func(s *infrav1.KubeVirtMachineSpec) { s.Disks = disk("root") }, "names of other disks"},
		"a disk without a size": {func(s *infrav1.KubeVirtMachineSpec) {
			s.Disks = []infrav1.KubeVirtDisk{{Name: "x", Storage: infrav1.KubeVirtStorage{VolumeMode: "Block"}}}
		}, "sizeGiB"},
		"two pod networks": {func(s *infrav1.KubeVirtMachineSpec) { s.Networks = []infrav1.KubeVirtNetwork{{Name: "a"}, {Name: "b"}} }, "one network at most"},
		"a network of a path": {func(s *infrav1.KubeVirtMachineSpec) {
			s.Networks = []infrav1.KubeVirtNetwork{{Name: "a", NetworkAttachment: "a/b/c"}}
		}, "networkAttachment"},
		"a label of the provider": {func(s *infrav1.KubeVirtMachineSpec) {
			s.Labels = map[string]infrav1.KubeVirtLabelValue{"drover.io/machine-uid": "x"}
		}, "not yours"},
		"a label of KubeVirt": {func(s *infrav1.KubeVirtMachineSpec) {
			s.Labels = map[string]infrav1.KubeVirtLabelValue{"vm.kubevirt.io/name": "x"}
		}, "not yours"},
		"a label of the Cluster": {func(s *infrav1.KubeVirtMachineSpec) {
			s.Labels = map[string]infrav1.KubeVirtLabelValue{"cluster.x-k8s.io/cluster-name": "x"}
		}, "not yours"},
		"a program beside the virtual machine": {func(s *infrav1.KubeVirtMachineSpec) {
			s.Annotations = map[string]infrav1.KubeVirtAnnotationValue{"hooks.kubevirt.io/hookSidecars": "[]"}
		}, "run programs"},
		"an annotation of the provider": {func(s *infrav1.KubeVirtMachineSpec) {
			s.Annotations = map[string]infrav1.KubeVirtAnnotationValue{"drover.io/machine": "x"}
		}, "not yours"},
		"a node label with a space": {func(s *infrav1.KubeVirtMachineSpec) {
			s.NodeSelector = map[string]infrav1.KubeVirtLabelValue{"a b": "x"}
		}, "key is that of a label"},
		"a value with a line break": {func(s *infrav1.KubeVirtMachineSpec) { s.Labels = map[string]infrav1.KubeVirtLabelValue{"a": "b\nc"} }, "labels"},
		"affinity without values": {func(s *infrav1.KubeVirtMachineSpec) {
			s.NodeAffinity = []infrav1.KubeVirtNodeAffinity{{Key: "a", Operator: "In"}}
		}, "need values"},
		"an unknown eviction":     {func(s *infrav1.KubeVirtMachineSpec) { s.EvictionStrategy = "Hope" }, "evictionStrategy"},
		"a zone that is no label": {func(s *infrav1.KubeVirtMachineSpec) { s.Zone = "a b" }, "zone"},
		"an instancetype with a path": {func(s *infrav1.KubeVirtMachineSpec) {
			s.CPU, s.MemoryMiB, s.Instancetype.Name = infrav1.KubeVirtCPU{}, 0, "../x"
		}, "instancetype"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := minimalSpec()
			test.change(&spec)
			_, err := create(t, spec)
			testenv.WantRefusal(t, err, test.about)
		})
	}
}

func TestWhatIsImmutable(t *testing.T) {
	t.Parallel()
	spec := fullSpec()
	spec.CredentialsSecretName, spec.Namespace, spec.Zone = "infra", "vms", "zone-a"
	machine, err := create(t, spec)
	if err != nil {
		t.Fatal(err)
	}
	cluster := shared.Cluster(t)
	for field, change := range map[string]func(*infrav1.KubeVirtMachineSpec){
		"zone":                  func(s *infrav1.KubeVirtMachineSpec) { s.Zone = "zone-b" },
		"namespace":             func(s *infrav1.KubeVirtMachineSpec) { s.Namespace = "other" },
		"credentialsSecretName": func(s *infrav1.KubeVirtMachineSpec) { s.CredentialsSecretName, s.Namespace = "", "" },
		"architecture":          func(s *infrav1.KubeVirtMachineSpec) { s.Architecture = "arm64" },
		"instancetype":          func(s *infrav1.KubeVirtMachineSpec) { s.Instancetype.Name = "small" },
		"preference":            func(s *infrav1.KubeVirtMachineSpec) { s.Preference.Name = "fedora" },
		"rootDisk":              func(s *infrav1.KubeVirtMachineSpec) { s.RootDisk.Storage.SizeGiB = 51 },
		"disks":                 func(s *infrav1.KubeVirtMachineSpec) { s.Disks = nil },
		"networks":              func(s *infrav1.KubeVirtMachineSpec) { s.Networks = s.Networks[:1] },
		"bootstrapDisk":         func(s *infrav1.KubeVirtMachineSpec) { s.BootstrapDisk = "NoCloud" },
		"evictionStrategy":      func(s *infrav1.KubeVirtMachineSpec) { s.EvictionStrategy = "None" },
		"nodeSelector":          func(s *infrav1.KubeVirtMachineSpec) { s.NodeSelector["disk"] = "hdd" },
		"nodeAffinity":          func(s *infrav1.KubeVirtMachineSpec) { s.NodeAffinity = nil },
		"tolerations":           func(s *infrav1.KubeVirtMachineSpec) { s.Tolerations = nil },
		"topologySpread":        func(s *infrav1.KubeVirtMachineSpec) { s.TopologySpread = nil },
		"priorityClassName":     func(s *infrav1.KubeVirtMachineSpec) { s.PriorityClassName = "" },
		"labels":                func(s *infrav1.KubeVirtMachineSpec) { s.Labels["team"] = "db" },
		"annotations":           func(s *infrav1.KubeVirtMachineSpec) { s.Annotations = nil },
	} {
		changed := machine.DeepCopy()
		change(&changed.Spec)
		testenv.WantRefusal(t, cluster.Client.Update(t.Context(), changed), field)
	}
	machine.Spec.CredentialsSecretName = "rotated"
	machine.Spec.ProviderID = "kubevirt://drover-1"
	if err := cluster.Client.Update(t.Context(), machine); err != nil {
		t.Errorf("another Secret: %v", err)
	}
	machine.Spec.ProviderID = "kubevirt://drover-2"
	testenv.WantRefusal(t, cluster.Client.Update(t.Context(), machine), "providerID is set once")
}
