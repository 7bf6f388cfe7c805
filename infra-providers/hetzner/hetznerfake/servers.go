// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetznerfake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
)

var hostname = regexp.MustCompile(`^[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)*$`)

func createServer(c *Cloud, r request) (any, *refusal) {
	var requested schema.ServerCreateRequest
	if err := json.Unmarshal(r.body, &requested); err != nil {
		return nil, &refusal{status: http.StatusBadRequest, code: "json_error", message: err.Error()}
	}
	created := &server{UserData: requested.UserData, SSHKeys: requested.SSHKeys}
	// The order of the cloud's checks is unknown. Volumes before the name is the worst case for a repeated request.
	for _, step := range []func(*server, schema.ServerCreateRequest) *refusal{c.build, c.store, c.name, c.connect, c.validatePublicNet} {
		if refused := step(created, requested); refused != nil {
			return nil, refused
		}
	}
	created.ID, created.Created = newID(), time.Now().Truncate(time.Second)
	c.servers[created.ID] = created
	c.assign(created, requested)
	created.hidden, c.faults.hiding = c.faults.hiding, false
	then := "running"
	if !ptr.Deref(requested.StartAfterCreate, true) {
		then = "off"
	}
	action := c.startAction(created, "create_server", "initializing", then)
	return schema.ServerCreateResponse{Server: created.Server, Action: action}, nil
}

func (c *Cloud) name(created *server, requested schema.ServerCreateRequest) *refusal {
	if !hostname.MatchString(requested.Name) {
		return badInput("name", "is not a valid hostname")
	}
	for _, other := range c.servers {
		if other.Name == requested.Name {
			return &refusal{status: http.StatusConflict, code: "uniqueness_error", message: "server name is already used", field: "name"}
		}
	}
	if len(requested.UserData) > 32<<10 {
		return badInput("user_data", "is too long")
	}
	created.Name, created.Labels = requested.Name, ptr.Deref(requested.Labels, nil)
	return checkLabels(created.Labels)
}

func checkLabels(labels map[string]string) *refusal {
	for key, value := range labels {
		if len(validation.IsQualifiedName(key))+len(validation.IsValidLabelValue(value)) > 0 {
			return badInput("labels", fmt.Sprintf("%q=%q is not allowed", key, value))
		}
	}
	return nil
}

func (c *Cloud) build(created *server, requested schema.ServerCreateRequest) *refusal {
	kind := slices.IndexFunc(c.serverTypes, func(t schema.ServerType) bool {
		return t.ID == requested.ServerType.ID || t.Name == requested.ServerType.Name
	})
	if kind < 0 {
		return badInput("server_type", "does not exist")
	}
	image := slices.IndexFunc(c.images, func(i schema.Image) bool { return i.ID == requested.Image.ID })
	if image < 0 {
		return badInput("image", "does not exist")
	}
	created.ServerType, created.Image = c.serverTypes[kind], &c.images[image]
	if created.Image.Architecture != created.ServerType.Architecture {
		return badInput("image", "has another architecture than the server type")
	}
	place := slices.IndexFunc(c.locations, func(l schema.Location) bool { return requested.Location == "" || l.Name == requested.Location })
	if place < 0 {
		return badInput("location", "does not exist")
	}
	created.Location = c.locations[place]
	return nil
}

func (c *Cloud) connect(created *server, requested schema.ServerCreateRequest) *refusal {
	for _, id := range requested.SSHKeys {
		if !slices.ContainsFunc(c.sshKeys, func(k schema.SSHKey) bool { return k.ID == id }) {
			return notFound("ssh key")
		}
	}
	for _, wanted := range requested.Firewalls {
		if !slices.ContainsFunc(c.firewalls, func(f schema.Firewall) bool { return f.ID == wanted.Firewall }) {
			return notFound("firewall")
		}
		created.Firewalls = append(created.Firewalls, wanted.Firewall)
		created.PublicNet.Firewalls = append(created.PublicNet.Firewalls, schema.ServerFirewall{ID: wanted.Firewall, Status: "applied"})
	}
	for _, id := range requested.Networks {
		if refused := c.attachNetwork(created, schema.ServerActionAttachToNetworkRequest{Network: id}); refused != nil {
			return refused
		}
	}
	if requested.PlacementGroup == 0 {
		return nil
	}
	group := slices.IndexFunc(c.placementGroups, func(g *schema.PlacementGroup) bool { return g.ID == requested.PlacementGroup })
	switch {
	case group < 0:
		return notFound("placement group")
	case len(c.placementGroups[group].Servers) >= 10:
		return &refusal{status: http.StatusConflict, code: "placement_error", message: "the placement group is full"}
	}
	created.PlacementGroup = c.placementGroups[group]
	return nil
}

