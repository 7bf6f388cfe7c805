// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstackfake

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

func neutronError(status int, kind, message string) *refusal {
	return &refusal{status, object{"NeutronError": object{"type": kind, "message": message, "detail": ""}}}
}

func (c *Cloud) neutron() {
	const root = "/network/v2.0"
	for _, kind := range []string{"networks", "subnets", "security-groups", "ports", "floatingips"} {
		of := strings.ReplaceAll(kind, "-", "_")
		c.handle("GET "+root+"/"+kind, http.StatusOK, func(r call) (object, *refusal) {
			return c.page(r.Request, c.list(kind, fits(r.URL.Query())), of), nil
		})
	}
	for _, kind := range []string{"ports", "floatingips"} {
		c.handle("DELETE "+root+"/"+kind+"/{id}", http.StatusNoContent, func(r call) (object, *refusal) {
			if c.things[kind][r.PathValue("id")] == nil {
				return nil, neutronError(http.StatusNotFound, "NotFound", "it could not be found")
			}
			delete(c.things[kind], r.PathValue("id"))
			return nil, nil
		})
		c.handle("PUT "+root+"/"+kind+"/{id}", http.StatusOK, func(r call) (object, *refusal) { return c.update(kind, r) })
		c.handle("PUT "+root+"/"+kind+"/{id}/tags", http.StatusOK, func(r call) (object, *refusal) {
			known := c.things[kind][r.PathValue("id")]
			if known == nil {
				return nil, neutronError(http.StatusNotFound, "TagResourceNotFound", "it could not be found")
			}
			known["tags"] = words(r.body["tags"])
			c.countRevision(known)
			return object{"tags": known["tags"]}, nil
		})
	}
	c.handle("POST "+root+"/ports", http.StatusCreated, c.port)
	c.handle("POST "+root+"/floatingips", http.StatusCreated, c.floatingIP)
}

// fits filters by the fields that a query names, any of the values of each.
func fits(query url.Values) func(object) bool {
	return func(o object) bool {
		for field, values := range query {
			switch field {
			case "limit", "marker":
			case "tags":
				tags, _ := o["tags"].([]string)
				if !slices.Contains(tags, values[0]) {
					return false
				}
			default:
				if !slices.Contains(values, fmt.Sprint(o[field])) {
					return false
				}
			}
		}
		return true
	}
}

// update changes a resource.
func (c *Cloud) update(kind string, r call) (object, *refusal) {
	known := c.things[kind][r.PathValue("id")]
	if known == nil {
		return nil, neutronError(http.StatusNotFound, "NotFound", "it could not be found")
	}
	name := strings.TrimSuffix(kind, "s")
	for field, value := range r.body[name].(object) {
		known[field] = value
	}
	c.countRevision(known)
	return object{name: known}, nil
}

// countRevision counts a change.
func (c *Cloud) countRevision(known object) {
	revision, _ := known["revision_number"].(int)
	known["revision_number"], known["updated_at"] = revision+1, timestamp()
}

func (c *Cloud) port(r call) (object, *refusal) {
	requested := r.body["port"].(object)
	created := object{"device_id": "", "device_owner": "", "status": "DOWN", "tags": []string{}, "created_at": timestamp(), "description": ""}
	for field, value := range requested {
		created[field] = value
	}
	network, _ := requested["network_id"].(string)
	if c.things["networks"][network] == nil {
		return nil, neutronError(http.StatusNotFound, "NetworkNotFound", "Network "+network+" could not be found.")
	}
	pairs, _ := requested["allowed_address_pairs"].([]any)
	for _, pair := range pairs {
		address := fmt.Sprint(pair.(object)["ip_address"])
		_, notRange := netip.ParsePrefix(address)
		if _, err := netip.ParseAddr(address); err != nil && notRange != nil {
			return nil, neutronError(http.StatusBadRequest, "HTTPBadRequest", "Invalid input for allowed_address_pairs. Reason: '"+address+"' is not a valid IP address.")
		}
	}
	fixed, _ := requested["fixed_ips"].([]any)
	if fixed == nil {
		for _, subnet := range c.list("subnets", func(o object) bool { return o["network_id"] == network }) {
			fixed = append(fixed, object{"subnet_id": subnet["id"]})
		}
	}
	var addresses []object
	for _, wanted := range fixed {
		subnet := c.things["subnets"][fmt.Sprint(wanted.(object)["subnet_id"])]
		if subnet == nil {
			return nil, neutronError(http.StatusNotFound, "SubnetNotFound", "Subnet could not be found.")
		}
		address, _ := wanted.(object)["ip_address"].(string)
		if address == "" {
			address = c.address4(subnet)
		}
		addresses = append(addresses, object{"subnet_id": subnet["id"], "ip_address": address})
	}
	created["fixed_ips"] = addresses
	c.countRevision(c.put("ports", created))
	return object{"port": created}, nil
}

// address4 returns a new address of a subnet.
func (c *Cloud) address4(subnet object) string {
	c.serial++
	prefix := netip.MustParsePrefix(subnet["cidr"].(string))
	bytes := prefix.Addr().AsSlice()
	bytes[len(bytes)-1], bytes[len(bytes)-2] = byte(c.serial), bytes[len(bytes)-2]+byte(c.serial>>8)
	address, _ := netip.AddrFromSlice(bytes)
	return address.String()
}

func (c *Cloud) floatingIP(r call) (object, *refusal) {
	requested := r.body["floatingip"].(object)
	network := c.things["networks"][fmt.Sprint(requested["floating_network_id"])]
	if network == nil || network["router:external"] != true {
		return nil, neutronError(http.StatusBadRequest, "BadRequest", "Bad floatingip request: Network is not a valid external network.")
	}
	if c.things["ports"][fmt.Sprint(requested["port_id"])] == nil {
		return nil, neutronError(http.StatusNotFound, "PortNotFound", "Port could not be found.")
	}
	c.serial++
	created := object{"tags": []string{}, "created_at": timestamp(), "floating_ip_address": fmt.Sprintf("203.0.113.%d", c.serial%250+1), "router_id": "r", "status": "ACTIVE"}
	for field, value := range requested {
		created[field] = value
	}
	c.countRevision(c.put("floatingips", created))
	return object{"floatingip": created}, nil
}

// addressesOf returns the addresses of a port in Nova's form, in another order than requested.
func (c *Cloud) addressesOf(port object) (all []object) {
	add := func(address any, kind string) {
		version := 4
		if strings.Contains(fmt.Sprint(address), ":") {
			version = 6
		}
		all = append(all, object{"addr": address, "version": version, "OS-EXT-IPS:type": kind, "OS-EXT-IPS-MAC:mac_addr": mac(port)})
	}
	for _, fixed := range slices.Backward(port["fixed_ips"].([]object)) {
		add(fixed["ip_address"], "fixed")
	}
	for _, address := range c.things["floatingips"] {
		if address["port_id"] == port["id"] {
			add(address["floating_ip_address"], "floating")
		}
	}
	return all
}

func mac(port object) string {
	id := port["id"].(string)
	end := id[len(id)-6:]
	return fmt.Sprintf("fa:16:3e:%s:%s:%s", end[:2], end[2:4], end[4:])
}
