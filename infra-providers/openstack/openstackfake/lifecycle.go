// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstackfake

import (
	"fmt"
	"slices"
)

// hiddenState is the state of a server that answers do not have.
type hiddenState struct {
	requested object
	ports     []string
	// disks are the volumes, and whether each is deleted with the server.
	disks map[string]bool
	group string
	// builds is the number of reads during which the server is being created.
	builds int
	// tries is the number of hosts on which it failed.
	tries int
	// stops is the number of reads during which it is being deleted.
	stops    int
	stopping bool
	// fault is the cause of the failure; a read returns it one read after the failure.
	fault string
}

// advance counts a read as the passing of time for a server.
func (c *Cloud) advance(id string) {
	known, hidden := c.things["servers"][id], c.hidden[id]
	switch {
	case known == nil:
	case hidden.stopping:
		if hidden.stops--; hidden.stops < 0 {
			c.terminate(id)
		}
	case known["status"] == "BUILD":
		if hidden.builds--; hidden.builds < 0 {
			c.schedule(known, hidden)
		}
	case known["status"] == "HARD_REBOOT":
		known["status"], known["OS-EXT-STS:task_state"] = "ACTIVE", nil
	case hidden.fault != "" && known["fault"] == nil:
		known["fault"] = object{"code": 500, "created": timestamp(), "message": hidden.fault}
	}
}

// schedule does what the scheduler and the host do with a server.
func (c *Cloud) schedule(known object, hidden *hiddenState) {
	known["OS-EXT-STS:task_state"] = nil
	requested := hidden.requested["server"].(object)
	if requested["flavorRef"] == "3" || c.hasNoHostLeft(hidden) {
		known["status"], hidden.fault = "ERROR", "No valid host was found. There are not enough hosts available."
		return
	}
	known["hostId"] = "a-host"
	addresses := object{}
	for _, id := range hidden.ports {
		port := c.things["ports"][id]
		if port != nil && port["device_id"] != "" && hidden.tries < hosts-1 {
			// Nova detaches the port of any server that has it, and tries another host.
			port["device_id"], port["device_owner"] = "", ""
			hidden.tries++
			known["OS-EXT-STS:task_state"], known["hostId"] = "scheduling", ""
			return
		}
		if port == nil || port["device_id"] != "" {
			known["status"], hidden.fault = "ERROR", "Build of instance "+fmt.Sprint(known["id"])+" aborted: Port "+id+" is still in use."
			return
		}
		port["device_id"], port["device_owner"], port["status"] = known["id"], "compute:nova", "ACTIVE"
		c.countRevision(port)
		network := fmt.Sprint(c.things["networks"][port["network_id"].(string)]["name"])
		addresses[network] = append(entries(addresses[network]), c.addressesOf(port)...)
	}
	known["status"], known["addresses"], known["OS-SRV-USG:launched_at"] = "ACTIVE", addresses, "2026-01-01T00:00:00.000000"
	known["OS-EXT-AZ:availability_zone"] = "nova"
	if zone, _ := requested["availability_zone"].(string); zone != "" {
		known["OS-EXT-AZ:availability_zone"] = zone
	}
}

// hosts is the number of hosts.
const hosts = 2

// hasNoHostLeft reports whether the group of a server needs another host for it, and none is left.
func (c *Cloud) hasNoHostLeft(of *hiddenState) bool {
	group := c.things["os-server-groups"][of.group]
	if group == nil || group["policy"] != "anti-affinity" {
		return false
	}
	taken := 0
	for _, member := range group["members"].([]string) {
		if known := c.things["servers"][member]; known != nil && known["hostId"] != "" {
			taken++
		}
	}
	return taken >= hosts
}

func entries(known any) []object {
	all, _ := known.([]object)
	return all
}

// terminate deletes a server with the volumes that are deleted with it.
func (c *Cloud) terminate(id string) {
	for _, port := range c.things["ports"] {
		if port["device_id"] == id {
			port["device_id"], port["device_owner"] = "", ""
			c.countRevision(port)
		}
	}
	for volume, goes := range c.hidden[id].disks {
		if goes {
			delete(c.things["volumes"], volume)
		} else if known := c.things["volumes"][volume]; known != nil {
			known["status"] = "available"
		}
	}
	if group := c.things["os-server-groups"][c.hidden[id].group]; group != nil {
		group["members"] = slices.DeleteFunc(group["members"].([]string), func(member string) bool { return member == id })
	}
	delete(c.things["servers"], id)
	delete(c.hidden, id)
}
