// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package awsfake

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The states of instances.
const (
	pending      = "pending"
	running      = "running"
	shuttingDown = "shutting-down"
	stopped      = "stopped"
	terminated   = "terminated"
)

// run is RunInstances for one instance.
func (c *Cloud) run(p url.Values) (any, error) {
	parameters := flat(p)
	c.requests = append(c.requests, parameters)
	zone, subnet, err := zoneAndSubnet(parameters)
	if err != nil {
		return nil, err
	}
	// A client token is stored per zone, with the parameters of its first use.
	key, written := parameters["ClientToken"]+"/"+zone, text(parameters)
	if known := c.tokens[key]; known != nil {
		switch {
		case known.parameters != written:
			return nil, refuse("IdempotentParameterMismatch", "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).")
		case known.instance != nil && known.instance.state == terminated:
			return nil, refuse("IdempotentInstanceTerminated", "The client token you have provided is associated with a terminated instance. Please use a different client token.")
		case known.instance != nil:
			return reservationOf("RunInstances", known.instance), nil
		}
	}
	if err := checkParameters(parameters, zone); err != nil {
		return nil, err
	}
	used := &use{parameters: written}
	c.tokens[key] = used
	if parameters["InstanceType"] == "m7i.48xlarge" {
		return nil, &refusal{500, "InsufficientInstanceCapacity", "We currently do not have sufficient m7i.48xlarge capacity in the Availability Zone you requested (" + zone + ")."}
	}
	used.instance = c.boot(parameters, zone, subnet)
	return reservationOf("RunInstances", used.instance), nil
}

// isRepeated reports whether a request is the repetition of one that created an instance.
func (c *Cloud) isRepeated(p url.Values) bool {
	parameters := flat(p)
	zone, _, err := zoneAndSubnet(parameters)
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.tokens[parameters["ClientToken"]+"/"+zone]
	return err == nil && known != nil && known.instance != nil
}

// zoneAndSubnet returns the zone and the subnet of a request.
func zoneAndSubnet(p map[string]string) (zone, subnet string, err error) {
	zone, subnet = p["Placement.AvailabilityZone"], p["SubnetId"]
	if subnet == "" {
		subnet = p["NetworkInterface.1.SubnetId"]
	}
	if subnet == "" {
		if zone == "" {
			zone = Region + "a"
		}
		if !strings.HasPrefix(zone, Region) {
			return "", "", refuse("InvalidParameterValue", "Invalid availability zone: [%s]", zone)
		}
		return zone, SubnetA, nil
	}
	in, ok := subnetZones[subnet]
	if !ok {
		return "", "", refuse("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", subnet)
	}
	if zone != "" && zone != in {
		return "", "", refuse("InvalidParameterValue", "Value (%s) for parameter availabilityZone is invalid. Subnet '%s' is in the availability zone %s", zone, subnet, in)
	}
	return in, subnet, nil
}

