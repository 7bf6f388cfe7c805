// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstackfake

import (
	"maps"
	"slices"
	"strings"
)

// Attach attaches a new volume without tags to a server, and returns a function that reports whether the volume still
// exists and then deletes it.
func (c *Cloud) Attach(server string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.put("volumes", object{"name": "pvc-1", "size": 1, "metadata": object{}, "status": "in-use"})["id"].(string)
	if c.hidden[server].disks == nil {
		c.hidden[server].disks = map[string]bool{}
	}
	c.hidden[server].disks[id] = false
	return c.remover(id)
}

// CopyTags creates a volume with the metadata of a server, attached to none, and returns what Attach does.
func (c *Cloud) CopyTags(server string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	metadata := maps.Clone(c.things["servers"][server]["metadata"].(object))
	return c.remover(c.put("volumes", object{"name": "pvc-1", "size": 1, "metadata": metadata, "status": "available"})["id"].(string))
}

func (c *Cloud) remover(id string) func() bool {
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, there := c.things["volumes"][id]
		delete(c.things["volumes"], id)
		return there
	}
}

// Untag removes the tags of a server and of its attachments, as an operator might, and returns a function that reports
// whether all of them still exist and then deletes them.
func (c *Cloud) Untag(server string, keys ...string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := map[string]string{}
	mine := func(kind, id string) {
		kept[id] = kind
		thing := c.things[kind][id]
		if metadata, ok := thing["metadata"].(object); ok {
			thing["metadata"] = without(metadata, keys)
		}
		if tags, ok := thing["tags"].([]string); ok {
			thing["tags"] = slices.DeleteFunc(slices.Clone(tags), func(tag string) bool {
				key, _, _ := strings.Cut(tag, "=")
				return slices.Contains(keys, strings.ReplaceAll(key, ":", "/"))
			})
		}
	}
	mine("servers", server)
	for id, port := range c.things["ports"] {
		if port["device_id"] != server {
			continue
		}
		mine("ports", id)
		for address, known := range c.things["floatingips"] {
			if known["port_id"] == id {
				mine("floatingips", address)
			}
		}
	}
	for id := range c.hidden[server].disks {
		mine("volumes", id)
	}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		there := c.things["servers"][server] != nil && c.things["servers"][server]["status"] == "ACTIVE"
		if there {
			c.terminate(server)
		}
		for id, kind := range kept {
			if kind != "servers" {
				there = there && c.things[kind][id] != nil
				delete(c.things[kind], id)
			}
		}
		return there
	}
}

func without(metadata object, keys []string) object {
	left := maps.Clone(metadata)
	for _, key := range keys {
		delete(left, strings.ReplaceAll(key, "/", ":"))
	}
	return left
}
