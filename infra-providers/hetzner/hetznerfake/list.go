// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetznerfake

import (
	"maps"
	"slices"
	"strconv"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	defaultPage = 25
	maxPage     = 50
)

// described has the properties that lists filter by.
type described struct {
	id     int64
	name   string
	labels map[string]string
}

// listPage returns one page of what the query selects, under the plural name of the kind.
func listPage[T any](kind string, all []T, query map[string][]string, describe func(T) described) (any, *refusal) {
	selector, err := labels.Parse(first(query, "label_selector"))
	if err != nil {
		return nil, badInput("label_selector", err.Error())
	}
	name := first(query, "name")
	selected := slices.DeleteFunc(slices.Clone(all), func(item T) bool {
		facts := describe(item)
		return name != "" && facts.name != name || !selector.Matches(labels.Set(facts.labels))
	})
	page, size := number(query, "page", 1), min(number(query, "per_page", defaultPage), maxPage)
	from, to := min((page-1)*size, len(selected)), min(page*size, len(selected))
	pagination := schema.MetaPagination{Page: page, PerPage: size, LastPage: max((len(selected)+size-1)/size, 1), TotalEntries: len(selected)}
	if to < len(selected) {
		pagination.NextPage = page + 1
	}
	return map[string]any{kind: append([]T{}, selected[from:to]...), "meta": schema.Meta{Pagination: &pagination}}, nil
}

// getOne returns the item of an ID, under the singular name of the kind.
func getOne[T any](kind string, all []T, id int64, describe func(T) described) (any, *refusal) {
	at := slices.IndexFunc(all, func(item T) bool { return describe(item).id == id })
	if at < 0 {
		return nil, notFound(kind)
	}
	return map[string]any{kind: all[at]}, nil
}

func first(query map[string][]string, key string) string {
	if values := query[key]; len(values) > 0 {
		return values[0]
	}
	return ""
}

func number(query map[string][]string, key string, otherwise int) int {
	if value, err := strconv.Atoi(first(query, key)); err == nil {
		return value
	}
	return otherwise
}

func describeServer(s schema.Server) described         { return described{s.ID, s.Name, s.Labels} }
func describeVolume(v schema.Volume) described         { return described{v.ID, v.Name, v.Labels} }
func describeNetwork(n schema.Network) described       { return described{n.ID, n.Name, n.Labels} }
func describeFirewall(f schema.Firewall) described     { return described{f.ID, f.Name, f.Labels} }
func describeSSHKey(k schema.SSHKey) described         { return described{k.ID, k.Name, k.Labels} }
func describeGroup(g *schema.PlacementGroup) described { return described{g.ID, g.Name, g.Labels} }
func describePrimaryIP(ip schema.PrimaryIP) described  { return described{ip.ID, ip.Name, ip.Labels} }
func describeServerType(t schema.ServerType) described { return described{t.ID, t.Name, nil} }
func describeImage(i schema.Image) described {
	facts := described{i.ID, "", i.Labels}
	if i.Name != nil {
		facts.name = *i.Name
	}
	return facts
}

func listServers(c *Cloud, r request) (any, *refusal) {
	var all []schema.Server
	for _, created := range c.sorted() {
		if !created.hidden || first(r.query, "label_selector") == "" {
			all = append(all, created.Server)
		}
	}
	return listPage("servers", all, r.query, describeServer)
}

func getServer(c *Cloud, r request) (any, *refusal) {
	if created := c.servers[r.id]; created != nil {
		return schema.ServerGetResponse{Server: created.Server}, nil
	}
	return nil, notFound("server")
}

func listVolumes(c *Cloud, r request) (any, *refusal) {
	var all []schema.Volume
	if c.faults.ignoreLabelSelector && first(r.query, "label_selector") != "" {
		c.faults.ignoreLabelSelector = false
		return listPage("volumes", all, r.query, describeVolume)
	}
	for _, id := range slices.Sorted(maps.Keys(c.volumes)) {
		all = append(all, c.volumes[id].Volume)
	}
	return listPage("volumes", all, r.query, describeVolume)
}

func listServerTypes(c *Cloud, r request) (any, *refusal) {
	return listPage("server_types", c.serverTypes, r.query, describeServerType)
}

// listImages sorts by creation, the newest first, if the query requires it.
func listImages(c *Cloud, r request) (any, *refusal) {
	all := slices.DeleteFunc(slices.Clone(c.images), func(i schema.Image) bool {
		other := func(key, value string) bool { return first(r.query, key) != "" && first(r.query, key) != value }
		return other("architecture", i.Architecture) || other("type", i.Type) || other("status", i.Status)
	})
	if first(r.query, "sort") == "created:desc" {
		slices.SortFunc(all, func(a, b schema.Image) int { return b.Created.Compare(*a.Created) })
	}
	return listPage("images", all, r.query, describeImage)
}

func getImage(c *Cloud, r request) (any, *refusal) {
	return getOne("image", c.images, r.id, describeImage)
}

func listNetworks(c *Cloud, r request) (any, *refusal) {
	return listPage("networks", c.networks, r.query, describeNetwork)
}

func getNetwork(c *Cloud, r request) (any, *refusal) {
	return getOne("network", c.networks, r.id, describeNetwork)
}

func listFirewalls(c *Cloud, r request) (any, *refusal) {
	return listPage("firewalls", c.firewalls, r.query, describeFirewall)
}

func getFirewall(c *Cloud, r request) (any, *refusal) {
	return getOne("firewall", c.firewalls, r.id, describeFirewall)
}

func listSSHKeys(c *Cloud, r request) (any, *refusal) {
	return listPage("ssh_keys", c.sshKeys, r.query, describeSSHKey)
}

func getSSHKey(c *Cloud, r request) (any, *refusal) {
	return getOne("ssh_key", c.sshKeys, r.id, describeSSHKey)
}

func listPlacementGroups(c *Cloud, r request) (any, *refusal) {
	all := c.placementGroups
	if c.faults.hiddenGroupLists > 0 {
		c.faults.hiddenGroupLists--
		all = nil
	}
	return listPage("placement_groups", all, r.query, describeGroup)
}

func getPlacementGroup(c *Cloud, r request) (any, *refusal) {
	return getOne("placement_group", c.placementGroups, r.id, describeGroup)
}

func listPrimaryIPs(c *Cloud, r request) (any, *refusal) {
	return listPage("primary_ips", c.addresses(), r.query, describePrimaryIP)
}

func getPrimaryIP(c *Cloud, r request) (any, *refusal) {
	return getOne("primary_ip", c.addresses(), r.id, describePrimaryIP)
}

func (c *Cloud) addresses() (all []schema.PrimaryIP) {
	for _, id := range slices.Sorted(maps.Keys(c.primaryIPs)) {
		all = append(all, *c.primaryIPs[id])
	}
	return all
}
