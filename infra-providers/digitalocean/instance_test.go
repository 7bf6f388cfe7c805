// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitalocean

import (
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/digitalocean/tag"
	"drover.io/infra-providers/driver"
)

func TestToInstance(t *testing.T) {
	t.Parallel()
	id := driver.Identity{UID: "u", Name: "m.example.org", Owner: driver.Owner{UID: "c", Namespace: "n", Name: "home"}}
	droplet := &godo.Droplet{
		ID: 42, Name: "m", Status: "active", Created: "2026-01-02T03:04:05Z", Tags: append(tag.Of(id), "web"), Region: &godo.Region{Slug: "fra1"},
		Networks: &godo.Networks{
			V4: []godo.NetworkV4{{IPAddress: "203.0.113.7", Type: "public"}, {IPAddress: "10.1.0.2", Type: "private"}},
			V6: []godo.NetworkV6{{IPAddress: "2001:db8::1", Type: "public"}},
		},
	}
	identity := id
	identity.ProviderID = "digitalocean://42"
	want := driver.Instance{
		ID: "42", ProviderID: "digitalocean://42", Identity: identity, State: driver.Running, FailureDomain: "fra1",
		Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Addresses: []clusterv1.MachineAddress{
			{Type: clusterv1.MachineHostName, Address: "m"},
			{Type: clusterv1.MachineInternalIP, Address: "10.1.0.2"},
			{Type: clusterv1.MachineExternalIP, Address: "203.0.113.7"},
			{Type: clusterv1.MachineExternalIP, Address: "2001:db8::1"},
		},
	}
	if diff := cmp.Diff(want, toInstance(droplet)); diff != "" {
		t.Errorf("instance (-want +got):\n%s", diff)
	}
}

func TestToState(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]driver.State{
		"new": driver.Pending, "something new": driver.Pending, "active": driver.Running, "off": driver.Stopped, "archive": driver.Stopped,
	} {
		got := toInstance(&godo.Droplet{Status: status})
		if got.State != want {
			t.Errorf("%s is %s, want %s", status, got.State, want)
		}
		if awaited := want == driver.Pending; awaited != (got.PollAfter > 0) {
			t.Errorf("%s is looked at again after %s", status, got.PollAfter)
		}
	}
}

func TestParseProviderID(t *testing.T) {
	t.Parallel()
	if id, ok := parseProviderID(providerID(42)); !ok || id != 42 {
		t.Errorf("got %d, %t", id, ok)
	}
	for _, foreign := range []string{"", "digitalocean://", "digitalocean://0", "digitalocean://-1", "digitalocean:///42", "aws:///a/42", "42", "digitalocean://99999999999999999999"} {
		if id, ok := parseProviderID(foreign); ok {
			t.Errorf("%q was taken for Droplet %d", foreign, id)
		}
	}
}
