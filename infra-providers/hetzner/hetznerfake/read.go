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

// about is what lists filter by.
type about struct {
	id     int64
	name   string
	labels map[string]string
}

// list answers one page of what the query selects, under the plural name of the kind.
func list[T any](kind string, all []T, query map[string][]string, describe func(T) about) (any, *refusal) {
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

// one answers the item of an ID under the singular name of the kind.
func one[T any](kind string, all []T, id int64, describe func(T) about) (any, *refusal) {
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

func aboutServer(s schema.Server) about         { return about{s.ID, s.Name, s.Labels} }
func aboutVolume(v schema.Volume) about         { return about{v.ID, v.Name, v.Labels} }
func aboutNetwork(n schema.Network) about       { return about{n.ID, n.Name, n.Labels} }
func aboutFirewall(f schema.Firewall) about     { return about{f.ID, f.Name, f.Labels} }
func aboutSSHKey(k schema.SSHKey) about         { return about{k.ID, k.Name, k.Labels} }
func aboutGroup(g *schema.PlacementGroup) about { return about{g.ID, g.Name, g.Labels} }
func aboutPrimaryIP(ip schema.PrimaryIP) about  { return about{ip.ID, ip.Name, ip.Labels} }
func aboutServerType(t schema.ServerType) about { return about{t.ID, t.Name, nil} }
func aboutImage(i schema.Image) about {
	facts := about{i.ID, "", i.Labels}
	if i.Name != nil {
		facts.name = *i.Name
	}
	return facts
}

func listServers(c *Cloud, r request) (any, *refusal) {
	var all []schema.Server
	for _, made := range c.sorted() {
		if !made.hidden || first(r.query, "label_selector") == "" {
			all = append(all, made.Server)
		}
	}
	return list("servers", all, r.query, aboutServer)
}

func getServer(c *Cloud, r request) (any, *refusal) {
	if made := c.servers[r.id]; made != nil {
		return schema.ServerGetResponse{Server: made.Server}, nil
	}
	return nil, notFound("server")
}

func listVolumes(c *Cloud, r request) (any, *refusal) {
	var all []schema.Volume
	if c.faults.blind && first(r.query, "label_selector") != "" {
		c.faults.blind = false
		return list("volumes", all, r.query, aboutVolume)
	}
	for _, id := range slices.Sorted(maps.Keys(c.volumes)) {
		all = append(all, c.volumes[id].Volume)
	}
	return list("volumes", all, r.query, aboutVolume)
}

func listServerTypes(c *Cloud, r request) (any, *refusal) {
	return list("server_types", c.serverTypes, r.query, aboutServerType)
}

// listImages sorts by age when asked to; the youngest come first.
func listImages(c *Cloud, r request) (any, *refusal) {
	all := slices.DeleteFunc(slices.Clone(c.images), func(i schema.Image) bool {
		other := func(key, value string) bool { return first(r.query, key) != "" && first(r.query, key) != value }
		return other("architecture", i.Architecture) || other("type", i.Type) || other("status", i.Status)
	})
	if first(r.query, "sort") == "created:desc" {
		slices.SortFunc(all, func(a, b schema.Image) int { return b.Created.Compare(*a.Created) })
	}
	return list("images", all, r.query, aboutImage)
}

func getImage(c *Cloud, r request) (any, *refusal) { return one("image", c.images, r.id, aboutImage) }

func listNetworks(c *Cloud, r request) (any, *refusal) {
	return list("networks", c.networks, r.query, aboutNetwork)
}

func getNetwork(c *Cloud, r request) (any, *refusal) {
	return one("network", c.networks, r.id, aboutNetwork)
}

func listFirewalls(c *Cloud, r request) (any, *refusal) {
	return list("firewalls", c.firewalls, r.query, aboutFirewall)
}

func getFirewall(c *Cloud, r request) (any, *refusal) {
	return one("firewall", c.firewalls, r.id, aboutFirewall)
}

func listSSHKeys(c *Cloud, r request) (any, *refusal) {
	return list("ssh_keys", c.sshKeys, r.query, aboutSSHKey)
}

func getSSHKey(c *Cloud, r request) (any, *refusal) {
	return one("ssh_key", c.sshKeys, r.id, aboutSSHKey)
}

func listPlacementGroups(c *Cloud, r request) (any, *refusal) {
	all := c.placementGroups
	if c.faults.groupless > 0 {
		c.faults.groupless--
		all = nil
	}
	return list("placement_groups", all, r.query, aboutGroup)
}

func getPlacementGroup(c *Cloud, r request) (any, *refusal) {
	return one("placement_group", c.placementGroups, r.id, aboutGroup)
}

func listPrimaryIPs(c *Cloud, r request) (any, *refusal) {
	return list("primary_ips", c.addresses(), r.query, aboutPrimaryIP)
}

func getPrimaryIP(c *Cloud, r request) (any, *refusal) {
	return one("primary_ip", c.addresses(), r.id, aboutPrimaryIP)
}

func (c *Cloud) addresses() (all []schema.PrimaryIP) {
	for _, id := range slices.Sorted(maps.Keys(c.primaryIPs)) {
		all = append(all, *c.primaryIPs[id])
	}
	return all
}
