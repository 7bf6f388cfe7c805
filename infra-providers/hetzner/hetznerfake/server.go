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
	var asked schema.ServerCreateRequest
	if err := json.Unmarshal(r.body, &asked); err != nil {
		return nil, &refusal{status: http.StatusBadRequest, code: "json_error", message: err.Error()}
	}
	made := &server{UserData: asked.UserData, SSHKeys: asked.SSHKeys}
	// In which order the cloud checks is not known; with volumes before the name a repeated order has it hardest.
	for _, step := range []func(*server, schema.ServerCreateRequest) *refusal{c.build, c.store, c.name, c.connect, c.address} {
		if denied := step(made, asked); denied != nil {
			return nil, denied
		}
	}
	made.ID, made.Created = newID(), time.Now().Truncate(time.Second)
	c.servers[made.ID] = made
	c.assign(made, asked)
	made.hidden, c.faults.hiding = c.faults.hiding, false
	then := "running"
	if !ptr.Deref(asked.StartAfterCreate, true) {
		then = "off"
	}
	action := c.work(made, "create_server", "initializing", then)
	return schema.ServerCreateResponse{Server: made.Server, Action: action}, nil
}

func (c *Cloud) name(made *server, asked schema.ServerCreateRequest) *refusal {
	if !hostname.MatchString(asked.Name) {
		return badInput("name", "is not a valid hostname")
	}
	for _, other := range c.servers {
		if other.Name == asked.Name {
			return &refusal{status: http.StatusConflict, code: "uniqueness_error", message: "server name is already used", field: "name"}
		}
	}
	if len(asked.UserData) > 32<<10 {
		return badInput("user_data", "is too long")
	}
	made.Name, made.Labels = asked.Name, ptr.Deref(asked.Labels, nil)
	return checkLabels(made.Labels)
}

func checkLabels(labels map[string]string) *refusal {
	for key, value := range labels {
		if len(validation.IsQualifiedName(key))+len(validation.IsValidLabelValue(value)) > 0 {
			return badInput("labels", fmt.Sprintf("%q=%q is not allowed", key, value))
		}
	}
	return nil
}

func (c *Cloud) build(made *server, asked schema.ServerCreateRequest) *refusal {
	kind := slices.IndexFunc(c.serverTypes, func(t schema.ServerType) bool {
		return t.ID == asked.ServerType.ID || t.Name == asked.ServerType.Name
	})
	if kind < 0 {
		return badInput("server_type", "does not exist")
	}
	image := slices.IndexFunc(c.images, func(i schema.Image) bool { return i.ID == asked.Image.ID })
	if image < 0 {
		return badInput("image", "does not exist")
	}
	made.ServerType, made.Image = c.serverTypes[kind], &c.images[image]
	if made.Image.Architecture != made.ServerType.Architecture {
		return badInput("image", "has another architecture than the server type")
	}
	place := slices.IndexFunc(c.locations, func(l schema.Location) bool { return asked.Location == "" || l.Name == asked.Location })
	if place < 0 {
		return badInput("location", "does not exist")
	}
	made.Location = c.locations[place]
	return nil
}

func (c *Cloud) connect(made *server, asked schema.ServerCreateRequest) *refusal {
	for _, id := range asked.SSHKeys {
		if !slices.ContainsFunc(c.sshKeys, func(k schema.SSHKey) bool { return k.ID == id }) {
			return notFound("ssh key")
		}
	}
	for _, wanted := range asked.Firewalls {
		if !slices.ContainsFunc(c.firewalls, func(f schema.Firewall) bool { return f.ID == wanted.Firewall }) {
			return notFound("firewall")
		}
		made.Firewalls = append(made.Firewalls, wanted.Firewall)
		made.PublicNet.Firewalls = append(made.PublicNet.Firewalls, schema.ServerFirewall{ID: wanted.Firewall, Status: "applied"})
	}
	for _, id := range asked.Networks {
		if denied := c.join(made, schema.ServerActionAttachToNetworkRequest{Network: id}); denied != nil {
			return denied
		}
	}
	if asked.PlacementGroup == 0 {
		return nil
	}
	group := slices.IndexFunc(c.placementGroups, func(g *schema.PlacementGroup) bool { return g.ID == asked.PlacementGroup })
	switch {
	case group < 0:
		return notFound("placement group")
	case len(c.placementGroups[group].Servers) >= 10:
		return &refusal{status: http.StatusConflict, code: "placement_error", message: "the placement group is full"}
	}
	made.PlacementGroup = c.placementGroups[group]
	return nil
}

// address checks what is wanted of the public network.
func (c *Cloud) address(_ *server, asked schema.ServerCreateRequest) *refusal {
	public := ptr.Deref(asked.PublicNet, schema.ServerCreatePublicNet{EnableIPv4: true, EnableIPv6: true})
	if !public.EnableIPv4 && !public.EnableIPv6 && len(asked.Networks) == 0 && ptr.Deref(asked.StartAfterCreate, true) {
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
		case asked.Location != "" && ip.Location.Name != asked.Location:
			return &refusal{status: http.StatusUnprocessableEntity, code: "primary_ip_datacenter_mismatch", message: "wrong location"}
		}
	}
	return nil
}

func (c *Cloud) store(made *server, asked schema.ServerCreateRequest) *refusal {
	for _, id := range asked.Volumes {
		wanted := c.volumes[id]
		switch {
		case wanted == nil:
			return notFound("volume")
		case wanted.busy > 0:
			return locked()
		case wanted.Server != nil:
			return &refusal{status: http.StatusConflict, code: "volume_already_attached", message: "volume is attached"}
		case wanted.Location.Name != made.Location.Name:
			return badInput("volumes", "are in another location")
		}
	}
	return nil
}

