// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/sim/hypervisor"
)

func TestToInstance(t *testing.T) {
	t.Parallel()
	id := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "c", Namespace: "n", Name: "home"}}
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	found := hypervisor.Instance{
		Spec:    hypervisor.Spec{ID: "sim-u", ProviderID: "sim:///a/sim-u", Hostname: "m", Zone: "a", InternalIP: "10.0.0.1", Tags: id.Tags(), Created: created},
		BootsIn: time.Second, Failed: true, Message: "why",
	}
	id.ProviderID = found.ProviderID
	want := driver.Instance{
		ID: "sim-u", ProviderID: "sim:///a/sim-u", Identity: id, State: driver.Pending, FailureDomain: "a", Created: created, PollAfter: time.Second,
		Addresses: []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "10.0.0.1"}, {Type: clusterv1.MachineHostName, Address: "m"}},
		Guest:     &driver.Guest{Failed: true, Message: "why"},
	}
	if diff := cmp.Diff(want, toInstance(found)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	found.Running, found.BootsIn = true, 0
	if got := toInstance(found); got.State != driver.Running || got.PollAfter != 0 {
		t.Errorf("a running instance is %s and polled after %s", got.State, got.PollAfter)
	}
}

func TestInstanceID(t *testing.T) {
	t.Parallel()
	for want, id := range map[string]driver.Identity{
		"sim-u": {UID: "u"},
		"sim-v": {UID: "u", ProviderID: providerID("zone-a", "sim-v")},
	} {
		if got := instanceID(id); got != want {
			t.Errorf("%+v: got %q, want %q", id, got, want)
		}
	}
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	if seconds(nil) != 0 || seconds(ptr.To[int32](3)) != 3*time.Second {
		t.Errorf("got %s and %s", seconds(nil), seconds(ptr.To[int32](3)))
	}
}
