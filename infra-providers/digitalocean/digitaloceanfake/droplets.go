// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitaloceanfake

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (c *Cloud) dropletOf(r request) *droplet {
	id, err := strconv.Atoi(r.id)
	if err != nil {
		return nil
	}
	return c.droplets[id]
}

func listDroplets(c *Cloud, r request) (any, *refusal) {
	var found []*droplet
	name, tagName := r.query.Get("name"), r.query.Get("tag_name")
	if name != "" && tagName != "" {
		return nil, unprocessable("name can not be combined with tag_name")
	}
	for _, known := range c.sorted() {
		switch {
		case name != "" && !strings.EqualFold(known.Name, name):
		case tagName != "" && (known.listedAt > c.requests || !c.hasTag(known, tagName)):
		default:
			found = append(found, known)
		}
	}
	return page(r, "droplets", found, c.render), nil
}

// hasTag reports whether a Droplet has a tag, whose canonical name has to be given.
func (c *Cloud) hasTag(of *droplet, name string) bool {
	return of.taggedAt <= c.requests && slices.Contains(of.Tags, name)
}

func getDroplet(c *Cloud, r request) (any, *refusal) {
	found := c.dropletOf(r)
	if found == nil {
		return nil, notFound()
	}
	return object{"droplet": c.render(found)}, nil
}

func createDroplet(c *Cloud, r request) (any, *refusal) {
	if refused := c.faults.refuseCreation(); refused != nil {
		return nil, refused
	}
	body := decode[struct {
		Name, Region, Size string
		Image              any
		SSHKeys            []any `json:"ssh_keys"`
		Tags               []string
		Volumes            []any
		VPC                string `json:"vpc_uuid"`
		IPv6               bool
		UserData           string `json:"user_data"`
	}](r)
	from, refused := c.checkCreation(body.Region, body.Size, body.Image)
	if refused != nil {
		return nil, refused
	}
	disks := volumeIDs(body.Volumes)
	if refused := c.checkReferences(body.Region, body.VPC, body.SSHKeys, disks); refused != nil {
		return nil, refused
	}
	if len(body.UserData) > 64<<10 {
		return nil, unprocessable("User data is too large")
	}
	created := &droplet{
		ID: newID(), Name: body.Name, Status: "new", Region: body.Region, Size: body.Size, Image: from, VPC: body.VPC,
		Created: c.options.Now().UTC().Truncate(time.Second), Request: decode[map[string]any](r), waiting: disks,
		taggedAt: c.requests + c.options.TagDelay, listedAt: c.requests + c.options.ListDelay,
	}
	for _, name := range body.Tags {
		created.Tags = append(created.Tags, c.canonical(name))
	}
	if c.faults.hiding {
		c.faults.hiding, created.listedAt = false, c.requests+hiddenRequests
	}
	c.droplets[created.ID] = created
	answer := c.render(created)
	c.start(created, "active")
	return object{"droplet": answer, "links": object{"actions": []object{{"id": newID(), "rel": "create", "href": c.Endpoint + "/v2/actions/1"}}}}, nil
}

// volumeIDs returns the IDs of volumes, each of which is a string or an object with one.
func volumeIDs(refs []any) (ids []string) {
	for _, ref := range refs {
		if of, ok := ref.(object); ok {
			ref = of["id"]
		}
		ids = append(ids, fmt.Sprint(ref))
	}
	return ids
}

// checkCreation checks what a Droplet is created from. There is one status for all refusals.
func (c *Cloud) checkCreation(regionSlug, sizeSlug string, imageRef any) (imageID int, refused *refusal) {
	if c.dropletLimit <= len(c.droplets) {
		return 0, unprocessable("creating this/these droplet(s) will exceed your droplet limit")
	}
	at := slices.IndexFunc(c.regions, func(known region) bool { return known.Slug == regionSlug && known.Available })
	if at < 0 {
		return 0, unprocessable("Region is not available")
	}
	of := slices.IndexFunc(c.sizes, func(known size) bool { return known.Slug == sizeSlug })
	if of < 0 || !slices.Contains(c.regionsOf(c.sizes[of]), regionSlug) {
		return 0, unprocessable("Size is not available in this region.")
	}
	from := c.imageOf(imageRef)
	if from == nil || !slices.Contains(from.Regions, regionSlug) {
		return 0, unprocessable("You specified an invalid image for Droplet creation.")
	}
	if from.MinDisk > c.sizes[of].Disk {
		return 0, unprocessable("This size does not have enough disk for the image.")
	}
	return from.ID, nil
}