// checkParameters fails for what EC2 refuses although each parameter is well formed.
func checkParameters(p map[string]string, zone string) error {
	if p["ImageId"] == "" && p["LaunchTemplate.LaunchTemplateId"] == "" && p["LaunchTemplate.LaunchTemplateName"] == "" {
		return refuse("MissingParameter", "The request must contain the parameter ImageId")
	}
	if _, ok := images[p["ImageId"]]; p["ImageId"] != "" && !ok {
		return refuse("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", p["ImageId"])
	}
	if _, ok := instanceTypeInfos[p["InstanceType"]]; !ok {
		return refuse("InvalidParameterValue", "The following supplied instance types do not exist: [%s]", p["InstanceType"])
	}
	if p["InstanceType"] == "g5.12xlarge" && zone != Region+"a" {
		return refuse("Unsupported", "Your requested instance type (%s) is not supported in your requested Availability Zone (%s).", p["InstanceType"], zone)
	}
	if err := checkInterfaces(p); err != nil {
		return err
	}
	if data, err := base64.StdEncoding.DecodeString(p["UserData"]); err != nil {
		return refuse("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
	} else if len(data) > 16384 {
		return refuse("InvalidParameterValue", "User data is limited to 16384 bytes")
	}
	if len(p["ClientToken"]) > 64 {
		return refuse("InvalidParameterValue", "Length exceeds maximum of 64.")
	}
	if p["KeyName"] == "missing" {
		return refuse("InvalidKeyPair.NotFound", "The key pair 'missing' does not exist")
	}
	return nil
}

func checkInterfaces(p map[string]string) error {
	if p["NetworkInterface.1.DeviceIndex"] != "" && (p["SecurityGroupId.1"] != "" || p["SubnetId"] != "") {
		return refuse("InvalidParameterCombination", "Network interfaces and an instance-level subnet ID or security groups may not be specified on the same request")
	}
	if p["NetworkInterface.2.DeviceIndex"] != "" && p["NetworkInterface.1.AssociatePublicIpAddress"] == "true" {
		return refuse("InvalidParameterCombination", "The associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces.")
	}
	return nil
}

func (c *Cloud) boot(p map[string]string, zone, subnet string) *instance {
	created := &instance{
		id: c.next("i"), image: p["ImageId"], kind: p["InstanceType"], zone: zone, subnet: subnet,
		state: pending, tags: tagsFor(p, "instance"), launched: c.began.Add(time.Duration(c.serial) * time.Second),
		boot: c.options.PendingReads, stop: c.options.StoppingReads, keep: c.options.TerminatedReads,
		hidden: max(c.options.ListDelay, c.hide), spot: p["InstanceMarketOptions.MarketType"] == "spot",
	}
	c.hide = 0
	if p["NetworkInterface.1.AssociatePublicIpAddress"] == "true" {
		created.publicIP = fmt.Sprintf("203.0.113.%d", c.serial%250+1)
	}
	for n := 1; n == 1 || p[fmt.Sprintf("NetworkInterface.%d.DeviceIndex", n)] != ""; n++ {
		created.nics = append(created.nics, c.attach(p, created, n))
	}
	for device, deleteOnTermination := range devices(p, created.image) {
		v := &volume{id: c.next("vol"), device: device, of: created, deleteOnTermination: deleteOnTermination, tags: tagsFor(p, "volume")}
		c.volumes[v.id] = v
	}
	c.instances = append(c.instances, created)
	return created
}

func (c *Cloud) attach(p map[string]string, to *instance, n int) *nic {
	created := &nic{id: c.next("eni"), subnet: to.subnet, device: n - 1, of: to, tags: tagsFor(p, "network-interface"), private: fmt.Sprintf("10.0.%d.%d", c.serial/250, c.serial%250+1)}
	wanted, _ := strconv.Atoi(p[fmt.Sprintf("NetworkInterface.%d.Ipv6AddressCount", n)])
	for i := range wanted {
		created.ipv6 = append(created.ipv6, fmt.Sprintf("2001:db8::%x:%x", c.serial, i+1))
	}
	c.nics[created.id] = created
	return created
}

// devices returns the volumes of an instance, and whether each is deleted on termination: those of the image, as the
// request changes them, and those that the request adds.
func devices(p map[string]string, image string) map[string]bool {
	all := map[string]bool{}
	for _, of := range images[image].devices {
		all[of.name] = of.deleteOnTermination
	}
	for n := 1; ; n++ {
		prefix := fmt.Sprintf("BlockDeviceMapping.%d.", n)
		name := p[prefix+"DeviceName"]
		if name == "" {
			return all
		}
		all[name] = p[prefix+"Ebs.DeleteOnTermination"] == "true"
	}
}

// setTerminated terminates an instance and deletes what is deleted on termination.
func (c *Cloud) setTerminated(i *instance) {
	i.state = terminated
	for id, v := range c.volumes {
		if v.of == i && v.deleteOnTermination {
			delete(c.volumes, id)
		}
	}
	for id, n := range c.nics {
		if n.of == i {
			delete(c.nics, id)
		}
	}
}

// tagsFor returns the tags in a request for a type of resource.
func tagsFor(p map[string]string, kind string) (tags []tag) {
	for n := 1; ; n++ {
		prefix := fmt.Sprintf("TagSpecification.%d.", n)
		of := p[prefix+"ResourceType"]
		if of == "" {
			return tags
		}
		for t := 1; of == kind; t++ {
			key, ok := p[fmt.Sprintf("%sTag.%d.Key", prefix, t)]
			if !ok {
				break
			}
			tags = append(tags, tag{Key: key, Value: p[fmt.Sprintf("%sTag.%d.Value", prefix, t)]})
		}
	}
}

func flat(p url.Values) map[string]string {
	all := map[string]string{}
	for name := range p {
		if name != "Action" && name != "Version" {
			all[name] = p.Get(name)
		}
	}
	return all
}

// text returns parameters in a comparable form: JSON sorts the names.
func text(p map[string]string) string {
	written, _ := json.Marshal(p) // strings only
	return string(written)
}
