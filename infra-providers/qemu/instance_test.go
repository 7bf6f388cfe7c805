// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/qemu/host"
	"drover.io/infra-providers/qemu/vm"
)

func TestToInstance(t *testing.T) {
	t.Parallel()
	id := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "c", Namespace: "n", Name: "home"}}
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	found := host.Machine{
		Spec:    vm.Spec{ID: "vm-u", ProviderID: "qemu:///lab/vm-u", Hostname: "m", Tags: id.Tags(), Created: created},
		Phase:   host.Stopped,
		Message: "its guest powered off",
		Address: "10.0.0.5",
	}
	id.ProviderID = found.ProviderID
	want := driver.Instance{
		ID: "vm-u", ProviderID: "qemu:///lab/vm-u", Identity: id, State: driver.Stopped, FailureDomain: "lab", Created: created, Message: "its guest powered off",
		Addresses: []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "10.0.0.5"}, {Type: clusterv1.MachineHostName, Address: "m"}},
	}
	d := &Driver{hostName: "lab"}
	if diff := cmp.Diff(want, d.toInstance(found)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	found.Address = ""
	if got := d.toInstance(found).Addresses; len(got) != 1 || got[0].Type != clusterv1.MachineHostName {
		t.Errorf("without an address: got %v", got)
	}
}

func TestToState(t *testing.T) {
	t.Parallel()
	type state struct {
		State     driver.State
		PollAfter time.Duration
	}
	for phase, want := range map[host.Phase]state{
		host.Starting: {driver.Pending, 5 * time.Second},
		host.Running:  {driver.Running, 0},
		host.Stopped:  {driver.Stopped, 0},
		host.Deleting: {driver.Stopping, time.Second},
	} {
		var got state
		got.State, got.PollAfter = toState(phase)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", phase, diff)
		}
	}
}

func TestOtherHost(t *testing.T) {
	t.Parallel()
	for providerID, want := range map[string]string{"qemu:///lab/vm-1": "", "qemu:///attic/vm-1": "attic", "": "", "sim:///zone/sim-1": ""} {
		if got := otherHost(driver.Identity{ProviderID: providerID}, "lab"); got != want {
			t.Errorf("%q: got %q, want %q", providerID, got, want)
		}
	}
	d := &Driver{hostName: "lab"}
	if _, err := d.Get(t.Context(), driver.Identity{UID: "u", ProviderID: "qemu:///attic/vm-u"}); err == nil || driver.IsNotFound(err) {
		t.Errorf("a machine of another host: got %v, want a transient error", err)
	}
}

func TestMACAddressIsStable(t *testing.T) {
	t.Parallel()
	first := macAddress("vm-1")
	if again := macAddress("vm-1"); again != first || first[:9] != "52:54:00:" {
		t.Errorf("got %s and %s", first, again)
	}
	if other := macAddress("vm-2"); other == first {
		t.Errorf("two machines have %s", other)
	}
}

// TestAnnouncedAddressIsReported: on a bridge the host reads addresses from ARP, in which a guest may announce any.
func TestAnnouncedAddressIsReported(t *testing.T) {
	t.Parallel()
	name := clusterv1.MachineAddress{Type: clusterv1.MachineHostName, Address: "worker"}
	internal := clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: "10.0.0.9"}
	type addresses struct{ Addresses, Reported []clusterv1.MachineAddress }
	for bridge, want := range map[string]addresses{
		"":    {Addresses: []clusterv1.MachineAddress{internal, name}},
		"br0": {Addresses: []clusterv1.MachineAddress{name}, Reported: []clusterv1.MachineAddress{internal}},
	} {
		got := (&Driver{hostName: "lab"}).toInstance(host.Machine{Spec: vm.Spec{Hostname: "worker", Bridge: bridge}, Phase: host.Running, Address: "10.0.0.9"})
		if diff := cmp.Diff(want, addresses{got.Addresses, got.Reported}); diff != "" {
			t.Errorf("bridge %q (-want +got):\n%s", bridge, diff)
		}
	}
}
