// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstackfake

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// microversion is the only version that the fake accepts.
const microversion = "2.64"

// nova serves the Compute API.
func (c *Cloud) nova() {
	const root = "/compute/v2.1"
	handle := func(pattern string, status int, do func(call) (object, *refusal)) {
		method, path, _ := strings.Cut(pattern, " ")
		c.handle(method+" "+root+path, status, func(r call) (object, *refusal) {
			if r.Header.Get("OpenStack-API-Version") != "compute "+microversion {
				return nil, fault(http.StatusNotAcceptable, "computeFault", "Version "+r.Header.Get("OpenStack-API-Version")+" is not supported by the API.")
			}
			return do(r)
		})
	}
	handle("GET /flavors/detail", http.StatusOK, func(r call) (object, *refusal) {
		return c.page(r.Request, c.list("flavors", always), "flavors"), nil
	})
	handle("GET /servers/detail", http.StatusOK, func(r call) (object, *refusal) {
		wanted := r.URL.Query().Get("tags")
		for id := range c.things["servers"] {
			c.advance(id)
		}
		listed := c.list("servers", func(o object) bool {
			return wanted == "" || slices.Contains(o["tags"].([]string), wanted)
		})
		for at, server := range listed {
			// A list does not have the fault of a server that never had a host.
			if server["hostId"] == "" && server["fault"] != nil {
				listed[at] = maps.Clone(server)
				delete(listed[at], "fault")
			}
		}
		return c.page(r.Request, listed, "servers"), nil
	})
	handle("GET /servers/{id}", http.StatusOK, func(r call) (object, *refusal) {
		c.advance(r.PathValue("id"))
		if known := c.things["servers"][r.PathValue("id")]; known != nil {
			return object{"server": known}, nil
		}
		return nil, notFound("Instance " + r.PathValue("id"))
	})
	handle("POST /servers", http.StatusAccepted, c.createServer)
	handle("DELETE /servers/{id}", http.StatusNoContent, func(r call) (object, *refusal) {
		known := c.things["servers"][r.PathValue("id")]
		if known == nil {
			return nil, notFound("Instance " + r.PathValue("id"))
		}
		known["OS-EXT-STS:task_state"] = "deleting"
		c.hidden[r.PathValue("id")].stopping = true
		return nil, nil
	})
	handle("POST /servers/{id}/metadata", http.StatusOK, c.updateMetadata)
	handle("POST /servers/{id}/action", http.StatusAccepted, c.act)
	handle("GET /limits", http.StatusOK, func(call) (object, *refusal) {
		return object{"limits": object{"absolute": object{"maxTotalInstances": -1, "maxTotalCores": -1, "maxTotalRAMSize": -1, "maxServerGroups": -1, "maxServerGroupMembers": c.groupMembers}}}, nil
	})
	handle("GET /os-availability-zone", http.StatusOK, func(call) (object, *refusal) {
		var zones []object
		for _, name := range zoneNames {
			zones = append(zones, object{"zoneName": name, "zoneState": object{"available": true}})
		}
		return object{"availabilityZoneInfo": zones}, nil
	})
	handle("GET /os-keypairs/{name}", http.StatusOK, func(r call) (object, *refusal) {
		if known := c.things["os-keypairs"][r.PathValue("name")]; known != nil {
			return object{"keypair": known}, nil
		}
		return nil, notFound("Keypair " + r.PathValue("name"))
	})
	c.serverGroups(handle)
}

var zoneNames = []string{"nova", "zone-b"}

func always(object) bool { return true }

var metadataKey = regexp.MustCompile(`^[a-zA-Z0-9-_:. ]{1,255}$`)

// createServer accepts a server, with the checks that Nova makes before.
func (c *Cloud) createServer(r call) (object, *refusal) {
	requested := r.body["server"].(object)
	if no := c.checkServer(requested); no != nil {
		return nil, no
	}
	hidden := &hiddenState{requested: r.body, disks: map[string]bool{}, builds: 1, stops: 1}
	networks, _ := requested["networks"].([]any)
	for _, network := range networks {
		id, _ := network.(object)["port"].(string)
		port := c.things["ports"][id]
		if port == nil {
			return nil, badRequest("Port %s not found.", id)
		}
		if port["device_id"] != "" {
			return nil, fault(http.StatusConflict, "conflictingRequest", "Port "+id+" is still in use.")
		}
		hidden.ports = append(hidden.ports, id)
	}
	devices, _ := requested["block_device_mapping_v2"].([]any)
	for _, device := range devices {
		disk := device.(object)
		if disk["source_type"] != "volume" {
			continue
		}
		volume := c.things["volumes"][fmt.Sprint(disk["uuid"])]
		if volume == nil || volume["status"] != "available" {
			return nil, badRequest("Block Device Mapping is Invalid: failed to get volume %v.", disk["uuid"])
		}
		volume["status"] = "in-use"
		hidden.disks[fmt.Sprint(disk["uuid"])], _ = disk["delete_on_termination"].(bool)
	}
	hints, _ := r.body["os:scheduler_hints"].(object)
	if group, _ := hints["group"].(string); group != "" {
		if c.things["os-server-groups"][group] == nil {
			return nil, badRequest("Instance group %s could not be found.", group)
		}
		if len(c.things["os-server-groups"][group]["members"].([]string)) >= c.groupMembers {
			return nil, fault(http.StatusForbidden, "forbidden", "Quota exceeded, too many servers in group")
		}
		hidden.group = group
	}
	created := c.put("servers", object{
		"name": requested["name"], "status": "BUILD", "OS-EXT-STS:task_state": "scheduling", "created": timestamp(), "updated": timestamp(),
		"metadata": requested["metadata"], "tags": words(requested["tags"]), "hostId": "", "OS-EXT-AZ:availability_zone": "",
		"OS-SRV-USG:launched_at": nil, "OS-SRV-USG:terminated_at": nil, "addresses": object{}, "flavor": object{"original_name": requested["flavorRef"]},
		"accessIPv4": "", "accessIPv6": "", "config_drive": "",
	})
	c.hidden[created["id"].(string)] = hidden
	if hidden.group != "" {
		group := c.things["os-server-groups"][hidden.group]
		group["members"] = append(group["members"].([]string), created["id"].(string))
	}
	return object{"server": object{"id": created["id"], "links": []object{}, "OS-DCF:diskConfig": "MANUAL"}}, nil
}

