// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package awsfake

import (
	"cmp"
	"encoding/xml"
	"maps"
	"net/url"
	"slices"
)

// imageInfo describes an image.
type imageInfo struct {
	name, architecture, created string
	devices                     []deviceInfo
	// state is empty for an available image.
	state string
}

type deviceInfo struct {
	name                string
	size                int
	deleteOnTermination bool
}

// images are the images of the cloud. One of them has a data volume that persists after the instance.
var images = map[string]imageInfo{
	Image: {"ubuntu/noble-24.04-amd64-server-20261101", "x86_64", "2026-11-01T00:00:00.000Z",
		[]deviceInfo{{"/dev/sda1", 8, true}, {"/dev/sdb", 4, false}}, ""},
	OldImage:      {"ubuntu/noble-24.04-amd64-server-20260101", "x86_64", "2026-01-01T00:00:00.000Z", []deviceInfo{{"/dev/sda1", 8, true}}, ""},
	ARMImage:      {"ubuntu/noble-24.04-arm64-server-20261102", "arm64", "2026-11-02T00:00:00.000Z", []deviceInfo{{"/dev/sda1", 8, true}}, ""},
	DisabledImage: {"ubuntu/jammy-22.04-amd64-server-20250101", "x86_64", "2025-01-01T00:00:00.000Z", []deviceInfo{{"/dev/sda1", 8, true}}, "disabled"},
}

// subnetZones are the subnets, all tagged role=nodes.
var subnetZones = map[string]string{SubnetA: Region + "a", SubnetB: Region + "b"}

// groups are the security groups, by their tag role.
var groups = map[string]string{Group: "nodes", "sg-00000002": "nodes", "sg-00000003": "others"}

// typeInfo describes an instance type.
type typeInfo struct {
	cpus, mib, gpus int
	architectures   []string
}

// instanceTypeInfos are the instance types. The largest never has capacity.
var instanceTypeInfos = map[string]typeInfo{
	"m7i.large":    {2, 8192, 0, []string{"x86_64"}},
	"m7i.xlarge":   {4, 16384, 0, []string{"x86_64"}},
	"m7i.48xlarge": {192, 786432, 0, []string{"x86_64"}},
	"m7g.large":    {2, 8192, 0, []string{"arm64"}},
	"g5.12xlarge":  {48, 196608, 4, []string{"i386", "x86_64"}},
}

func describeImagesOf(p url.Values) (any, error) {
	answer := describeImages{XMLName: response("DescribeImages")}
	ids, matching := values(p, "ImageId"), filters(p)
	for _, id := range ids {
		if _, ok := images[id]; !ok {
			return nil, refuse("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
		}
	}
	if owners := values(p, "Owner"); len(owners) > 0 && !slices.Contains(owners, Owner) {
		return answer, nil
	}
	for _, id := range slices.Sorted(maps.Keys(images)) {
		of := images[id]
		attributes := map[string][]string{"name": {of.name}, "architecture": {of.architecture}, "state": {cmp.Or(of.state, "available")}}
		if len(ids) > 0 && !slices.Contains(ids, id) || !matching(attributes) {
			continue
		}
		found := image{ID: id, Name: of.name, Architecture: of.architecture, Created: of.created, RootDevice: of.devices[0].name, State: cmp.Or(of.state, "available"), Owner: Owner}
		for _, device := range of.devices {
			mapping := blockDevice{Name: device.name}
			mapping.EBS.Size, mapping.EBS.DeleteOnTermination, mapping.EBS.Type = device.size, device.deleteOnTermination, "gp2"
			found.Devices = append(found.Devices, mapping)
		}
		answer.Images = append(answer.Images, found)
	}
	return answer, nil
}

// RemoveSubnet removes a subnet from DescribeSubnets.
func (c *Cloud) RemoveSubnet(subnet string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removedSubnets = append(c.removedSubnets, subnet)
}

func (c *Cloud) subnets(p url.Values) any {
	answer := describeSubnets{XMLName: response("DescribeSubnets")}
	matching := filters(p)
	for _, id := range slices.Sorted(maps.Keys(subnetZones)) {
		attributes := map[string][]string{"state": {"available"}, "availability-zone": {subnetZones[id]}, "tag:role": {"nodes"}}
		if matching(attributes) && !slices.Contains(c.removedSubnets, id) {
			answer.Subnets = append(answer.Subnets, subnet{ID: id, Zone: subnetZones[id], State: "available"})
		}
	}
	return answer
}

func securityGroups(p url.Values) any {
	answer := describeSecurityGroups{XMLName: response("DescribeSecurityGroups")}
	for id, name := range groups {
		if filters(p)(map[string][]string{"tag:role": {name}, "group-id": {id}}) {
			answer.Groups = append(answer.Groups, securityGroup{ID: id, Name: name + "-" + id})
		}
	}
	return answer
}

func instanceTypes(p url.Values) (any, error) {
	answer := describeInstanceTypes{XMLName: response("DescribeInstanceTypes")}
	for _, name := range values(p, "InstanceType") {
		of, ok := instanceTypeInfos[name]
		if !ok {
			return nil, refuse("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", name)
		}
		found := instanceType{Name: name, CPUs: of.cpus, MiB: of.mib, Architectures: of.architectures}
		if of.gpus > 0 {
			found.GPUs = []gpu{{Manufacturer: "NVIDIA", Name: "A10G", Count: of.gpus}}
		}
		answer.Types = append(answer.Types, found)
	}
	return answer, nil
}

func response(action string) xml.Name {
	return xml.Name{Space: "http://ec2.amazonaws.com/doc/2016-11-15/", Local: action + "Response"}
}
