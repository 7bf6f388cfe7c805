// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/testenv"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	machine := stored(t, infrav1.VSphereMachineSpec{Template: "t", Disks: []infrav1.VSphereDisk{{SizeGiB: 1}}, Networks: []infrav1.VSphereNetwork{{Name: "n"}}})
	want := infrav1.VSphereMachineSpec{
		Template: "t", CloneMode: infrav1.VSphereFullClone, CPUs: 2, MemoryMiB: 4096,
		Disks:    []infrav1.VSphereDisk{{SizeGiB: 1, Provisioning: infrav1.VSphereThin}},
		Networks: []infrav1.VSphereNetwork{{Name: "n", Adapter: "vmxnet3"}},
	}
	if diff := cmp.Diff(want, machine.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

// TestSpecIsImmutable proves the CEL rules: a field changed, added and removed.
func TestSpecIsImmutable(t *testing.T) {
	t.Parallel()
	full := infrav1.VSphereMachineSpec{
		Template: "t", CredentialsSecretName: "s", Server: "vc", Datacenter: "dc", Snapshot: "sn",
		VSpherePlacement: infrav1.VSpherePlacement{Folder: "f", ComputeCluster: "c", ResourcePool: "r", Host: "h", Datastore: "d", StoragePolicy: "p"},
		FailureDomains:   []infrav1.VSphereFailureDomain{{Name: "east"}},
		Networks:         []infrav1.VSphereNetwork{{Name: "n"}}, CPUs: 4, CoresPerSocket: 2, MemoryMiB: 2048, DiskGiB: 10,
		Disks: []infrav1.VSphereDisk{{SizeGiB: 1}}, HardwareVersion: 19, Tags: []string{"a/b"},
		CustomAttributes: map[string]infrav1.VSphereValue{"a": "b"}, ExtraConfig: map[string]infrav1.VSphereValue{"a": "b"},
		AntiAffinityGroup: "g", VMGroup: "v", ProviderID: "vsphere://x",
	}
	for name, change := range map[string]func(*infrav1.VSphereMachineSpec){
		"template":              func(s *infrav1.VSphereMachineSpec) { s.Template += "x" },
		"cloneMode":             func(s *infrav1.VSphereMachineSpec) { s.CloneMode, s.DiskGiB = infrav1.VSphereLinkedClone, 0 },
		"credentialsSecretName": func(s *infrav1.VSphereMachineSpec) { s.CredentialsSecretName += "x" },
		"server":                func(s *infrav1.VSphereMachineSpec) { s.Server += "x" },
		"datacenter":            func(s *infrav1.VSphereMachineSpec) { s.Datacenter += "x" },
		"snapshot":              func(s *infrav1.VSphereMachineSpec) { s.Snapshot += "x" },
		"folder":                func(s *infrav1.VSphereMachineSpec) { s.Folder += "x" },
		"computeCluster":        func(s *infrav1.VSphereMachineSpec) { s.ComputeCluster += "x" },
		"resourcePool":          func(s *infrav1.VSphereMachineSpec) { s.ResourcePool += "x" },
		"host":                  func(s *infrav1.VSphereMachineSpec) { s.Host += "x" },
		"datastore":             func(s *infrav1.VSphereMachineSpec) { s.Datastore += "x" },
		"datastoreCluster":      func(s *infrav1.VSphereMachineSpec) { s.Datastore, s.DatastoreCluster = "", "x" },
		"storagePolicy":         func(s *infrav1.VSphereMachineSpec) { s.StoragePolicy += "x" },
		"failureDomains":        func(s *infrav1.VSphereMachineSpec) { s.FailureDomains[0].Host = "x" },
		"networks":              func(s *infrav1.VSphereMachineSpec) { s.Networks[0].MTU = 1400 },
		"cpus":                  func(s *infrav1.VSphereMachineSpec) { s.CPUs = 8 },
		"coresPerSocket":        func(s *infrav1.VSphereMachineSpec) { s.CoresPerSocket = 4 },
		"memoryMiB":             func(s *infrav1.VSphereMachineSpec) { s.MemoryMiB = 4096 },
		"diskGiB":               func(s *infrav1.VSphereMachineSpec) { s.DiskGiB++ },
		"disks":                 func(s *infrav1.VSphereMachineSpec) { s.Disks[0].SizeGiB++ },
		"hardwareVersion":       func(s *infrav1.VSphereMachineSpec) { s.HardwareVersion++ },
		"tags":                  func(s *infrav1.VSphereMachineSpec) { s.Tags[0] += "x" },
		"customAttributes":      func(s *infrav1.VSphereMachineSpec) { s.CustomAttributes["a"] = "x" },
		"extraConfig":           func(s *infrav1.VSphereMachineSpec) { s.ExtraConfig["a"] = "x" },
		"antiAffinityGroup":     func(s *infrav1.VSphereMachineSpec) { s.AntiAffinityGroup += "x" },
		"vmGroup":               func(s *infrav1.VSphereMachineSpec) { s.VMGroup += "x" },
		"providerID":            func(s *infrav1.VSphereMachineSpec) { s.ProviderID += "x" },
		"a field dropped":       func(s *infrav1.VSphereMachineSpec) { s.Snapshot = "" },
		"a list dropped":        func(s *infrav1.VSphereMachineSpec) { s.Tags = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := stored(t, *full.DeepCopy())
			change(&machine.Spec)
			testenv.WantRefusal(t, shared.Cluster(t).Client.Update(t.Context(), machine), "spec")
		})
	}
	bare := stored(t, infrav1.VSphereMachineSpec{Template: "t"})
	bare.Spec.Folder = "f"
	testenv.WantRefusal(t, shared.Cluster(t).Client.Update(t.Context(), bare), "roll out a new VSphereMachineTemplate")
	bare.Spec.Folder, bare.Spec.ProviderID = "", "vsphere://x"
	testenv.WantRefusal(t, shared.Cluster(t).Client.Update(t.Context(), bare), "")
}

func TestInvalidSpecsAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec   infrav1.VSphereMachineSpec
		refuse string
	}{
		"no template":             {infrav1.VSphereMachineSpec{CPUs: 1}, "template"},
		"two kinds of storage":    {infrav1.VSphereMachineSpec{Template: "t", VSpherePlacement: infrav1.VSpherePlacement{Datastore: "a", DatastoreCluster: "b"}}, "exclude each other"},
		"a grown linked clone":    {infrav1.VSphereMachineSpec{Template: "t", CloneMode: infrav1.VSphereLinkedClone, DiskGiB: 5}, "linked clone"},
		"odd sockets":             {infrav1.VSphereMachineSpec{Template: "t", CPUs: 3, CoresPerSocket: 2}, "multiple of coresPerSocket"},
		"an address, no prefix":   {infrav1.VSphereMachineSpec{Template: "t", Networks: []infrav1.VSphereNetwork{{Name: "n", Addresses: []string{"10.0.0.1"}}}}, "prefix length"},
		"a gateway, no address":   {infrav1.VSphereMachineSpec{Template: "t", Networks: []infrav1.VSphereNetwork{{Name: "n", Gateway4: "10.0.0.1"}}}, "needs addresses"},
		"a gateway of IPv6 for 4": {infrav1.VSphereMachineSpec{Template: "t", Networks: []infrav1.VSphereNetwork{{Name: "n", Addresses: []string{"10.0.0.1/8"}, Gateway4: "::1"}}}, "gateway4"},
		"a parameter of ours":     {infrav1.VSphereMachineSpec{Template: "t", ExtraConfig: map[string]infrav1.VSphereValue{"guestinfo.userdata": "x"}}, "the provider's"},
		"ours, in other letters":  {infrav1.VSphereMachineSpec{Template: "t", ExtraConfig: map[string]infrav1.VSphereValue{"GuestInfo.UserData": "x"}}, "the provider's"},
		"who it is, in capitals":  {infrav1.VSphereMachineSpec{Template: "t", ExtraConfig: map[string]infrav1.VSphereValue{"Drover.Record": "x"}}, "the provider's"},
		"a tag, no category":      {infrav1.VSphereMachineSpec{Template: "t", Tags: []string{"green"}}, "tags"},
		"a URL for server":        {infrav1.VSphereMachineSpec{Template: "t", Server: "https://vc/sdk"}, "server"},
		"memory not by fours":     {infrav1.VSphereMachineSpec{Template: "t", MemoryMiB: 1025}, "memoryMiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := &infrav1.VSphereMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace(t), Name: "m"}, Spec: test.spec}
			testenv.WantRefusal(t, shared.Cluster(t).Client.Create(t.Context(), machine), test.refuse)
		})
	}
}

func TestTemplateIsImmutable(t *testing.T) {
	t.Parallel()
	template := &infrav1.VSphereMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace(t), Name: "t"}}
	template.Spec.Template.Spec.Template = "t"
	if err := shared.Cluster(t).Client.Create(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	template.Spec.Template.Spec.Folder = "f"
	testenv.WantRefusal(t, shared.Cluster(t).Client.Update(t.Context(), template), "create a VSphereMachineTemplate of another name")
	other := &infrav1.VSphereMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace(t), Name: "t"}}
	other.Spec.Template.Spec = infrav1.VSphereMachineSpec{Template: "t", ProviderID: "vsphere://x"}
	testenv.WantRefusal(t, shared.Cluster(t).Client.Create(t.Context(), other), "belongs to one machine")
}

func stored(t *testing.T, spec infrav1.VSphereMachineSpec) *infrav1.VSphereMachine {
	t.Helper()
	machine := &infrav1.VSphereMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace(t), Name: "m"}, Spec: spec}
	if err := shared.Cluster(t).Client.Create(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	return machine
}

// namespace is one that no provider of another test would touch.
func namespace(t *testing.T) string {
	t.Helper()
	name, err := shared.Cluster(t).Namespace(t.Context(), "rules")
	if err != nil {
		t.Fatal(err)
	}
	return name
}
