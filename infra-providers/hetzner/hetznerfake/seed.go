// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetznerfake

import (
	"fmt"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
	"k8s.io/utils/ptr"
)

// IDs of the default resources of every project.
const (
	// ImageX86 and ImageARM are both called ubuntu-24.04.
	ImageX86 = 101
	// ImageARM is for the other architecture.
	ImageARM = 102
	// SnapshotOld has the label os=node.
	SnapshotOld = 103
	// SnapshotNew has it too.
	SnapshotNew = 104
	// NetworkPrivate is called private and has two subnets, 10.0.0.0/24 and 10.0.1.0/24.
	NetworkPrivate = 201
	// NetworkStorage is called storage and has one, 10.9.0.0/24.
	NetworkStorage = 202
	// FirewallWorkers is called workers.
	FirewallWorkers = 301
	// SSHKeyAlice is called alice.
	SSHKeyAlice = 401
	// PlacementGroupOne is called spread-1 and has the label pool=workers.
	PlacementGroupOne = 501
	// PlacementGroupTwo is called spread-2 and has it too.
	PlacementGroupTwo = 502
	// PrimaryIPOne is called static-1, is in fsn1 and has the label pool=edge.
	PrimaryIPOne = 601
	// PrimaryIPTwo is called static-2 and is like the first.
	PrimaryIPTwo = 602
)

func (c *Cloud) addDefaults() {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c.locations = []schema.Location{
		{ID: 1, Name: "fsn1", NetworkZone: "eu-central"}, {ID: 2, Name: "nbg1", NetworkZone: "eu-central"}, {ID: 3, Name: "hel1", NetworkZone: "eu-central"},
	}
	c.serverTypes = []schema.ServerType{
		{ID: 11, Name: "cx33", Cores: 4, Memory: 8, Disk: 80, Architecture: "x86"},
		{ID: 12, Name: "cx43", Cores: 8, Memory: 16, Disk: 160, Architecture: "x86"},
		{ID: 13, Name: "cax21", Cores: 4, Memory: 8, Disk: 80, Architecture: "arm"},
	}
	c.images = []schema.Image{
		{ID: ImageX86, Name: ptr.To("ubuntu-24.04"), Type: "system", Status: "available", Architecture: "x86", Created: &created},
		{ID: ImageARM, Name: ptr.To("ubuntu-24.04"), Type: "system", Status: "available", Architecture: "arm", Created: &created},
		{ID: SnapshotOld, Type: "snapshot", Status: "available", Architecture: "x86", Created: ptr.To(created.AddDate(0, 1, 0)), Labels: map[string]string{"os": "node"}},
		{ID: SnapshotNew, Type: "snapshot", Status: "available", Architecture: "x86", Created: ptr.To(created.AddDate(0, 2, 0)), Labels: map[string]string{"os": "node"}},
	}
	c.networks = []schema.Network{
		{ID: NetworkPrivate, Name: "private", IPRange: "10.0.0.0/16", Created: created, Subnets: []schema.NetworkSubnet{
			{Type: "cloud", IPRange: "10.0.0.0/24", NetworkZone: "eu-central"}, {Type: "cloud", IPRange: "10.0.1.0/24", NetworkZone: "eu-central"}}},
		{ID: NetworkStorage, Name: "storage", IPRange: "10.9.0.0/16", Created: created, Subnets: []schema.NetworkSubnet{{Type: "cloud", IPRange: "10.9.0.0/24", NetworkZone: "eu-central"}}},
	}
	c.firewalls = []schema.Firewall{{ID: FirewallWorkers, Name: "workers", Created: created}}
	c.sshKeys = []schema.SSHKey{{ID: SSHKeyAlice, Name: "alice", Created: created}}
	for i, id := range []int64{PlacementGroupOne, PlacementGroupTwo} {
		c.placementGroups = append(c.placementGroups, &schema.PlacementGroup{
			ID: id, Name: fmt.Sprintf("spread-%d", i+1), Type: "spread", Created: created, Labels: map[string]string{"pool": "workers"}, Servers: []int64{}})
	}
	for i, id := range []int64{PrimaryIPOne, PrimaryIPTwo} {
		c.primaryIPs[id] = &schema.PrimaryIP{ID: id, Name: fmt.Sprintf("static-%d", i+1), Type: "ipv4", IP: fmt.Sprintf("198.51.100.%d", i+1),
			AssigneeType: "server", Created: created, Location: c.locations[0], Labels: map[string]string{"pool": "edge"}}
	}
}
