// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitaloceanfake

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

var volumeName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,63}$`)

func listVolumes(c *Cloud, r request) (any, *refusal) {
	var found []*volume
	for _, id := range slices.Sorted(maps.Keys(c.volumes)) {
		known := c.volumes[id]
		name, in := r.query.Get("name"), r.query.Get("region")
		if (name == "" || known.Name == name) && (in == "" || known.Region == in) {
			found = append(found, known)
		}
	}
	return page(r, "volumes", found, c.renderVolume), nil
}

func (c *Cloud) renderVolume(of *volume) object {
	attached, tags := []int{}, []string{}
	if of.Droplet != 0 {
		attached = append(attached, of.Droplet)
	}
	found := object{
		"id": of.ID, "name": of.Name, "size_gigabytes": of.Size, "description": of.Description, "droplet_ids": attached,
		"created_at": of.Created.Format(time.RFC3339), "tags": append(tags, of.Tags...), "filesystem_type": of.Filesystem, "filesystem_label": "",
	}
	for _, known := range c.regions {
		if known.Slug == of.Region {
			found["region"] = c.renderRegion(known)
		}
	}
	return found
}

func createVolume(c *Cloud, r request) (any, *refusal) {
	body := decode[struct {
		Name, Region, Description string
		Size                      int    `json:"size_gigabytes"`
		Filesystem                string `json:"filesystem_type"`
		Tags                      []string
	}](r)
	named := func(known *volume) bool { return known.Name == body.Name && known.Region == body.Region }
	in := slices.IndexFunc(c.regions, func(known region) bool { return known.Slug == body.Region })
	switch {
	case !volumeName.MatchString(body.Name):
		return nil, unprocessable("name must start with a letter and have letters, digits and dashes")
	case in < 0 || !slices.Contains(c.regions[in].Features, "storage"):
		return nil, unprocessable("region does not support volumes")
	case body.Size < 1:
		return nil, unprocessable("size must be at least 1GB")
	case len(c.volumes) >= c.volumeLimit:
		return nil, unprocessable("volume limit exceeded")
	case slices.ContainsFunc(slices.Collect(maps.Values(c.volumes)), named):
		return nil, conflict("a volume with that name already exists in the region")
	}
	n := newID()
	created := &volume{
		ID:   fmt.Sprintf("%08x-7280-11ed-b3d0-%012x", n, n),
		Name: body.Name, Region: body.Region, Size: body.Size, Filesystem: body.Filesystem, Description: body.Description,
		Created: c.options.Now().UTC().Truncate(time.Second),
	}
	for _, name := range body.Tags {
		created.Tags = append(created.Tags, c.canonical(name))
	}
	c.volumes[created.ID] = created
	return object{"volume": c.renderVolume(created)}, nil
}

func getVolume(c *Cloud, r request) (any, *refusal) {
	found := c.volumes[r.id]
	if found == nil {
		return nil, notFound()
	}
	return object{"volume": c.renderVolume(found)}, nil
}

func deleteVolume(c *Cloud, r request) (any, *refusal) {
	found := c.volumes[r.id]
	switch {
	case found == nil:
		return nil, notFound()
	case found.Droplet != 0:
		return nil, conflict("Attached volume cannot be deleted")
	}
	delete(c.volumes, r.id)
	return nil, nil
}

// actOnVolume detaches a volume, which is an action of its Droplet, too.
func actOnVolume(c *Cloud, r request) (any, *refusal) {
	found := c.volumes[r.id]
	body := decode[struct {
		Type    string
		Droplet int `json:"droplet_id"`
	}](r)
	switch {
	case found == nil:
		return nil, notFound()
	case body.Type != "detach":
		return nil, unprocessable("the fake has no action " + body.Type)
	case found.Droplet != body.Droplet:
		return nil, unprocessable("Volume is not attached to the Droplet.")
	case found.busy > 0 || c.droplets[found.Droplet].locked():
		return nil, pendingEvent()
	}
	found.busy = max(c.requests+c.options.ActionDelay, 1)
	c.start(c.droplets[found.Droplet], "")
	return object{"action": c.action("detach_volume", found.Droplet, "backend", found.Droplet != 0)}, nil
}

// Attach creates a volume without tags, attaches it to a Droplet, and returns a function that reports whether it still exists
// and then deletes it.
func (c *Cloud) Attach(id int) func() bool { return c.foreignVolume(id, nil) }

// AttachCopy is Attach for a volume with the tags of the Droplet.
func (c *Cloud) AttachCopy(id int) func() bool { return c.foreignVolume(id, c.dropletTags(id)) }

// CopyTags creates a volume with the tags of a Droplet, attached to none, and returns what Attach does.
func (c *Cloud) CopyTags(id int) func() bool { return c.foreignVolume(0, c.dropletTags(id)) }

func (c *Cloud) dropletTags(id int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.droplets[id].Tags)
}

func (c *Cloud) foreignVolume(droplet int, tags []string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := newID()
	foreign := &volume{ID: fmt.Sprintf("%08x-7280-11ed-b3d0-%012x", n, n), Name: "pvc-" + strings.Repeat("a", 8), Region: "nyc3", Size: 10, Droplet: droplet, Tags: tags, Created: c.options.Now()}
	c.volumes[foreign.ID] = foreign
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, there := c.volumes[foreign.ID]
		delete(c.volumes, foreign.ID)
		return there
	}
}
