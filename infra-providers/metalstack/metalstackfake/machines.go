// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metalstackfake

import (
	"cmp"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/go-openapi/strfmt"
	"github.com/metal-stack/metal-go/api/models"
	"k8s.io/utils/ptr"
)

func findMachine(c *Cloud, r request) (any, *refusal) {
	m := c.machine(r.id)
	if m == nil {
		return nil, notFound("machine", r.id)
	}
	return c.render(m), nil
}

func findMachines(c *Cloud, r request) (any, *refusal) {
	query := decode[models.V1MachineFindRequest](r)
	found := []*models.V1MachineResponse{}
	for _, m := range c.machines {
		if query.AllocationProject != "" && (m.allocation == nil || m.allocation.project != query.AllocationProject) ||
			query.AllocationRole != "" && (m.allocation == nil || m.allocation.role != query.AllocationRole) ||
			query.ID != "" && m.ID != query.ID {
			continue
		}
		rendered := c.render(m)
		if hasAll(rendered.Tags, query.Tags) {
			found = append(found, rendered)
		}
	}
	return found, nil
}

func hasAll(tags, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(tag string) bool { return !slices.Contains(tags, tag) })
}

// allocateMachine checks in the order of the metal-api, and undoes what it did before a refusal.
func allocateMachine(c *Cloud, r request) (any, *refusal) {
	body := decode[models.V1MachineAllocateRequest](r)
	resolved, refused := c.checkSpec(body)
	if refused != nil {
		return nil, refused
	}
	if *body.Projectid != Project && *body.Projectid != OtherProject {
		return nil, notFound("project", *body.Projectid)
	}
	full, soldOut := c.faults.shortageOfAllocation()
	c.quota = 0
	if full {
		c.quota = 1
	}
	if c.quota > 0 && c.countRole("firewall") >= int(c.quota) {
		return nil, unprocessable("project quota for machines reached max:%d", c.quota)
	}
	if body.Filesystemlayoutid != "" && body.Filesystemlayoutid != Layout {
		return nil, notFound("filesystemlayout", body.Filesystemlayoutid)
	}
	candidate := c.candidate(*body.Partitionid, *body.Sizeid, body.PlacementTags)
	if candidate == nil || soldOut {
		return nil, unprocessable("no machine available")
	}
	ips, refused := c.attach(candidate, body)
	if refused != nil {
		return nil, refused
	}
	switch c.faults.allocation {
	case breakOff:
		c.faults.allocation = ""
		panic(http.ErrAbortHandler)
	case conflicting:
		c.faults.allocation = ""
		c.release(candidate.ID)
		return nil, &refusal{http.StatusConflict, "Conflict cannot update machine (" + candidate.ID + "): the entity was changed from another, please retry"}
	}
	candidate.allocation = &allocation{
		uuid: c.uuid(), name: body.Name, hostname: cmp.Or(body.Hostname, "metal"), description: body.Description, project: *body.Projectid, image: resolved,
		role: "machine", layout: cmp.Or(body.Filesystemlayoutid, Layout), userData: body.UserData, tags: body.Tags, keys: body.SSHPubKeys, ips: ips,
		placement: body.PlacementTags, networks: networkIDs(body), dns: serversOf(body.DNSServers, func(s *models.V1DNSServer) string { return *s.IP }),
		ntp:     serversOf(body.NtpServers, func(s *models.V1NTPServer) string { return *s.Address }),
		created: c.options.Now(), installedAt: c.requests + c.options.InstallDelay, liveliness: "Alive",
	}
	return c.render(candidate), nil
}

func serversOf[T any](servers []T, text func(T) string) (all []string) {
	for _, server := range servers {
		all = append(all, text(server))
	}
	return all
}

func networkIDs(body models.V1MachineAllocateRequest) (ids []string) {
	for _, network := range body.Networks {
		ids = append(ids, *network.Networkid)
	}
	return ids
}

// checkSpec refuses what the API refuses before all else, with 400 whatever the reason.
func (c *Cloud) checkSpec(body models.V1MachineAllocateRequest) (resolved string, refused *refusal) {
	if len(body.Networks) == 0 {
		return "", badRequest("network ids cannot be empty")
	}
	resolved = c.latest(*body.Imageid)
	_, size := sizes[*body.Sizeid]
	switch {
	case resolved == "":
		return "", badRequest("NotFound no image for id:%s found", *body.Imageid)
	case c.images[resolved].feature != "machine":
		return "", badRequest("given image is not usable for a machine, features: %s", c.images[resolved].feature)
	case !size:
		return "", badRequest("size:%s not found", *body.Sizeid)
	case !isPartition(*body.Partitionid):
		return "", badRequest("partition:%s not found", *body.Partitionid)
	}
	for _, key := range body.SSHPubKeys {
		if !strings.Contains(key, " ") {
			return "", unprocessable("invalid public SSH key: %s", key)
		}
	}
	return resolved, nil
}

func isPartition(id string) bool { return id == PartitionA || id == PartitionB }

func (c *Cloud) countRole(role string) (count int) {
	for _, m := range c.machines {
		if m.allocation != nil && m.allocation.project == Project && m.allocation.role == role {
			count++
		}
	}
	return count
}