// validatePublicNet checks the parameters of the public network.
func (c *Cloud) validatePublicNet(_ *server, requested schema.ServerCreateRequest) *refusal {
	public := ptr.Deref(requested.PublicNet, schema.ServerCreatePublicNet{EnableIPv4: true, EnableIPv6: true})
	if !public.EnableIPv4 && !public.EnableIPv6 && len(requested.Networks) == 0 && ptr.Deref(requested.StartAfterCreate, true) {
		return badInput("public_net", "a server that starts needs a network")
	}
	for kind, id := range map[string]int64{"ipv4": public.IPv4ID, "ipv6": public.IPv6ID} {
		ip := c.primaryIPs[id]
		switch {
		case id == 0:
		case ip == nil:
			return notFound("primary ip")
		case ip.AssigneeID != nil:
			return &refusal{status: http.StatusConflict, code: "primary_ip_assigned", message: "primary ip is assigned"}
		case ip.Type != kind:
			return &refusal{status: http.StatusUnprocessableEntity, code: "primary_ip_version_mismatch", message: "wrong version"}
		case requested.Location != "" && ip.Location.Name != requested.Location:
			return &refusal{status: http.StatusUnprocessableEntity, code: "primary_ip_datacenter_mismatch", message: "wrong location"}
		}
	}
	return nil
}

func (c *Cloud) store(created *server, requested schema.ServerCreateRequest) *refusal {
	for _, id := range requested.Volumes {
		wanted := c.volumes[id]
		switch {
		case wanted == nil:
			return notFound("volume")
		case wanted.busy > 0:
			return locked()
		case wanted.Server != nil:
			return &refusal{status: http.StatusConflict, code: "volume_already_attached", message: "volume is attached"}
		case wanted.Location.Name != created.Location.Name:
			return badInput("volumes", "are in another location")
		}
	}
	return nil
}

// assign assigns the checked parameters to a new server.
func (c *Cloud) assign(created *server, requested schema.ServerCreateRequest) {
	for _, id := range requested.Volumes {
		c.volumes[id].Server, c.volumes[id].Automount = &created.ID, ptr.Deref(requested.Automount, false)
		created.Volumes = append(created.Volumes, id)
	}
	if created.PlacementGroup != nil {
		created.PlacementGroup.Servers = append(created.PlacementGroup.Servers, created.ID)
	}
	public := ptr.Deref(requested.PublicNet, schema.ServerCreatePublicNet{EnableIPv4: true, EnableIPv6: true})
	if public.EnableIPv4 {
		ip := c.primaryIP(created, public.IPv4ID, "ipv4", fmt.Sprintf("203.0.113.%d", created.ID%250+1))
		created.PublicNet.IPv4 = schema.ServerPublicNetIPv4{ID: ip.ID, IP: ip.IP}
	}
	if public.EnableIPv6 {
		ip := c.primaryIP(created, public.IPv6ID, "ipv6", fmt.Sprintf("2001:db8:%x::/64", created.ID))
		created.PublicNet.IPv6 = schema.ServerPublicNetIPv6{ID: ip.ID, IP: ip.IP}
	}
}

// primaryIP returns the Primary IP of the request, or a new one.
func (c *Cloud) primaryIP(created *server, id int64, kind, address string) *schema.PrimaryIP {
	ip := c.primaryIPs[id]
	if ip == nil {
		ip = &schema.PrimaryIP{ID: newID(), Type: kind, IP: address, AutoDelete: true, AssigneeType: "server", Created: time.Now(), Location: created.Location}
		ip.Name = fmt.Sprintf("primary_ip-%d", ip.ID)
		c.primaryIPs[ip.ID] = ip
	}
	ip.AssigneeID = &created.ID
	return ip
}

