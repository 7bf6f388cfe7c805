// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alibabafake

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	ecs "github.com/alibabacloud-go/ecs-20140526/v7/client"
)

// The statuses of instances.
const (
	pending  = "Pending"
	running  = "Running"
	stopping = "Stopping"
	stopped  = "Stopped"
)

// run is RunInstances for one instance.
func (c *Cloud) run(p url.Values) (any, error) {
	parameters := flat(p)
	c.requests = append(c.requests, parameters)
	token, written := parameters["ClientToken"], text(parameters)
	if known := c.tokens[token]; known != nil {
		switch {
		case known.parameters != written:
			return nil, refuse(http.StatusBadRequest, "IdempotentParameterMismatch", "The specified parameters of an idempotent request differ from those of the request before.")
		case known.instance != nil:
			return ran(known.instance), nil
		case known.refused != nil && c.options.ReplayRefusals:
			return nil, known.refused
		}
	}
	used := &use{parameters: written}
	c.tokens[token] = used
	if err := check(parameters); err != nil {
		used.refused = err
		return nil, err
	}
	used.instance = c.boot(parameters)
	return ran(used.instance), nil
}

func ran(created *instance) any {
	return &ecs.RunInstancesResponseBody{InstanceIdSets: &ecs.RunInstancesResponseBodyInstanceIdSets{InstanceIdSet: []*string{&created.id}}}
}

// refuseCreation stores that a request got no instance.
func (c *Cloud) refuseCreation(p url.Values, with *refusal) {
	parameters := flat(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tokens[parameters["ClientToken"]] == nil {
		c.tokens[parameters["ClientToken"]] = &use{parameters: text(parameters), refused: with}
	}
}

// isRepeated reports whether a request is the repetition of one that created an instance.
func (c *Cloud) isRepeated(p url.Values) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.tokens[p.Get("ClientToken")]
	return known != nil && known.instance != nil
}

