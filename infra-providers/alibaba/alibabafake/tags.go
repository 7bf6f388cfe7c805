// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alibabafake

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	ecs "github.com/alibabacloud-go/ecs-20140526/v7/client"
)

// resource is something that has tags.
type resource struct {
	kind string
	of   *instance
	tags *map[string]string
}

// resources returns all that has tags, by ID.
func (c *Cloud) resources() map[string]resource {
	all := map[string]resource{}
	for _, i := range c.instances {
		all[i.id] = resource{"instance", i, &i.tags}
	}
	for id, d := range c.disks {
		all[id] = resource{"disk", d.of, &d.tags}
	}
	for id, n := range c.nics {
		all[id] = resource{"eni", n.of, &n.tags}
	}
	return all
}

// Tags returns the value that each resource has for a key, empty for none.
func (c *Cloud) Tags(key string) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	values := map[string]string{}
	for id, known := range c.resources() {
		values[id] = (*known.tags)[key]
	}
	return values
}

// tag is TagResources: it changes nothing if one of the resources does not exist.
func (c *Cloud) tag(p url.Values) (any, error) {
	known := c.resources()
	var ids []string
	for n := 1; p.Has("ResourceId." + strconv.Itoa(n)); n++ {
		id := p.Get("ResourceId." + strconv.Itoa(n))
		if known[id].kind != p.Get("ResourceType") {
			return nil, refuse(http.StatusNotFound, "InvalidResourceId.NotFound", "The specified ResourceIds are not found in our records.")
		}
		ids = append(ids, id)
	}
	if len(ids) > 50 {
		return nil, refuse(http.StatusBadRequest, "NumberExceed.ResourceIds", "The ResourceIds parameter's number is exceed.")
	}
	for _, id := range ids {
		changed := maps.Clone(*known[id].tags)
		maps.Copy(changed, tagsOf(flat(p)))
		if len(changed) > 20 {
			return nil, refuse(http.StatusBadRequest, "NumberExceed.Tags", "The Tags parameter number is exceed.")
		}
		*known[id].tags = changed
	}
	return &ecs.TagResourcesResponseBody{}, nil
}

// Untag removes tags from an instance, its disks and its network interface, as an operator might, and returns a function that
// reports whether all of them still exist and then removes them.
func (c *Cloud) Untag(id string, keys ...string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	of, before := c.find(id), map[string]map[string]string{}
	for resource, known := range c.resources() {
		if known.of == of {
			before[resource] = *known.tags
			changed := maps.Clone(*known.tags)
			maps.DeleteFunc(changed, func(key, _ string) bool { return slices.Contains(keys, key) })
			*known.tags = changed
		}
	}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		exist, now := of.status == running, c.resources()
		for resource, tags := range before {
			if left, ok := now[resource]; ok {
				*left.tags = tags // at the end everything must have an identity
			} else {
				exist = false
			}
		}
		c.remove(of)
		return exist
	}
}