// act is an action on a server: a hard reboot, or a look at its console.
func (c *Cloud) act(r call) (object, *refusal) {
	if requested, ok := r.body["os-getConsoleOutput"].(object); ok {
		return c.console(r, requested)
	}
	return c.reboot(r)
}

// console is the end of the output of a server that has a host.
func (c *Cloud) console(r call, requested object) (object, *refusal) {
	known := c.things["servers"][r.PathValue("id")]
	if known == nil {
		return nil, notFound("Instance " + r.PathValue("id"))
	}
	length, ok := requested["length"].(float64)
	if !ok || length < 1 || len(requested) != 1 {
		return nil, badRequest("Invalid input for field/attribute length. Value: %v.", requested["length"])
	}
	if known["status"] == "BUILD" {
		return nil, fault(http.StatusConflict, "conflictingRequest", fmt.Sprintf("Instance %v is not ready", known["id"]))
	}
	*r.status = http.StatusOK
	lines := strings.SplitAfter(c.output, "\n")
	return object{"output": strings.Join(lines[max(0, len(lines)-int(length)-1):], "")}, nil
}

// reboot is an action. A hard reboot takes one read, may be repeated meanwhile, and starts a server that is off.
func (c *Cloud) reboot(r call) (object, *refusal) {
	known := c.things["servers"][r.PathValue("id")]
	if known == nil {
		return nil, notFound("Instance " + r.PathValue("id"))
	}
	requested, _ := r.body["reboot"].(object)
	if kind := requested["type"]; len(r.body) != 1 || len(requested) != 1 || kind != "HARD" {
		return nil, badRequest("Invalid input for field/attribute type. Value: %v.", kind)
	}
	switch task := known["OS-EXT-STS:task_state"]; {
	case task != nil && task != "reboot_started_hard", known["status"] == "BUILD":
		return nil, fault(http.StatusConflict, "conflictingRequest", fmt.Sprintf("Cannot 'reboot' instance %v while it is in task_state %v", known["id"], task))
	}
	known["status"], known["OS-EXT-STS:task_state"] = "HARD_REBOOT", "reboot_started_hard"
	c.reboots++
	return nil, nil
}

// updateMetadata adds metadata to a server.
func (c *Cloud) updateMetadata(r call) (object, *refusal) {
	known := c.things["servers"][r.PathValue("id")]
	if known == nil {
		return nil, notFound("Instance " + r.PathValue("id"))
	}
	if status := known["status"]; status != "ACTIVE" || known["OS-EXT-STS:task_state"] != nil {
		return nil, fault(http.StatusConflict, "conflictingRequest", fmt.Sprintf("Cannot 'update_instance_metadata' instance %v while it is in vm_state %v", known["id"], status))
	}
	if no := checkLabels(r.body); no != nil {
		return nil, no
	}
	all := maps.Clone(known["metadata"].(object))
	maps.Copy(all, r.body["metadata"].(object))
	known["metadata"] = all
	return object{"metadata": all}, nil
}

func (c *Cloud) checkServer(requested object) *refusal {
	if c.things["flavors"][fmt.Sprint(requested["flavorRef"])] == nil {
		return badRequest("Flavor %v could not be found.", requested["flavorRef"])
	}
	if flavor := c.things["flavors"][fmt.Sprint(requested["flavorRef"])]; flavor["disk"] == 0 && requested["imageRef"] != "" {
		return fault(http.StatusForbidden, "forbidden", "Only volume-backed servers are allowed for flavors with zero disk.")
	}
	if image, _ := requested["imageRef"].(string); image != "" && c.things["images"][image] == nil {
		return badRequest("Can not find requested image")
	}
	if zone, _ := requested["availability_zone"].(string); zone != "" && !slices.Contains(zoneNames, zone) {
		return badRequest("The requested availability zone is not available")
	}
	if key, _ := requested["key_name"].(string); key != "" && c.things["os-keypairs"][key] == nil {
		return badRequest("Invalid key_name provided.")
	}
	if data, _ := requested["user_data"].(string); len(data) > 65535 {
		return badRequest("Invalid input for field/attribute user_data.")
	}
	if len(requested["networks"].([]any)) == 0 {
		return badRequest("Invalid input for field/attribute networks.")
	}
	return checkLabels(requested)
}

// checkLabels checks the alphabets of metadata and tags.
func checkLabels(requested object) *refusal {
	metadata, _ := requested["metadata"].(object)
	for key, value := range metadata {
		if text, ok := value.(string); !metadataKey.MatchString(key) || !ok || len(text) > 255 {
			return badRequest("Invalid input for field/attribute metadata. Value: %s.", key)
		}
	}
	for _, tag := range words(requested["tags"]) {
		if len(tag) > 60 || strings.ContainsAny(tag, ",/") {
			return badRequest("Invalid input for field/attribute tags. Value: %s.", tag)
		}
	}
	return nil
}

func words(list any) []string {
	all := []string{}
	items, _ := list.([]any)
	for _, item := range items {
		all = append(all, fmt.Sprint(item))
	}
	return all
}