func (c *Cloud) isAvailable(m *server, partition, size string) bool {
	return m.allocation == nil && !m.Locked && m.Partition == partition && m.Size == size && c.requests >= m.availableAt
}

// candidate returns a machine in the rack with the fewest machines that have one of the placement tags.
func (c *Cloud) candidate(partition, size string, placement []string) (best *server) {
	occupied := map[string]int{}
	for _, m := range c.machines {
		if m.allocation != nil && slices.ContainsFunc(placement, func(tag string) bool { return slices.Contains(m.allocation.tags, tag) }) {
			occupied[m.Rack]++
		}
	}
	for _, m := range c.machines {
		if c.isAvailable(m, partition, size) && (best == nil || occupied[m.Rack] < occupied[best.Rack]) {
			best = m
		}
	}
	return best
}

// attach marks the addresses of an allocation as those of its machine, after it has checked all.
func (c *Cloud) attach(m *server, body models.V1MachineAllocateRequest) (all []string, refused *refusal) {
	auto, private, refused := gatherNetworks(body)
	if refused != nil {
		return nil, refused
	}
	given, refused := c.gatherIPs(body, auto)
	if refused != nil {
		return nil, refused
	}
	if of := networks[private]; of.partition != m.Partition {
		return nil, unprocessable("unable to gather networks:private network %q must be located in the partition where the machine is going to be placed", private)
	}
	if !auto[private] && !slices.ContainsFunc(given, func(ip *address) bool { return ip.Network == private }) {
		return nil, unprocessable("unable to gather networks:the private network %q has no auto ip acquisition", private)
	}
	for _, id := range slices.Sorted(maps.Keys(auto)) {
		for _, prefix := range networks[id].prefixes {
			if !auto[id] {
				continue
			}
			ip := c.acquire(id, prefix)
			if ip == nil {
				c.release(m.ID)
				return nil, &refusal{http.StatusInternalServerError, "Internal cannot allocate free ip in ipam, no ips left"}
			}
			ip.Project, ip.Type, ip.Text = *body.Projectid, "ephemeral", "autoassigned"
			given = append(given, ip)
		}
	}
	for _, ip := range given {
		ip.Tags, ip.releasedAt = append(ip.Tags, tagMachineID+"="+m.ID), 0
		all = append(all, ip.Address.String())
	}
	return all, nil
}

// gatherNetworks returns the networks of an allocation, with whether an address is acquired in each, and the private one.
func gatherNetworks(body models.V1MachineAllocateRequest) (auto map[string]bool, private string, refused *refusal) {
	auto = map[string]bool{}
	for _, wanted := range body.Networks {
		of, ok := networks[*wanted.Networkid]
		if !ok {
			return nil, "", notFound("network", *wanted.Networkid)
		}
		if *wanted.Networkid == SuperNetwork {
			return nil, "", unprocessable("unable to gather networks:private super networks are not allowed to be set explicitly")
		}
		if of.parent != "" && private != "" {
			return nil, "", unprocessable("unable to gather networks:multiple private networks are specified")
		}
		if of.parent != "" {
			private = *wanted.Networkid
		}
		auto[*wanted.Networkid] = ptr.Deref(wanted.Autoacquire, true)
	}
	switch of := networks[private]; {
	case private == "":
		return nil, "", unprocessable("unable to gather networks:no private network given")
	case of.project != *body.Projectid:
		return nil, "", unprocessable("unable to gather networks:the given private network does not belong to the project, which is not allowed")
	}
	return auto, private, nil
}

// gatherIPs returns the addresses that an allocation names. In their networks none is acquired.
func (c *Cloud) gatherIPs(body models.V1MachineAllocateRequest, auto map[string]bool) (given []*address, refused *refusal) {
	for _, text := range body.Ips {
		ip := c.ip(text)
		if ip == nil || ip.detachedAt > 0 {
			return nil, notFound("ip", text)
		}
		if _, in := auto[ip.Network]; !in || ip.Project != *body.Projectid {
			return nil, unprocessable("given ip %q is not in any of the given networks, which is required", text)
		}
		auto[ip.Network] = false
		given = append(given, ip)
	}
	return given, nil
}

func freeMachine(c *Cloud, r request) (any, *refusal) {
	m := c.machine(r.id)
	switch {
	case m == nil:
		return nil, notFound("machine", r.id)
	case m.Locked:
		return nil, unprocessable("machine is locked")
	}
	c.free(m)
	return c.render(m), nil
}

func updateMachine(c *Cloud, r request) (any, *refusal) {
	body := decode[models.V1MachineUpdateRequest](r)
	m := c.machine(*body.ID)
	switch {
	case m == nil:
		return nil, notFound("machine", *body.ID)
	case m.allocation == nil:
		return nil, badRequest("only allocated machines can be updated")
	}
	m.allocation.description = *body.Description
	if len(body.Tags) > 0 {
		m.allocation.tags = slices.DeleteFunc(body.Tags, func(tag string) bool { return strings.HasPrefix(tag, "machine.metal-stack.io/") })
	}
	return c.render(m), nil
}