// assign gives a new server what was checked before.
func (c *Cloud) assign(made *server, asked schema.ServerCreateRequest) {
	for _, id := range asked.Volumes {
		c.volumes[id].Server, c.volumes[id].Automount = &made.ID, ptr.Deref(asked.Automount, false)
		made.Volumes = append(made.Volumes, id)
	}
	if made.PlacementGroup != nil {
		made.PlacementGroup.Servers = append(made.PlacementGroup.Servers, made.ID)
	}
	public := ptr.Deref(asked.PublicNet, schema.ServerCreatePublicNet{EnableIPv4: true, EnableIPv6: true})
	if public.EnableIPv4 {
		ip := c.primary(made, public.IPv4ID, "ipv4", fmt.Sprintf("203.0.113.%d", made.ID%250+1))
		made.PublicNet.IPv4 = schema.ServerPublicNetIPv4{ID: ip.ID, IP: ip.IP}
	}
	if public.EnableIPv6 {
		ip := c.primary(made, public.IPv6ID, "ipv6", fmt.Sprintf("2001:db8:%x::/64", made.ID))
		made.PublicNet.IPv6 = schema.ServerPublicNetIPv6{ID: ip.ID, IP: ip.IP}
	}
}

// primary returns the Primary IP that a server asked for, or a new one.
func (c *Cloud) primary(made *server, id int64, kind, address string) *schema.PrimaryIP {
	ip := c.primaryIPs[id]
	if ip == nil {
		ip = &schema.PrimaryIP{ID: newID(), Type: kind, IP: address, AutoDelete: true, AssigneeType: "server", Created: time.Now(), Location: made.Location}
		ip.Name = fmt.Sprintf("primary_ip-%d", ip.ID)
		c.primaryIPs[ip.ID] = ip
	}
	ip.AssigneeID = &made.ID
	return ip
}

// join puts a server into a network.
func (c *Cloud) join(made *server, asked schema.ServerActionAttachToNetworkRequest) *refusal {
	at := slices.IndexFunc(c.networks, func(n schema.Network) bool { return n.ID == asked.Network })
	if at < 0 {
		return notFound("network")
	}
	if slices.ContainsFunc(made.PrivateNet, func(n schema.ServerPrivateNet) bool { return n.Network == asked.Network }) {
		return &refusal{status: http.StatusConflict, code: "server_already_attached", message: "server is attached"}
	}
	subnet := ptr.Deref(asked.IPRange, c.networks[at].Subnets[0].IPRange)
	if !slices.ContainsFunc(c.networks[at].Subnets, func(s schema.NetworkSubnet) bool { return s.IPRange == subnet }) {
		return badInput("ip_range", "is not a subnet of the network")
	}
	address := ptr.Deref(asked.IP, "")
	for next := netip.MustParsePrefix(subnet).Addr().Next().Next(); address == ""; next = next.Next() {
		if !c.used(next.String()) {
			address = next.String()
		}
	}
	if c.used(address) && asked.IP != nil {
		return &refusal{status: http.StatusConflict, code: "ip_not_available", message: "ip is in use"}
	}
	joined := schema.ServerPrivateNet{Network: asked.Network, IP: address, AliasIPs: []string{}}
	for _, alias := range asked.AliasIPs {
		joined.AliasIPs = append(joined.AliasIPs, *alias)
	}
	made.PrivateNet = append(made.PrivateNet, joined)
	return nil
}

func (c *Cloud) used(address string) bool {
	for _, other := range c.servers {
		for _, net := range other.PrivateNet {
			if net.IP == address || slices.Contains(net.AliasIPs, address) {
				return true
			}
		}
	}
	return false
}

// idle returns a server that can be worked on.
func (c *Cloud) idle(id int64) (*server, *refusal) {
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
	found, denied := c.idle(r.id)
	if denied != nil {
		return nil, denied
	}
	if found.Protection.Delete {
		return nil, &refusal{status: http.StatusLocked, code: "protected", message: "server is protected"}
	}
	return schema.ServerDeleteResponse{Action: c.work(found, "delete_server", "deleting", "gone")}, nil
}

func attachToNetwork(c *Cloud, r request) (any, *refusal) {
	var asked schema.ServerActionAttachToNetworkRequest
	if err := json.Unmarshal(r.body, &asked); err != nil {
		return nil, &refusal{status: http.StatusBadRequest, code: "json_error", message: err.Error()}
	}
	found, denied := c.idle(r.id)
	if denied != nil {
		return nil, denied
	}
	if denied := c.join(found, asked); denied != nil {
		return nil, denied
	}
	return schema.ServerActionAttachToNetworkResponse{Action: c.work(found, "attach_to_network", "", "")}, nil
}

func enableBackup(c *Cloud, r request) (any, *refusal) {
	found, denied := c.idle(r.id)
	if denied != nil {
		return nil, denied
	}
	found.BackupWindow = ptr.To("22-02")
	return schema.ServerActionEnableBackupResponse{Action: c.work(found, "enable_backup", "", "")}, nil
}

func powerOn(c *Cloud, r request) (any, *refusal) {
	found, denied := c.idle(r.id)
	if denied != nil {
		return nil, denied
	}
	return schema.ServerActionPoweronResponse{Action: c.work(found, "start_server", "starting", "running")}, nil
}

// reset pulls the plug of a server and puts it back, so one that was off is on afterwards.
func reset(c *Cloud, r request) (any, *refusal) {
	found, denied := c.idle(r.id)
	if denied != nil {
		return nil, denied
	}
	c.resets++
	return schema.ServerActionResetResponse{Action: c.work(found, "reset_server", "", "running")}, nil
}
