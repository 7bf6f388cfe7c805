// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstack_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/metalstack"
	"drover.io/infra-providers/metalstack/metalstackfake"
)

// TestRequestHasEveryField compares what was allocated with a spec that has every field.
func TestRequestHasEveryField(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{})
	d := w.connect(t)
	req := newRequest(t, identity)
	req.Config = newConfig(t, allFields)
	created, err := d.Create(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	got := w.cloud.Machine(created.ID)
	slices.Sort(got.Tags)
	want := metalstackfake.Machine{
		ID: created.ID, Rack: got.Rack, Name: "worker-1", Description: "drover.io/machine-uid=" + string(identity.UID), Image: metalstackfake.NewestImage,
		UserData: base64.StdEncoding.EncodeToString([]byte("#cloud-config\n")), Layout: metalstackfake.Layout,
		Tags: []string{
			"billing=web", "drover.io/cluster-namespace=team", "drover.io/cluster-uid=c", "drover.io/cluster=home", "drover.io/machine-uid=" + string(identity.UID),
			"drover.io/machine=worker-1", "plain", "pool=a",
		},
		Placement: []string{"pool=a"}, Keys: []string{sshKey}, IPs: []string{"10.133.0.1", "fd00:133::1", metalstackfake.StaticIP},
		Networks: []string{metalstackfake.DualNetwork, metalstackfake.Internet}, DNS: []string{"9.9.9.9", "2620:fe::fe"}, NTP: []string{"ntp.example.org", "192.0.2.1"},
		Allocated: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("allocated (-want +got):\n%s", diff)
	}
	addresses := []clusterv1.MachineAddress{
		{Type: clusterv1.MachineInternalIP, Address: "10.133.0.1"}, {Type: clusterv1.MachineInternalIP, Address: "fd00:133::1"},
		{Type: clusterv1.MachineExternalIP, Address: metalstackfake.StaticIP}, {Type: clusterv1.MachineHostName, Address: "worker-1"},
		{Type: clusterv1.MachineInternalDNS, Address: "worker-1"},
	}
	if diff := cmp.Diff(addresses, created.Addresses); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if want := "metal://" + metalstackfake.PartitionA + "/" + created.ID; created.ProviderID != want || created.FailureDomain != metalstackfake.PartitionA {
		t.Errorf("providerID %q in %q, want %q", created.ProviderID, created.FailureDomain, want)
	}
}

// TestMachinesAreSpreadOverRacks: by default those of a Cluster, which has a tag of its own.
func TestMachinesAreSpreadOverRacks(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{})
	d := w.connect(t)
	racks := map[string]bool{}
	for n := range 4 {
		id := identity
		id.UID, id.Name = id.UID+"-"+identity.UID[:n], "worker-"+strings.Repeat("x", n)
		racks[w.cloud.Machine(mustCreate(t, d, id).ID).Rack] = true
	}
	if len(racks) != 4 {
		t.Errorf("4 machines are in %d racks", len(racks))
	}
}

// TestFailureDomainIsAPartition: it wins over the spec's, its private network is used, and fallbacks elsewhere are left out.
func TestFailureDomainIsAPartition(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{})
	spec := newSpec(func(s *infrav1.MetalStackMachineSpec) {
		s.Fallbacks = []infrav1.MetalStackFallback{{Size: metalstackfake.BigSize}, {Partition: metalstackfake.PartitionA}}
	})
	cloud := w.description(nil)
	config, err := cloud.Config(&infrav1.MetalStackMachine{Spec: spec}, metalstackfake.PartitionB)
	if err != nil {
		t.Fatal(err)
	}
	others := cloud.Alternatives(config)
	if len(others) != 1 || others[0].Partition != metalstackfake.PartitionB || others[0].Spec.Size != metalstackfake.BigSize {
		t.Errorf("alternatives: %+v", others)
	}
	req := newRequest(t, identity)
	req.Config = config
	created, err := w.connect(t).Create(t.Context(), req)
	if err != nil || created.FailureDomain != metalstackfake.PartitionB {
		t.Errorf("created in %q and %v", created.FailureDomain, err)
	}
	if got := w.cloud.Machine(created.ID).Networks; !slices.Equal(got, []string{metalstackfake.NetworkB}) {
		t.Errorf("networks %q", got)
	}
	if _, err := cloud.Config(&infrav1.MetalStackMachine{Spec: spec}, "elsewhere"); !driver.IsInvalidConfiguration(err) {
		t.Errorf("a partition without a private network: %v", err)
	}
}