var (
	namePattern = regexp.MustCompile(`^[A-Za-z][-A-Za-z0-9:_.]{1,127}$`)
	hostPattern = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9.]{0,62}[A-Za-z0-9])$`)
)

// check fails for what ECS refuses although each parameter is well formed.
func check(p map[string]string) *refusal {
	known, ok := types[p["InstanceType"]]
	zone := p["ZoneId"]
	switch {
	case p["RegionId"] != Region:
		return refuse(http.StatusNotFound, "InvalidRegionId.NotFound", "The specified RegionId does not exist.")
	case zone != ZoneA && zone != ZoneB:
		return refuse(http.StatusNotFound, "InvalidZoneId.NotFound", "The specified ZoneId %s does not exist.", zone)
	case !ok:
		return refuse(http.StatusBadRequest, "InvalidInstanceType.ValueNotSupported", "The specified InstanceType %s is not supported.", p["InstanceType"])
	case p["InstanceType"] == OnlyInA && zone != ZoneA:
		return refuse(http.StatusBadRequest, "InvalidResourceType.NotSupported", "This resource type is not supported in the zone.")
	case images[p["ImageId"]].id == "" || images[p["ImageId"]].status != "Available":
		return refuse(http.StatusNotFound, "InvalidImageId.NotFound", "The specified ImageId does not exist.")
	case images[p["ImageId"]].architecture != known.image:
		return refuse(http.StatusBadRequest, "ImageNotSupportInstanceType", "The image does not support the instance type.")
	case vSwitches[p["VSwitchId"]] == "":
		return refuse(http.StatusBadRequest, "InvalidVSwitchId.NotFound", "The VSwitchId %s is not found.", p["VSwitchId"])
	case vSwitches[p["VSwitchId"]] != zone:
		return refuse(http.StatusBadRequest, "InvalidParameter", "The vSwitch is not in the zone %s.", zone)
	case p["SecurityGroupIds.1"] != Group:
		return refuse(http.StatusNotFound, "InvalidSecurityGroupId.NotFound", "The specified SecurityGroupId does not exist.")
	case p["InstanceType"] == NoStock:
		return refuse(http.StatusForbidden, "OperationDenied.NoStock", "The requested resource is sold out in the specified zone; try other types of resources or other regions and zones.")
	}
	return checkTexts(p)
}

func checkTexts(p map[string]string) *refusal {
	data, err := base64.StdEncoding.DecodeString(p["UserData"])
	switch {
	case err != nil:
		return refuse(http.StatusBadRequest, "InvalidUserData.Base64FormatInvalid", "The specified parameter UserData must be base64 encoded.")
	case len(data) > 32<<10:
		return refuse(http.StatusBadRequest, "InvalidUserData.SizeExceeded", "The specified UserData exceeds the size limit.")
	case len(p["ClientToken"]) > 64:
		return refuse(http.StatusBadRequest, "InvalidParameter.ClientToken", "The ClientToken has more than 64 characters.")
	case p["InstanceName"] != "" && !namePattern.MatchString(p["InstanceName"]):
		return refuse(http.StatusBadRequest, "InvalidInstanceName.Malformed", "The specified InstanceName is wrongly formed.")
	case p["HostName"] != "" && (!hostPattern.MatchString(p["HostName"]) || strings.Contains(p["HostName"], "--") || strings.Contains(p["HostName"], "..")):
		return refuse(http.StatusBadRequest, "InvalidHostName.Malformed", "The specified HostName is wrongly formed.")
	}
	tags := tagsOf(p)
	for key, value := range tags {
		if len(key) == 0 || len(key) > 128 || len(value) > 128 {
			return refuse(http.StatusBadRequest, "InvalidTagValue.Malformed", "The specified Tag.n.Value is not valid.")
		}
	}
	if len(tags) > 20 {
		return refuse(http.StatusBadRequest, "NumberExceed.Tags", "The Tags parameter number is exceed.")
	}
	return nil
}

func (c *Cloud) boot(p map[string]string) *instance {
	created := &instance{
		id: c.next("i"), name: p["InstanceName"], host: p["HostName"], image: p["ImageId"], kind: p["InstanceType"], zone: p["ZoneId"], vSwitch: p["VSwitchId"],
		status: pending, tags: tagsOf(p), created: c.began.Add(time.Duration(c.serial) * time.Minute),
		boot: c.options.PendingReads, stop: c.options.StoppingReads, hidden: max(c.options.ListDelay, c.hide), untagged: c.options.TagDelay,
	}
	c.hide = 0
	if created.host == "" {
		created.host = "iZ" + created.id[2:] + "Z"
	}
	if bandwidth, err := strconv.ParseInt(p["InternetMaxBandwidthOut"], 10, 32); err == nil && bandwidth > 0 {
		created.publicIP, created.bandwidth = fmt.Sprintf("203.0.113.%d", c.serial%250+1), int32(bandwidth)
	}
	created.nic = &nic{id: c.next("eni"), of: created, private: fmt.Sprintf("10.0.%d.%d", c.serial/250, c.serial%250+1), tags: tagsOf(p)}
	wanted, _ := strconv.Atoi(p["Ipv6AddressCount"])
	for n := range wanted {
		created.nic.ipv6 = append(created.nic.ipv6, fmt.Sprintf("2001:db8::%x:%x", c.serial, n+1))
	}
	c.nics[created.nic.id] = created.nic
	c.addDisk(created, p, "system", p["SystemDisk.Category"], true)
	for range images[created.image].dataDisks { // no parameter names their devices
		c.addDisk(created, p, "data", "cloud_essd", true)
	}
	for n := 1; p[fmt.Sprintf("DataDisk.%d.DiskName", n)] != ""; n++ {
		prefix := fmt.Sprintf("DataDisk.%d.", n)
		c.addDisk(created, p, "data", p[prefix+"Category"], p[prefix+"DeleteWithInstance"] != "false").name = p[prefix+"DiskName"]
	}
	c.instances = append(c.instances, created)
	return created
}

func (c *Cloud) addDisk(of *instance, p map[string]string, kind, category string, deleteWithInstance bool) *disk {
	created := &disk{id: c.next("d"), kind: kind, category: category, of: of, deleteWithInstance: deleteWithInstance, own: true, tags: tagsOf(p), untagged: c.options.DiskTagDelay}
	c.disks[created.id] = created
	return created
}

// tagsOf returns the tags in a request.
func tagsOf(p map[string]string) map[string]string {
	tags := map[string]string{}
	for n := 1; ; n++ {
		key, ok := p[fmt.Sprintf("Tag.%d.Key", n)]
		if !ok {
			return tags
		}
		tags[key] = p[fmt.Sprintf("Tag.%d.Value", n)]
	}
}

func flat(p url.Values) map[string]string {
	all := map[string]string{}
	for name := range p {
		all[name] = p.Get(name)
	}
	return all
}

// text returns parameters in a comparable form: JSON sorts the names.
func text(p map[string]string) string {
	written, _ := json.Marshal(p) // strings only
	return string(written)
}
