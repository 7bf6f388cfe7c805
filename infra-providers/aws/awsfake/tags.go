// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package awsfake

import (
	"encoding/xml"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

type describeTags struct {
	XMLName xml.Name
	Tags    []tagItem `xml:"tagSet>item"`
}

type tagItem struct {
	Resource string `xml:"resourceId"`
	Kind     string `xml:"resourceType"`
	tag
}

type createTags struct {
	XMLName xml.Name
	Done    bool `xml:"return"`
}

// kinds are the types of resources by how their IDs begin.
var kinds = map[string]string{"i": "instance", "vol": "volume", "eni": "network-interface"}

// tagsOf returns the tags of every resource.
func (c *Cloud) tagsOf() map[string]*[]tag {
	all := map[string]*[]tag{}
	for _, i := range c.instances {
		all[i.id] = &i.tags
	}
	for id, v := range c.volumes {
		all[id] = &v.tags
	}
	for id, n := range c.nics {
		all[id] = &n.tags
	}
	return all
}

// Tags returns the value that each resource has for a key, empty for none.
func (c *Cloud) Tags(key string) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	values := map[string]string{}
	for id, tags := range c.tagsOf() {
		values[id] = ""
		for _, t := range *tags {
			if t.Key == key {
				values[id] = t.Value
			}
		}
	}
	return values
}

// listTags is DescribeTags.
func (c *Cloud) listTags(p url.Values) any {
	matching := filters(p)
	answer := describeTags{XMLName: response("DescribeTags")}
	for id, tags := range c.tagsOf() {
		prefix, _, _ := strings.Cut(id, "-")
		for _, t := range *tags {
			if matching(map[string][]string{"key": {t.Key}, "value": {t.Value}, "resource-type": {kinds[prefix]}, "resource-id": {id}}) {
				answer.Tags = append(answer.Tags, tagItem{id, kinds[prefix], t})
			}
		}
	}
	return answer
}

// tag is CreateTags: it changes nothing if one of the resources does not exist.
func (c *Cloud) tag(p url.Values) (any, error) {
	known := c.tagsOf()
	for _, id := range values(p, "ResourceId") {
		if known[id] == nil {
			return nil, refuse("InvalidID", "The ID '%s' is not valid", id)
		}
	}
	for _, id := range values(p, "ResourceId") {
		for n := 1; p.Has(fmt.Sprintf("Tag.%d.Key", n)); n++ {
			set(known[id], tag{Key: p.Get(fmt.Sprintf("Tag.%d.Key", n)), Value: p.Get(fmt.Sprintf("Tag.%d.Value", n))})
		}
	}
	return createTags{XMLName: response("CreateTags"), Done: true}, nil
}

func set(tags *[]tag, to tag) {
	// An answer with the earlier tags may still be being written, so they are not modified.
	changed := slices.DeleteFunc(slices.Clone(*tags), func(t tag) bool { return t.Key == to.Key })
	*tags = append(changed, to)
}

// Untag removes tags from an instance, its volumes and its network interfaces, as an operator might, and returns a
// function that reports whether all of them still exist and then removes them.
func (c *Cloud) Untag(id string, keys ...string) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(c.instances, func(i *instance) bool { return i.id == id })
	of, before := c.instances[at], map[string][]tag{}
	for resource, tags := range c.tagsOf() {
		volume, nic := c.volumes[resource], c.nics[resource]
		if resource == id || volume != nil && volume.of == of || nic != nil && nic.of == of {
			before[resource] = *tags
			*tags = slices.DeleteFunc(slices.Clone(*tags), func(t tag) bool { return slices.Contains(keys, t.Key) })
		}
	}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		exist, now := of.state == running, c.tagsOf()
		for resource, tags := range before {
			if left, ok := now[resource]; ok {
				*left = tags // at the end everything must have an identity
			} else {
				exist = false
			}
		}
		c.setTerminated(of)
		return exist
	}
}
