// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitaloceanfake

import (
	"slices"
	"strconv"
	"time"
)

// IDs of the default resources of every team.
const (
	// ImageUbuntu has the slug ubuntu-24-04-x64.
	ImageUbuntu = 101
	// SnapshotOld is called node.
	SnapshotOld = 102
	// SnapshotNew is called node, too.
	SnapshotNew = 103
	// SnapshotLarge is called large and needs a disk of 500 GiB.
	SnapshotLarge = 104
	// SnapshotElsewhere is called elsewhere and is in sfo3 only.
	SnapshotElsewhere = 105
	// KeyAlice is called alice.
	KeyAlice = 201
	// VPCHome is in nyc3.
	VPCHome = "760e09ef-dc84-11e8-981e-3cfdfeaae000"
	// VPCFar is in fra1.
	VPCFar = "760e09ef-dc84-11e8-981e-3cfdfeaae001"
)

type size struct {
	Slug                string
	Memory, VCPUs, Disk int
	Regions             []string
}

type region struct {
	Slug      string
	Available bool
	Features  []string
}

type image struct {
	ID               int
	Slug, Name, Kind string
	Regions          []string
	MinDisk          int
	Created          time.Time
}

type vpc struct{ ID, Region string }

func (c *Cloud) addDefaults() {
	all := []string{"nyc3", "fra1", "sfo3"}
	features := []string{"backups", "ipv6", "metadata", "install_agent", "storage", "image_transfer"}
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c.sizes = []size{
		{"s-2vcpu-4gb", 4096, 2, 80, all}, {"s-4vcpu-8gb", 8192, 4, 160, all}, {"c-2", 4096, 2, 25, []string{"nyc3"}},
	}
	c.regions = []region{
		{"nyc3", true, features}, {"fra1", true, features}, {"sfo3", true, features}, {"nyc2", false, []string{"metadata"}},
	}
	c.images = []image{
		{ImageUbuntu, "ubuntu-24-04-x64", "24.04 (LTS) x64", "base", all, 7, created},
		{SnapshotOld, "", "node", "snapshot", all, 20, created.AddDate(0, 1, 0)},
		{SnapshotNew, "", "node", "snapshot", all, 20, created.AddDate(0, 2, 0)},
		{SnapshotLarge, "", "large", "snapshot", all, 500, created},
		{SnapshotElsewhere, "", "elsewhere", "snapshot", []string{"sfo3"}, 20, created},
	}
	c.vpcs = []vpc{{VPCHome, "nyc3"}, {VPCFar, "fra1"}}
	alice := &key{ID: KeyAlice, Name: "alice", PublicKey: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f alice"}
	alice.Fingerprint, _ = fingerprint(alice.PublicKey)
	c.keys[alice.ID] = alice
}

// regionsOf returns the regions where a size is available. One that is sold out is not among them.
func (c *Cloud) regionsOf(of size) []string {
	if c.faults.soldOut {
		return nil
	}
	return of.Regions
}

func (c *Cloud) renderSize(of size) object {
	regions := append([]string{}, c.regionsOf(of)...)
	return object{
		"slug": of.Slug, "memory": of.Memory, "vcpus": of.VCPUs, "disk": of.Disk, "transfer": 4.0, "price_monthly": 24.0,
		"price_hourly": 0.03571, "regions": regions, "available": len(regions) > 0, "description": "Basic",
	}
}

func (c *Cloud) renderRegion(of region) object {
	sizes := []string{}
	for _, known := range c.sizes {
		if slices.Contains(c.regionsOf(known), of.Slug) {
			sizes = append(sizes, known.Slug)
		}
	}
	return object{"slug": of.Slug, "name": of.Slug, "available": of.Available, "features": of.Features, "sizes": sizes}
}

func renderImage(of image) object {
	found := object{
		"id": of.ID, "name": of.Name, "type": of.Kind, "distribution": "Ubuntu", "slug": nil, "public": of.Slug != "", "regions": of.Regions,
		"created_at": of.Created.Format(time.RFC3339), "min_disk_size": of.MinDisk, "size_gigabytes": 2.3, "description": "", "tags": []string{},
		"status": "available",
	}
	if of.Slug != "" {
		found["slug"] = of.Slug
	}
	return found
}

// imageOf finds an image by its ID or slug.
func (c *Cloud) imageOf(ref any) *image {
	for i, known := range c.images {
		switch ref := ref.(type) {
		case float64:
			if known.ID == int(ref) {
				return &c.images[i]
			}
		case string:
			if ref != "" && (known.Slug == ref || strconv.Itoa(known.ID) == ref) {
				return &c.images[i]
			}
		}
	}
	return nil
}

func listSizes(c *Cloud, r request) (any, *refusal) {
	return page(r, "sizes", c.sizes, c.renderSize), nil
}

func listRegions(c *Cloud, r request) (any, *refusal) {
	return page(r, "regions", c.regions, c.renderRegion), nil
}

func listImages(c *Cloud, r request) (any, *refusal) {
	var found []image
	for _, known := range c.images {
		if r.query.Get("private") != "true" || known.Slug == "" {
			found = append(found, known)
		}
	}
	return page(r, "images", found, renderImage), nil
}

func getImage(c *Cloud, r request) (any, *refusal) {
	found := c.imageOf(r.id)
	if found == nil {
		return nil, notFound()
	}
	return object{"image": renderImage(*found)}, nil
}

func getVPC(c *Cloud, r request) (any, *refusal) {
	for _, known := range c.vpcs {
		if known.ID == r.id {
			return object{"vpc": object{
				"id": known.ID, "urn": "do:vpc:" + known.ID, "name": "home", "region": known.Region, "ip_range": "10.128.0.0/16",
				"description": "", "default": false, "created_at": "2026-01-01T00:00:00Z",
			}}, nil
		}
	}
	return nil, notFound()
}

func getAccount(c *Cloud, _ request) (any, *refusal) {
	limit := c.dropletLimit
	if c.faults.full {
		limit = len(c.droplets)
	}
	return object{"account": object{
		"droplet_limit": limit, "floating_ip_limit": c.ipLimit, "reserved_ip_limit": c.ipLimit, "volume_limit": c.volumeLimit,
		"email": "sammy@example.com", "name": "Sammy", "uuid": "b6fr89dbf6d9156cace5f3c78dc9851d957381ef", "email_verified": true,
		"status": "active", "status_message": "", "team": object{"uuid": Team, "name": "My Team"},
	}}, nil
}
