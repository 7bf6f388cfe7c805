// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstackfake

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/metal-stack/metal-go/api/models"
)

// acquire returns the lowest free address of a prefix, or nil.
func (c *Cloud) acquire(network string, prefix netip.Prefix) *address {
	at := prefix.Addr().Next()
	for n := 0; n < 1<<12 && prefix.Contains(at.Next()); n++ { // the last one is the broadcast address
		if c.ips[at] == nil {
			ip := &address{Address: at, UUID: c.uuid(), Network: network, Created: c.options.Now()}
			c.ips[at] = ip
			return ip
		}
		at = at.Next()
	}
	return nil
}

func allocateIP(c *Cloud, r request) (any, *refusal) {
	body := decode[models.V1IPAllocateRequest](r)
	of, ok := networks[*body.Networkid]
	switch {
	case !ok:
		return nil, notFound("network", *body.Networkid)
	case of.parent != "" && of.project != *body.Projectid && !of.shared:
		return nil, unprocessable("can not allocate ip for project %q because network belongs to %q and the network is not shared", *body.Projectid, of.project)
	}
	for _, prefix := range of.prefixes {
		if prefix.Addr().Is4() == (body.Addressfamily == models.V1IPAllocateRequestAddressfamilyIPV6) {
			continue
		}
		if ip := c.acquire(*body.Networkid, prefix); ip != nil {
			ip.Name, ip.Text, ip.Project, ip.Type, ip.Tags = body.Name, body.Description, *body.Projectid, *body.Type, body.Tags
			return renderIP(ip), nil
		}
		return nil, &refusal{http.StatusInternalServerError, "Internal cannot allocate free ip in ipam, no ips left"}
	}
	return nil, badRequest("there is no prefix for the given addressfamily:%s present in network:%s", body.Addressfamily, *body.Networkid)
}

func (c *Cloud) ip(text string) *address {
	parsed, err := netip.ParseAddr(text)
	if err != nil {
		return nil
	}
	return c.ips[parsed]
}

func findIP(c *Cloud, r request) (any, *refusal) {
	ip := c.ip(r.id)
	if ip == nil {
		return nil, notFound("ip", r.id)
	}
	return renderIP(ip), nil
}

func findIPs(c *Cloud, r request) (any, *refusal) {
	query := decode[models.V1IPFindRequest](r)
	found := []*models.V1IPResponse{}
	for _, ip := range c.ips {
		if (query.Projectid == "" || ip.Project == query.Projectid) && hasAll(ip.Tags, query.Tags) {
			found = append(found, renderIP(ip))
		}
	}
	slices.SortFunc(found, func(a, b *models.V1IPResponse) int { return strings.Compare(*a.Ipaddress, *b.Ipaddress) })
	return found, nil
}

func freeIP(c *Cloud, r request) (any, *refusal) {
	ip := c.ip(r.id)
	switch {
	case ip == nil:
		return nil, notFound("ip", r.id)
	case len(ip.machineIDs()) > 0:
		return nil, badRequest("ip with machine scope can not be deleted")
	}
	delete(c.ips, ip.Address)
	return renderIP(ip), nil
}

func updateIP(c *Cloud, r request) (any, *refusal) {
	body := decode[models.V1IPUpdateRequest](r)
	ip := c.ip(*body.Ipaddress)
	switch {
	case ip == nil:
		return nil, notFound("ip", *body.Ipaddress)
	case ip.Type == "static" && *body.Type == "ephemeral":
		return nil, badRequest("cannot change type of ip address from static to ephemeral")
	}
	ip.Name, ip.Text, ip.Type, ip.Tags = body.Name, body.Description, *body.Type, body.Tags
	return renderIP(ip), nil
}

func renderIP(ip *address) *models.V1IPResponse {
	text := ip.Address.String()
	return &models.V1IPResponse{
		Allocationuuid: &ip.UUID, Created: strfmt.DateTime(ip.Created), Changed: strfmt.DateTime(ip.Created), Description: ip.Text, Ipaddress: &text, Name: ip.Name,
		Networkid: &ip.Network, Projectid: &ip.Project, Tags: append([]string{}, ip.Tags...), Type: &ip.Type,
	}
}
