// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetzner

import (
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/driver"
)

func TestToInstance(t *testing.T) {
	t.Parallel()
	id := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "c", Namespace: "n", Name: "home"}}
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	server := &hcloud.Server{
		ID: 42, Name: "m", Status: hcloud.ServerStatusRunning, Created: created, Labels: id.Tags(), Location: &hcloud.Location{Name: "fsn1"},
		PublicNet: hcloud.ServerPublicNet{
			IPv4: hcloud.ServerPublicNetIPv4{IP: net.ParseIP("203.0.113.7")},
			IPv6: hcloud.ServerPublicNetIPv6{IP: net.ParseIP("2001:db8:1::")},
		},
		PrivateNet: []hcloud.ServerPrivateNet{
			{Network: &hcloud.Network{ID: 2}, IP: net.ParseIP("10.2.0.2")}, {Network: &hcloud.Network{ID: 1}, IP: net.ParseIP("10.1.0.2")},
		},
	}
	identity := id
	identity.ProviderID = "hcloud://42"
	want := driver.Instance{
		ID: "42", ProviderID: "hcloud://42", Identity: identity, State: driver.Running, FailureDomain: "fsn1", Created: created,
		Addresses: []clusterv1.MachineAddress{
			{Type: clusterv1.MachineHostName, Address: "m"},
			{Type: clusterv1.MachineInternalIP, Address: "10.1.0.2"},
			{Type: clusterv1.MachineInternalIP, Address: "10.2.0.2"},
			{Type: clusterv1.MachineExternalIP, Address: "203.0.113.7"},
			{Type: clusterv1.MachineExternalIP, Address: "2001:db8:1::1"},
		},
	}
	if diff := cmp.Diff(want, toInstance(server)); diff != "" {
		t.Errorf("instance (-want +got):\n%s", diff)
	}
}

func TestServerWithoutPublicAddresses(t *testing.T) {
	t.Parallel()
	want := []clusterv1.MachineAddress{{Type: clusterv1.MachineHostName, Address: "m"}}
	if diff := cmp.Diff(want, toAddresses(&hcloud.Server{Name: "m"})); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}

func TestToState(t *testing.T) {
	t.Parallel()
	for status, want := range map[hcloud.ServerStatus]driver.State{
		hcloud.ServerStatusInitializing: driver.Pending,
		hcloud.ServerStatusStarting:     driver.Pending,
		hcloud.ServerStatusMigrating:    driver.Pending,
		hcloud.ServerStatusRebuilding:   driver.Pending,
		hcloud.ServerStatusUnknown:      driver.Pending,
		"something new":                 driver.Pending,
		hcloud.ServerStatusRunning:      driver.Running,
		hcloud.ServerStatusOff:          driver.Stopped,
		hcloud.ServerStatusStopping:     driver.Stopping,
		hcloud.ServerStatusDeleting:     driver.Stopping,
	} {
		got := toInstance(&hcloud.Server{Status: status})
		if got.State != want {
			t.Errorf("%s is %s, want %s", status, got.State, want)
		}
		if awaited := want == driver.Pending || want == driver.Stopping; awaited != (got.PollAfter > 0) {
			t.Errorf("%s is looked at again after %s", status, got.PollAfter)
		}
	}
}

func TestParseProviderID(t *testing.T) {
	t.Parallel()
	if id, ok := parseProviderID(providerID(42)); !ok || id != 42 {
		t.Errorf("got %d, %t", id, ok)
	}
	for _, foreign := range []string{"", "hcloud://", "hcloud://0", "hcloud://-1", "hcloud://bm-7", "aws:///a/42", "42", "hcloud://99999999999999999999"} {
		if id, ok := parseProviderID(foreign); ok {
			t.Errorf("%q was taken for server %d", foreign, id)
		}
	}
}
