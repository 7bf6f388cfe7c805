// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/qemu/host"
)

// TestWhatAGuestAnnouncesIsReported: on a bridge the host learns addresses by ARP, in which a guest may claim any.
func TestWhatAGuestAnnouncesIsReported(t *testing.T) {
	t.Parallel()
	name := clusterv1.MachineAddress{Type: clusterv1.MachineHostName, Address: "worker"}
	internal := clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: "10.0.0.9"}
	type addresses struct{ Addresses, Reported []clusterv1.MachineAddress }
	for bridge, want := range map[string]addresses{
		"":    {Addresses: []clusterv1.MachineAddress{internal, name}},
		"br0": {Addresses: []clusterv1.MachineAddress{name}, Reported: []clusterv1.MachineAddress{internal}},
	} {
		got := (&Driver{hostName: "lab"}).toInstance(host.Machine{Spec: host.Spec{Hostname: "worker", Bridge: bridge}, Phase: host.Running, Address: "10.0.0.9"})
		if diff := cmp.Diff(want, addresses{got.Addresses, got.Reported}); diff != "" {
			t.Errorf("bridge %q (-want +got):\n%s", bridge, diff)
		}
	}
}