func TestProviderIDsOfOtherControllersAreAccepted(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{})
	d := w.connect(t)
	created := mustCreate(t, d, identity)
	for providerID, want := range map[string]bool{
		"metal://" + metalstackfake.PartitionA + "/" + created.ID:  true,
		"metal:///" + metalstackfake.PartitionA + "/" + created.ID: true,
		"metal://" + created.ID:                                    false,
		"metal://a/../" + created.ID:                               false,
		"aws:///zone/" + created.ID:                                false,
		"metal://" + metalstackfake.PartitionA + "/":               false,
	} {
		id := identity
		id.ProviderID = providerID
		if found, err := d.Get(t.Context(), id); want && (err != nil || found.ID != created.ID) || !want && !driver.IsNotFound(err) {
			t.Errorf("%q: %+v and %v", providerID, found, err)
		}
	}
}

func TestCapacityIsTheLeastOfASize(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{})
	got, err := w.connect(t).Capacity(t.Context(), newConfig(t, unchanged))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[corev1.ResourceName]string{corev1.ResourceCPU: "8", corev1.ResourceMemory: "64Gi", corev1.ResourceEphemeralStorage: "480Gi"} {
		if quantity := got.Capacity[name]; quantity.String() != want {
			t.Errorf("%s is %s, want %s", name, quantity.String(), want)
		}
	}
	if _, err := w.connect(t).Capacity(t.Context(), newConfig(t, func(s *infrav1.MetalStackMachineSpec) { s.Size = "huge" })); !driver.IsInvalidConfiguration(err) {
		t.Errorf("an unknown size: %v", err)
	}
}

func TestImageIsFound(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{})
	d := w.connect(t)
	for spec, want := range map[string]driver.Image{
		metalstackfake.Image:    {ID: metalstackfake.NewestImage},
		metalstackfake.OldImage: {ID: metalstackfake.OldImage},
	} {
		got, err := d.FindImage(t.Context(), newConfig(t, func(s *infrav1.MetalStackMachineSpec) { s.Image = spec }))
		if err != nil || got != want {
			t.Errorf("%s: got %+v and %v", spec, got, err)
		}
	}
	for spec, want := range map[string]string{metalstackfake.ExpiringImage: "it expires at 20", metalstackfake.ExpiredImage: "it has expired at 20"} {
		got, err := d.FindImage(t.Context(), newConfig(t, func(s *infrav1.MetalStackMachineSpec) { s.Image = spec }))
		if err != nil || !strings.HasPrefix(got.Warning, want) {
			t.Errorf("%s: got %+v and %v", spec, got, err)
		}
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	w := newEnv(t, metalstackfake.Options{InstallDelay: 2})
	d := w.connect(t)
	created := mustCreate(t, d, identity)
	if created.State != driver.Pending || created.Message != "the last event is Installing" || created.PollAfter == 0 {
		t.Errorf("created: %+v", created)
	}
	w.cloud.SetState(created.ID, false, true, "Alive")
	for range 3 {
		_, _ = d.Get(t.Context(), identity)
	}
	w.cloud.SetState(created.ID, true, true, "Unknown")
	found, err := d.Get(t.Context(), identity)
	if err != nil || found.State != driver.Running || found.PollAfter != 0 ||
		found.Message != "the machine is locked; its installation fails again and again; its liveliness is Unknown" {
		t.Errorf("installed: %+v and %v", found, err)
	}
	if err := d.Delete(t.Context(), identity); err == nil || !strings.Contains(err.Error(), "is locked") {
		t.Errorf("deleting a locked machine: %v", err)
	}
	if w.cloud.Count("freeMachine") != 0 {
		t.Error("a locked machine was freed")
	}
	w.cloud.SetState(created.ID, false, false, "Alive")
	wantDeleted(t, w, d, identity)
}

var _ driver.ImageFinder[metalstack.InstanceConfig] = (*metalstack.Driver)(nil)