func (c *Cloud) checkReferences(regionSlug, vpcID string, keys []any, volumes []string) *refusal {
	for _, ref := range keys {
		if c.keyOf(fmt.Sprint(ref)) == nil {
			return unprocessable(fmt.Sprintf("%v are invalid key identifiers for Droplet creation.", ref))
		}
	}
	if vpcID != "" && !slices.ContainsFunc(c.vpcs, func(known vpc) bool { return known.ID == vpcID && known.Region == regionSlug }) {
		return unprocessable("invalid vpc_uuid")
	}
	for _, id := range volumes {
		known := c.volumes[id]
		if known == nil || known.Region != regionSlug || known.Droplet != 0 {
			return unprocessable("invalid volume")
		}
	}
	return nil
}

func deleteDroplet(c *Cloud, r request) (any, *refusal) {
	found := c.dropletOf(r)
	if found == nil {
		return nil, notFound()
	}
	if found.next != "deleted" {
		c.start(found, "deleted")
	}
	return nil, nil
}

func actOnDroplet(c *Cloud, r request) (any, *refusal) {
	found := c.dropletOf(r)
	body := decode[struct{ Type string }](r)
	switch {
	case found == nil:
		return nil, notFound()
	case found.locked():
		return nil, pendingEvent()
	case body.Type != "power_cycle":
		return nil, unprocessable("the fake has no action " + body.Type)
	}
	c.restarts++
	// A Droplet that is off starts.
	c.start(found, "active")
	return object{"action": c.action("power_cycle", found.ID, "droplet", found.locked())}, nil
}

func (c *Cloud) action(kind string, on int, resource string, busy bool) object {
	status := "completed"
	if busy {
		status = "in-progress"
	}
	return object{
		"id": newID(), "status": status, "type": kind, "started_at": c.options.Now().UTC().Format(time.RFC3339),
		"resource_id": on, "resource_type": resource, "region_slug": "nyc3",
	}
}

// render returns a Droplet as the API shows it. A reserved IP is not among its networks.
func (c *Cloud) render(of *droplet) object {
	tags := []string{}
	if of.taggedAt <= c.requests {
		tags = append(tags, of.Tags...)
	}
	attached := []string{}
	for _, disk := range c.volumesOf(of.ID) {
		attached = append(attached, disk.ID)
	}
	found := object{
		"id": of.ID, "name": of.Name, "memory": 4096, "vcpus": 2, "disk": 80, "locked": of.locked(), "status": of.Status,
		"created_at": of.Created.Format(time.RFC3339), "features": []string{"private_networking"}, "backup_ids": []int{},
		"next_backup_window": nil, "snapshot_ids": []int{}, "volume_ids": attached, "size_slug": of.Size, "tags": tags,
		"vpc_uuid": of.VPC, "networks": c.networks(of),
	}
	for _, known := range c.sizes {
		if known.Slug == of.Size {
			found["size"] = c.renderSize(known)
			found["memory"], found["vcpus"], found["disk"] = known.Memory, known.VCPUs, known.Disk
		}
	}
	for _, known := range c.regions {
		if known.Slug == of.Region {
			found["region"] = c.renderRegion(known)
		}
	}
	for _, known := range c.images {
		if known.ID == of.Image {
			found["image"] = renderImage(known)
		}
	}
	return found
}

// networks are empty until a Droplet is active.
func (c *Cloud) networks(of *droplet) object {
	v4, v6 := []object{}, []object{}
	if of.Status != "new" {
		low := fmt.Sprintf("%d.%d", of.ID/250%250, of.ID%250)
		if public, set := of.Request["public_networking"].(bool); !set || public {
			v4 = append(v4, object{"ip_address": "104.236." + low, "netmask": "255.255.192.0", "gateway": "104.236.0.1", "type": "public"})
			if with, _ := of.Request["ipv6"].(bool); with {
				v6 = append(v6, object{"ip_address": "2604:a880:0:1010::" + strconv.Itoa(of.ID%1000), "netmask": 64, "gateway": "2604:a880:0:1010::1", "type": "public"})
			}
		}
		v4 = append(v4, object{"ip_address": "10.128." + low, "netmask": "255.255.0.0", "gateway": "10.128.0.1", "type": "private"})
	}
	return object{"v4": v4, "v6": v6}
}