func resetMachine(c *Cloud, r request) (any, *refusal) {
	m := c.machine(r.id)
	if m == nil {
		return nil, notFound("machine", r.id)
	}
	c.resets++
	return c.render(m), nil
}

func partitionCapacity(c *Cloud, r request) (any, *refusal) {
	query := decode[models.V1PartitionCapacityRequest](r)
	if !isPartition(query.ID) {
		return nil, notFound("partition", query.ID)
	}
	servers := &models.V1ServerCapacity{Size: &query.Sizeid}
	for _, m := range c.machines {
		if m.Partition != query.ID || m.Size != query.Sizeid {
			continue
		}
		servers.Total++
		if m.allocation != nil {
			servers.Allocated++
		} else if c.isAvailable(m, query.ID, query.Sizeid) && !c.faults.soldOut {
			servers.Free++
			servers.Allocatable++
		}
	}
	if servers.Total == 0 {
		return []*models.V1PartitionCapacity{}, nil
	}
	return []*models.V1PartitionCapacity{{ID: &query.ID, Servers: []*models.V1ServerCapacity{servers}}}, nil
}

// render returns a machine as the API shows it.
func (c *Cloud) render(m *server) *models.V1MachineResponse {
	of := sizes[m.Size]
	state := ""
	if m.Locked {
		state = models.V1MachineStateValueLOCKED
	}
	rendered := &models.V1MachineResponse{
		ID: &m.ID, Rackid: m.Rack, Liveliness: ptr.To("Alive"), Tags: []string{},
		Bios:      &models.V1MachineBIOS{Date: ptr.To(""), Vendor: ptr.To(""), Version: ptr.To("")},
		Events:    &models.V1MachineRecentProvisioningEvents{CrashLoop: ptr.To(false), FailedMachineReclaim: ptr.To(false), Log: events("Waiting")},
		Hardware:  &models.V1MachineHardware{CPUCores: ptr.To(int32(of[0])), Memory: ptr.To(of[1] << 30), Disks: []*models.V1MachineBlockDevice{}, Nics: []*models.V1MachineNic{}},
		Ledstate:  &models.V1ChassisIdentifyLEDState{Description: ptr.To(""), Value: ptr.To("")},
		State:     &models.V1MachineState{Description: ptr.To(""), MetalHammerVersion: ptr.To("v0.13"), Value: &state},
		Partition: renderPartition(m.Partition), Size: renderSize(m.Size),
	}
	if m.allocation == nil {
		return rendered
	}
	a := m.allocation
	rendered.Liveliness = &a.liveliness
	rendered.Tags = append(slices.Clone(a.tags), "machine.metal-stack.io/rack="+m.Rack)
	rendered.Events.CrashLoop = &a.crashLoop
	rendered.Events.Log = events("Installing")
	created := strfmt.DateTime(a.created)
	rendered.Allocation = &models.V1MachineAllocation{
		Allocationuuid: &a.uuid, Created: &created, Creator: ptr.To("metal-edit@metal-stack.io"), Description: a.description, Hostname: &a.hostname, Name: &a.name,
		Project: &a.project, Reinstall: ptr.To(false), Role: &a.role, SSHPubKeys: append([]string{}, a.keys...), Succeeded: ptr.To(false), UserData: a.userData,
		Networks: c.renderNetworks(a), Image: c.renderImage(a.image),
	}
	if c.requests >= a.installedAt {
		rendered.Events.Log = events("Phoned Home")
		rendered.Allocation.BootInfo = &models.V1BootInfo{
			Bootloaderid: ptr.To(""), Cmdline: ptr.To(""), ImageID: &a.image, Initrd: ptr.To(""), Kernel: ptr.To("/boot/vmlinuz"), OsPartition: ptr.To(""), PrimaryDisk: ptr.To("/dev/sda"),
		}
	}
	return rendered
}

func events(newest string) []*models.V1MachineProvisioningEvent {
	return []*models.V1MachineProvisioningEvent{{Event: &newest}}
}

// renderNetworks returns the networks of an allocation with its addresses in each.
func (c *Cloud) renderNetworks(a *allocation) []*models.V1MachineNetwork {
	all := []*models.V1MachineNetwork{}
	for _, id := range a.networks {
		of := networks[id]
		kind := "external"
		if of.parent != "" {
			kind = "privateprimaryunshared"
		}
		rendered := &models.V1MachineNetwork{
			Asn: ptr.To[int64](4210000001), Destinationprefixes: []string{}, Ips: []string{}, Nat: ptr.To(false), Nattypev2: ptr.To(""), Networkid: &id, Networktype: &kind,
			Networktypev2: ptr.To(""), Prefixes: texts(of.prefixes), Private: ptr.To(of.parent != ""), Projectid: &of.project, Underlay: ptr.To(false), Vrf: ptr.To[int64](5),
		}
		for _, text := range a.ips {
			if ip := c.ips[netip.MustParseAddr(text)]; ip != nil && ip.Network == id {
				rendered.Ips = append(rendered.Ips, text)
			}
		}
		all = append(all, rendered)
	}
	return all
}
