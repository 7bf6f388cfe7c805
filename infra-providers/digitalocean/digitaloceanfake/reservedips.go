// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitaloceanfake

import (
	"fmt"
	"maps"
	"slices"
)

func (c *Cloud) renderReservedIP(of *reservedIP) object {
	found := object{"ip": of.IP, "locked": false, "droplet": nil, "project_id": "746c6152-2fa2-11ed-92d3-27aaa54e4988"}
	if holder := c.droplets[of.Droplet]; holder != nil {
		found["droplet"] = c.render(holder)
	}
	for _, known := range c.regions {
		if known.Slug == of.Region {
			found["region"] = c.renderRegion(known)
		}
	}
	return found
}

func listReservedIPs(c *Cloud, r request) (any, *refusal) {
	var all []*reservedIP
	for _, address := range slices.Sorted(maps.Keys(c.reservedIPs)) {
		all = append(all, c.reservedIPs[address])
	}
	return page(r, "reserved_ips", all, c.renderReservedIP), nil
}

// createReservedIP assigns a new address to a Droplet, which is an action of it.
func createReservedIP(c *Cloud, r request) (any, *refusal) {
	body := decode[struct {
		Droplet int `json:"droplet_id"`
	}](r)
	holder := c.droplets[body.Droplet]
	switch {
	case holder == nil:
		return nil, notFound()
	case holder.Status == "new" || holder.locked():
		return nil, pendingEvent()
	case len(c.reservedIPs) >= c.ipLimit:
		return nil, unprocessable("reserved IP limit exceeded")
	}
	for _, known := range c.reservedIPs {
		if known.Droplet == body.Droplet {
			return nil, unprocessable("The Droplet already has a reserved IP.")
		}
	}
	n := newID()
	created := &reservedIP{IP: fmt.Sprintf("45.55.%d.%d", n/250%250, n%250), Region: holder.Region, Droplet: holder.ID}
	c.reservedIPs[created.IP] = created
	c.start(holder, "")
	return object{"reserved_ip": c.renderReservedIP(created)}, nil
}

func getReservedIP(c *Cloud, r request) (any, *refusal) {
	found := c.reservedIPs[r.id]
	if found == nil {
		return nil, notFound()
	}
	return object{"reserved_ip": c.renderReservedIP(found)}, nil
}

func deleteReservedIP(c *Cloud, r request) (any, *refusal) {
	if c.reservedIPs[r.id] == nil {
		return nil, notFound()
	}
	delete(c.reservedIPs, r.id)
	return nil, nil
}

// AssignReservedIP assigns an address that no Droplet has to the Droplet of a name, as another client of the team would.
func (c *Cloud) AssignReservedIP(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, address := range slices.Sorted(maps.Keys(c.reservedIPs)) {
		for _, holder := range c.sorted() {
			if ip := c.reservedIPs[address]; ip.Droplet == 0 && holder.Name == name {
				ip.Droplet = holder.ID
				return address
			}
		}
	}
	return ""
}

// SwapReservedIP assigns another address to a Droplet instead of its own, as an operator would.
func (c *Cloud) SwapReservedIP(id int, address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ip := range c.reservedIPs {
		if ip.Droplet == id {
			ip.Droplet = 0
		}
	}
	c.reservedIPs[address] = &reservedIP{IP: address, Region: c.droplets[id].Region, Droplet: id}
}
