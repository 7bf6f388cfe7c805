// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitaloceanfake

import (
	"slices"
	"strconv"
	"strings"
)

// canonical returns the name under which a tag exists, and creates it: the capitalization of its first use counts.
func (c *Cloud) canonical(name string) string {
	known, ok := c.tags[strings.ToLower(name)]
	if !ok {
		known = name
		c.tags[strings.ToLower(name)] = name
	}
	return known
}

// tagOf returns the tag that a path names in its canonical capitalization; ok is false for another.
func (c *Cloud) tagOf(r request) (name string, ok bool) {
	known, exists := c.tags[strings.ToLower(r.id)]
	return known, exists && known == r.id
}

// tagged returns the Droplets and volumes with a tag.
func (c *Cloud) tagged(name string) (droplets, volumes int) {
	for _, known := range c.droplets {
		if c.hasTag(known, name) {
			droplets++
		}
	}
	for _, known := range c.volumes {
		if slices.Contains(known.Tags, name) {
			volumes++
		}
	}
	return droplets, volumes
}

func createTag(c *Cloud, r request) (any, *refusal) {
	return object{"tag": c.renderTag(c.canonical(decode[struct{ Name string }](r).Name))}, nil
}

func (c *Cloud) renderTag(name string) object {
	droplets, volumes := c.tagged(name)
	return object{"name": name, "resources": object{
		"count": droplets + volumes, "droplets": object{"count": droplets}, "volumes": object{"count": volumes},
		"images": object{"count": 0}, "volume_snapshots": object{"count": 0}, "databases": object{"count": 0},
	}}
}

func getTag(c *Cloud, r request) (any, *refusal) {
	name, ok := c.tagOf(r)
	if !ok {
		return nil, notFound()
	}
	return object{"tag": c.renderTag(name)}, nil
}

// deleteTag removes a tag from everything.
func deleteTag(c *Cloud, r request) (any, *refusal) {
	name, ok := c.tagOf(r)
	if !ok {
		return nil, notFound()
	}
	delete(c.tags, strings.ToLower(name))
	is := func(tag string) bool { return tag == name }
	for _, known := range c.droplets {
		known.Tags = slices.DeleteFunc(known.Tags, is)
	}
	for _, known := range c.volumes {
		known.Tags = slices.DeleteFunc(known.Tags, is)
	}
	return nil, nil
}

// tagsOf returns the tags of what a request names.
func (c *Cloud) tagsOf(r request) (all []*[]string, refused *refusal) {
	body := decode[struct {
		Resources []struct {
			ID   string `json:"resource_id"`
			Type string `json:"resource_type"`
		}
	}](r)
	for _, of := range body.Resources {
		id, _ := strconv.Atoi(of.ID)
		switch {
		case of.Type == "droplet" && c.droplets[id] != nil:
			all = append(all, &c.droplets[id].Tags)
		case of.Type == "volume" && c.volumes[of.ID] != nil:
			all = append(all, &c.volumes[of.ID].Tags)
		default:
			return nil, notFound()
		}
	}
	return all, nil
}

func tagResources(c *Cloud, r request) (any, *refusal) {
	name, ok := c.tagOf(r)
	if !ok {
		return nil, notFound()
	}
	all, refused := c.tagsOf(r)
	for _, tags := range all {
		if !slices.Contains(*tags, name) {
			*tags = append(*tags, name)
		}
	}
	return nil, refused
}

func untagResources(c *Cloud, r request) (any, *refusal) {
	name, ok := c.tagOf(r)
	if !ok {
		return nil, notFound()
	}
	all, refused := c.tagsOf(r)
	for _, tags := range all {
		*tags = slices.DeleteFunc(*tags, func(tag string) bool { return tag == name })
	}
	return nil, refused
}
