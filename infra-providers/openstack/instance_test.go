// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/attachments"
)

func TestToInstance(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	id := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "c", Namespace: "n", Name: "home"}}
	metadata := attachments.Tags(id)
	metadata[regionKey] = "R1"
	got := toInstance(servers.Server{
		ID: "s", Name: "m", Status: "ACTIVE", Created: created, LaunchedAt: created, Metadata: metadata, AvailabilityZone: "az", AccessIPv6: "2001:db8::1",
		Addresses: map[string]any{
			"b": []any{
				map[string]any{"addr": "10.0.0.2", "OS-EXT-IPS:type": "fixed"},
				map[string]any{"addr": "203.0.113.9", "OS-EXT-IPS:type": "floating"},
			},
			"a": []any{
				map[string]any{"addr": "fd00::1", "OS-EXT-IPS:type": "fixed", "OS-EXT-IPS-MAC:mac_addr": "fa:00:00:00:00:02"},
				map[string]any{"addr": "10.1.0.9", "OS-EXT-IPS:type": "fixed", "OS-EXT-IPS-MAC:mac_addr": "fa:00:00:00:00:02"},
				map[string]any{"addr": "10.1.0.3", "OS-EXT-IPS:type": "fixed", "OS-EXT-IPS-MAC:mac_addr": "fa:00:00:00:00:01"},
			},
		},
	})
	id.ProviderID = "openstack://R1/s"
	want := driver.Instance{
		ID: "s", ProviderID: "openstack://R1/s", Identity: id, State: driver.Running, FailureDomain: "az", Created: created,
		Addresses: []clusterv1.MachineAddress{
			{Type: clusterv1.MachineInternalIP, Address: "10.1.0.9"},
			{Type: clusterv1.MachineInternalIP, Address: "fd00::1"},
			{Type: clusterv1.MachineInternalIP, Address: "10.1.0.3"},
			{Type: clusterv1.MachineInternalIP, Address: "10.0.0.2"},
			{Type: clusterv1.MachineExternalIP, Address: "203.0.113.9"},
			{Type: clusterv1.MachineExternalIP, Address: "2001:db8::1"},
			{Type: clusterv1.MachineHostName, Address: "m"}, {Type: clusterv1.MachineInternalDNS, Address: "m.novalocal"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestToState(t *testing.T) {
	t.Parallel()
	for want, all := range map[driver.State][]servers.Server{
		driver.Pending:    {{Status: "BUILD"}, {Status: "REBUILD"}, {Status: "something new"}},
		driver.Running:    {{Status: "ACTIVE"}, {Status: "REBOOT"}, {Status: "MIGRATING"}},
		driver.Stopping:   {{Status: "ACTIVE", TaskState: "deleting"}, {Status: "ERROR", TaskState: "deleting"}},
		driver.Stopped:    {{Status: "SHUTOFF"}, {Status: "ERROR"}, {Status: "SHELVED_OFFLOADED"}},
		driver.Terminated: {{Status: "DELETED"}, {Status: "SOFT_DELETED"}},
	} {
		for _, server := range all {
			if got := toState(server); got != want {
				t.Errorf("%s %s is %s, want %s", server.Status, server.TaskState, got, want)
			}
		}
	}
}

// TestMessageOfADeletionHasTheTask: Nova ignores further requests, so an administrator needs the task of the server.
func TestMessageOfADeletionHasTheTask(t *testing.T) {
	t.Parallel()
	for want, server := range map[string]servers.Server{
		"ACTIVE (deleting)": {Status: "ACTIVE", TaskState: "deleting"},
		"ERROR: the volume service did not answer (deleting)": {Status: "ERROR", TaskState: "deleting", Fault: servers.Fault{Message: "the volume service did not answer"}},
	} {
		if got := toInstance(server).Message; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestServerThatNeverStartedHasFailed(t *testing.T) {
	t.Parallel()
	broken := servers.Server{Status: "ERROR", Fault: servers.Fault{Code: 500, Message: "No valid host was found."}}
	if got := toInstance(broken); got.Guest == nil || !got.Guest.Failed || got.Message == "" {
		t.Errorf("got %+v", got)
	}
	broken.LaunchedAt = time.Now()
	if got := toInstance(broken); got.Guest != nil {
		t.Errorf("a server that ran once is %+v", got)
	}
}

func TestParseProviderID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"openstack:///s":       "s",
		"openstack://region/s": "s",
		"openstack:///":        "",
		"aws:///zone/s":        "",
		"openstack:///a/b":     "",
		"s":                    "",
	} {
		if got := parseProviderID(id); got != want {
			t.Errorf("%q names %q, want %q", id, got, want)
		}
	}
}