// attachNetwork attaches a server to a network.
func (c *Cloud) attachNetwork(created *server, requested schema.ServerActionAttachToNetworkRequest) *refusal {
	at := slices.IndexFunc(c.networks, func(n schema.Network) bool { return n.ID == requested.Network })
	if at < 0 {
		return notFound("network")
	}
	if slices.ContainsFunc(created.PrivateNet, func(n schema.ServerPrivateNet) bool { return n.Network == requested.Network }) {
		return &refusal{status: http.StatusConflict, code: "server_already_attached", message: "server is attached"}
	}
	subnet := ptr.Deref(requested.IPRange, c.networks[at].Subnets[0].IPRange)
	if !slices.ContainsFunc(c.networks[at].Subnets, func(s schema.NetworkSubnet) bool { return s.IPRange == subnet }) {
		return badInput("ip_range", "is not a subnet of the network")
	}
	address := ptr.Deref(requested.IP, "")
	for next := netip.MustParsePrefix(subnet).Addr().Next().Next(); address == ""; next = next.Next() {
		if !c.isUsed(next.String()) {
			address = next.String()
		}
	}
	if c.isUsed(address) && requested.IP != nil {
		return &refusal{status: http.StatusConflict, code: "ip_not_available", message: "ip is in use"}
	}
	joined := schema.ServerPrivateNet{Network: requested.Network, IP: address, AliasIPs: []string{}}
	for _, alias := range requested.AliasIPs {
		joined.AliasIPs = append(joined.AliasIPs, *alias)
	}
	created.PrivateNet = append(created.PrivateNet, joined)
	return nil
}

func (c *Cloud) isUsed(address string) bool {
	for _, other := range c.servers {
		for _, net := range other.PrivateNet {
			if net.IP == address || slices.Contains(net.AliasIPs, address) {
				return true
			}
		}
	}
	return false
}

// unlockedServer returns a server that is not locked.
func (c *Cloud) unlockedServer(id int64) (*server, *refusal) {
	switch found := c.servers[id]; {
	case found == nil:
		return nil, notFound("server")
	case found.busy > 0:
		return nil, locked()
	default:
		return found, nil
	}
}

func deleteServer(c *Cloud, r request) (any, *refusal) {
	found, refused := c.unlockedServer(r.id)
	if refused != nil {
		return nil, refused
	}
	if found.Protection.Delete {
		return nil, &refusal{status: http.StatusLocked, code: "protected", message: "server is protected"}
	}
	return schema.ServerDeleteResponse{Action: c.startAction(found, "delete_server", "deleting", "deleted")}, nil
}

func attachToNetwork(c *Cloud, r request) (any, *refusal) {
	var requested schema.ServerActionAttachToNetworkRequest
	if err := json.Unmarshal(r.body, &requested); err != nil {
		return nil, &refusal{status: http.StatusBadRequest, code: "json_error", message: err.Error()}
	}
	found, refused := c.unlockedServer(r.id)
	if refused != nil {
		return nil, refused
	}
	if refused := c.attachNetwork(found, requested); refused != nil {
		return nil, refused
	}
	return schema.ServerActionAttachToNetworkResponse{Action: c.startAction(found, "attach_to_network", "", "")}, nil
}

func enableBackup(c *Cloud, r request) (any, *refusal) {
	found, refused := c.unlockedServer(r.id)
	if refused != nil {
		return nil, refused
	}
	found.BackupWindow = ptr.To("22-02")
	return schema.ServerActionEnableBackupResponse{Action: c.startAction(found, "enable_backup", "", "")}, nil
}

func powerOn(c *Cloud, r request) (any, *refusal) {
	found, refused := c.unlockedServer(r.id)
	if refused != nil {
		return nil, refused
	}
	return schema.ServerActionPoweronResponse{Action: c.startAction(found, "start_server", "starting", "running")}, nil
}

// reset resets a server. A server that was off is on afterwards.
func reset(c *Cloud, r request) (any, *refusal) {
	found, refused := c.unlockedServer(r.id)
	if refused != nil {
		return nil, refused
	}
	c.resets++
	return schema.ServerActionResetResponse{Action: c.startAction(found, "reset_server", "", "running")}, nil
}
