// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstackfake

import (
	"fmt"
	"net/netip"
	"time"
)

// What the installation has.
const (
	// Project is the project of the machines, and OtherProject another one.
	Project      = "b5f26a3b-9a4d-48db-a6b3-d1dd4ac4abec"
	OtherProject = "0e000000-9a4d-48db-a6b3-d1dd4ac4abec"

	PartitionA = "fra-equ01"
	PartitionB = "fra-equ02"
	Size       = "c1-xlarge-x86"
	BigSize    = "c2-xlarge-x86"
	// NoMachines is a size without a machine.
	NoMachines = "g1-medium-x86"

	// NetworkA and NetworkB are the private networks of the project, DualNetwork one of PartitionA with two address families.
	NetworkA    = "8fa5e6b1-0000-4000-8000-00000000000a"
	NetworkB    = "8fa5e6b1-0000-4000-8000-00000000000b"
	DualNetwork = "8fa5e6b1-0000-4000-8000-00000000000d"
	// OtherNetwork belongs to another project.
	OtherNetwork = "8fa5e6b1-0000-4000-8000-00000000000e"
	// SharedNetwork is a private network of another project that all may use, beside which a machine can have no other private one.
	SharedNetwork = "8fa5e6b1-0000-4000-8000-000000000010"
	Internet      = "internet"
	// SuperNetwork is what private networks are taken from. No machine can be in it.
	SuperNetwork = "super-a"
	// TinyNetwork is a private network with two addresses.
	TinyNetwork = "8fa5e6b1-0000-4000-8000-00000000000f"

	// Image is an operating system and version, NewestImage its newest image, and OldImage the one before.
	Image       = "ubuntu-24.04"
	NewestImage = "ubuntu-24.04.20261101"
	OldImage    = "ubuntu-24.04.20260801"
	// ExpiredImage has expired; ExpiringImage does so in a week.
	ExpiredImage  = "debian-12.0.20240101"
	ExpiringImage = "debian-13.0.20260901"
	// FirewallImage is for firewalls.
	FirewallImage = "firewall-ubuntu-3.0.20261101"
	Layout        = "default"

	// StaticIP is an address of the project in the internet that was allocated beforehand.
	StaticIP = "203.0.113.129"

	// Firewall is the machine of a firewall of the project, and Neighbour one that somebody else has allocated in it.
	Firewall  = "00000000-0000-4000-8000-0000000000f1"
	Neighbour = "00000000-0000-4000-8000-0000000000f2"
)

// The credentials.
const (
	// AdminHMAC is the key of Metal-Admin, EditHMAC that of Metal-Edit and ViewHMAC that of Metal-View.
	AdminHMAC = "metal-admin-key"
	EditHMAC  = "metal-edit-key"
	ViewHMAC  = "metal-view-key"
	// Token is an OIDC token with the permissions of Metal-Edit.
	Token = "eyJhbGciOiJSUzI1NiJ9.e30.fake"
)

type image struct {
	expires time.Time
	feature string
}

type network struct {
	partition, project, parent string
	prefixes                   []netip.Prefix
	shared                     bool
}

var networks = map[string]network{
	NetworkA:      {PartitionA, Project, "super-a", prefixes("10.131.0.0/22"), false},
	NetworkB:      {PartitionB, Project, "super-b", prefixes("10.132.0.0/22"), false},
	DualNetwork:   {PartitionA, Project, "super-a", prefixes("10.133.0.0/22", "fd00:133::/64"), false},
	OtherNetwork:  {PartitionA, OtherProject, "super-a", prefixes("10.134.0.0/22"), false},
	TinyNetwork:   {PartitionA, Project, "super-a", prefixes("10.135.0.0/30"), false},
	SharedNetwork: {PartitionA, OtherProject, "super-a", prefixes("10.136.0.0/22"), true},
	Internet:      {"", "", "", prefixes("203.0.113.0/24"), false},
	SuperNetwork:  {PartitionA, "", "", prefixes("10.128.0.0/9"), false},
}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// sizes are the cores, and the memory and storage in GiB.
var sizes = map[string][3]int64{Size: {8, 64, 480}, BigSize: {24, 256, 960}, NoMachines: {32, 512, 960}}

func (c *Cloud) addDefaults() {
	now := c.options.Now()
	c.images = map[string]image{
		NewestImage: {now.Add(90 * 24 * time.Hour), "machine"}, OldImage: {now.Add(30 * 24 * time.Hour), "machine"},
		ExpiredImage: {now.Add(-time.Hour), "machine"}, ExpiringImage: {now.Add(7 * 24 * time.Hour), "machine"},
		FirewallImage: {now.Add(90 * 24 * time.Hour), "firewall"},
	}
	for p, partition := range []string{PartitionA, PartitionB} {
		for s, size := range []string{Size, BigSize} {
			for n := range c.options.Machines {
				id := fmt.Sprintf("00000000-0000-4000-8000-%d%d%010d", p+1, s+1, n)
				c.machines = append(c.machines, &server{ID: id, Partition: partition, Size: size, Rack: fmt.Sprintf("%s-rack%02d", partition, n%4)})
			}
		}
	}
	for id, role := range map[string]string{Firewall: "firewall", Neighbour: "machine"} {
		c.machines = append(c.machines, &server{ID: id, Partition: PartitionA, Size: Size, Rack: PartitionA + "-rack00", allocation: &allocation{
			uuid: c.uuid(), name: role, hostname: role, description: "of the operators", project: Project, image: FirewallImage, role: role, layout: Layout,
			tags: []string{"team=network"}, created: now, liveliness: "Alive",
		}})
	}
	static := netip.MustParseAddr(StaticIP)
	c.ips[static] = &address{Address: static, UUID: c.uuid(), Name: "ingress", Network: Internet, Project: Project, Type: "static", Tags: []string{"team=web"}, Created: now}
}
