// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alibabafake

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	ecs "github.com/alibabacloud-go/ecs-20140526/v7/client"
	"github.com/alibabacloud-go/tea/dara"
)

// describe is DescribeInstances. Each call counts as a read of every instance.
func (c *Cloud) describe(p url.Values) (any, error) {
	wanted, err := idsOf(p.Get("InstanceIds"))
	if err != nil {
		return nil, err
	}
	visible := []*instance{}
	for _, i := range slices.Clone(c.instances) {
		if p.Has("Tag.1.Key") && len(visible) == c.options.MaxTagged {
			break // a list by tags ends early
		}
		if c.read(i) && (wanted == nil || slices.Contains(wanted, i.id)) && hasTags(p, i.shownTags()) {
			visible = append(visible, i)
		}
	}
	shown, next, err := page(visible, p, func(i *instance) string { return i.id })
	if err != nil {
		return nil, err
	}
	answer := &ecs.DescribeInstancesResponseBody{Instances: &ecs.DescribeInstancesResponseBodyInstances{}, NextToken: next, TotalCount: dara.Int32(int32(len(visible)))} //nolint:gosec // a few
	for _, i := range shown {
		answer.Instances.Instance = append(answer.Instances.Instance, toInstance(i))
		i.untagged = max(0, i.untagged-1)
	}
	return answer, nil
}

// read counts a read of an instance and reports whether the read returns it.
func (c *Cloud) read(i *instance) (shown bool) {
	if i.hidden > 0 {
		i.hidden--
		return false
	}
	switch {
	case i.released:
		if i.stop--; i.stop < 0 {
			c.remove(i)
			return false
		}
	case i.status == pending:
		if i.boot--; i.boot < 0 {
			i.status = running
		}
	}
	return true
}

// shownTags are the tags that a read shows.
func (i *instance) shownTags() map[string]string {
	if i.untagged > 0 {
		return nil
	}
	return i.tags
}

// shownTags are the tags that a read shows: those of a disk that was created with an instance are as late as the instance's, or
// later.
func (d *disk) shownTags() map[string]string {
	if d.untagged > 0 || d.own && d.of != nil && d.of.untagged > 0 {
		return nil
	}
	return d.tags
}

func toInstance(i *instance) *ecs.DescribeInstancesResponseBodyInstancesInstance {
	shown := &ecs.DescribeInstancesResponseBodyInstancesInstance{
		InstanceId: &i.id, InstanceName: &i.name, HostName: &i.host, ImageId: &i.image, InstanceType: &i.kind, ZoneId: &i.zone, RegionId: dara.String(Region),
		Status: dara.String(i.status), CreationTime: dara.String(i.created.Format("2006-01-02T15:04Z")),
		VpcAttributes: &ecs.DescribeInstancesResponseBodyInstancesInstanceVpcAttributes{
			VSwitchId:        &i.vSwitch,
			PrivateIpAddress: &ecs.DescribeInstancesResponseBodyInstancesInstanceVpcAttributesPrivateIpAddress{IpAddress: []*string{&i.nic.private}},
		},
		Tags:            &ecs.DescribeInstancesResponseBodyInstancesInstanceTags{},
		EipAddress:      &ecs.DescribeInstancesResponseBodyInstancesInstanceEipAddress{IpAddress: dara.String(""), AllocationId: dara.String("")},
		PublicIpAddress: &ecs.DescribeInstancesResponseBodyInstancesInstancePublicIpAddress{},
		OperationLocks:  &ecs.DescribeInstancesResponseBodyInstancesInstanceOperationLocks{},
	}
	for _, key := range slices.Sorted(maps.Keys(i.shownTags())) {
		shown.Tags.Tag = append(shown.Tags.Tag, &ecs.DescribeInstancesResponseBodyInstancesInstanceTagsTag{TagKey: &key, TagValue: dara.String(i.tags[key])})
	}
	if i.publicIP != "" {
		shown.PublicIpAddress.IpAddress, shown.InternetMaxBandwidthOut = []*string{&i.publicIP}, &i.bandwidth
	}
	if i.lock != "" {
		shown.OperationLocks.LockReason = []*ecs.DescribeInstancesResponseBodyInstancesInstanceOperationLocksLockReason{{LockReason: &i.lock}}
	}
	primary := &ecs.DescribeInstancesResponseBodyInstancesInstanceNetworkInterfacesNetworkInterface{
		NetworkInterfaceId: &i.nic.id, Type: dara.String("Primary"), PrimaryIpAddress: &i.nic.private,
		Ipv6Sets: &ecs.DescribeInstancesResponseBodyInstancesInstanceNetworkInterfacesNetworkInterfaceIpv6Sets{},
	}
	for _, address := range i.nic.ipv6 {
		primary.Ipv6Sets.Ipv6Set = append(primary.Ipv6Sets.Ipv6Set, &ecs.DescribeInstancesResponseBodyInstancesInstanceNetworkInterfacesNetworkInterfaceIpv6SetsIpv6Set{Ipv6Address: &address})
	}
	// Another interface has the addresses of pods.
	pods := &ecs.DescribeInstancesResponseBodyInstancesInstanceNetworkInterfacesNetworkInterface{
		NetworkInterfaceId: dara.String("eni-pods"), Type: dara.String("Secondary"), PrimaryIpAddress: dara.String("10.9.0.1"),
	}
	shown.NetworkInterfaces = &ecs.DescribeInstancesResponseBodyInstancesInstanceNetworkInterfaces{
		NetworkInterface: []*ecs.DescribeInstancesResponseBodyInstancesInstanceNetworkInterfacesNetworkInterface{pods, primary},
	}
	return shown
}

// describeDisks is DescribeDisks.
func (c *Cloud) describeDisks(p url.Values) (any, error) {
	visible := []*disk{}
	for _, id := range slices.Sorted(maps.Keys(c.disks)) {
		d := c.disks[id]
		if at := p.Get("InstanceId"); (at == "" || d.of != nil && d.of.id == at) && hasTags(p, d.shownTags()) {
			visible = append(visible, d)
		}
	}
	shown, next, err := page(visible, p, func(d *disk) string { return d.id })
	if err != nil {
		return nil, err
	}
	answer := &ecs.DescribeDisksResponseBody{Disks: &ecs.DescribeDisksResponseBodyDisks{}, NextToken: next}
	for _, d := range shown {
		item := &ecs.DescribeDisksResponseBodyDisksDisk{
			DiskId: &d.id, DiskName: &d.name, Type: &d.kind, Category: &d.category, DeleteWithInstance: dara.Bool(d.deleteWithInstance),
			Portable: dara.Bool(!d.local), Tags: &ecs.DescribeDisksResponseBodyDisksDiskTags{}, CreationTime: dara.String(c.began.Format(time.RFC3339)),
		}
		if d.of != nil {
			item.InstanceId = &d.of.id
		}
		for _, key := range slices.Sorted(maps.Keys(d.shownTags())) {
			item.Tags.Tag = append(item.Tags.Tag, &ecs.DescribeDisksResponseBodyDisksDiskTagsTag{TagKey: &key, TagValue: dara.String(d.tags[key])})
		}
		answer.Disks.Disk = append(answer.Disks.Disk, item)
		d.untagged = max(0, d.untagged-1)
	}
	return answer, nil
}

// page returns one page of what was found, and the token of the next one: the ID that it begins with.
func page[T any](found []T, p url.Values, id func(T) string) (shown []T, next *string, err error) {
	size, atoi := strconv.Atoi(p.Get("MaxResults"))
	if atoi != nil || size < 1 || size > 100 {
		return nil, nil, refuse(http.StatusBadRequest, "InvalidParameter.MaxResults", "The specified MaxResults is not valid.")
	}
	slices.SortFunc(found, func(a, b T) int {
		if id(a) < id(b) {
			return -1
		}
		return 1
	})
	from := 0
	if token := p.Get("NextToken"); token != "" {
		if from = slices.IndexFunc(found, func(item T) bool { return id(item) >= token }); from < 0 {
			return nil, nil, nil
		}
	}
	to := min(from+size, len(found))
	if to < len(found) {
		next = dara.String(id(found[to]))
	}
	return found[from:to], next, nil
}

// idsOf returns a list of IDs, nil for none.
func idsOf(parameter string) (ids []string, err error) {
	if parameter == "" {
		return nil, nil
	}
	if json.Unmarshal([]byte(parameter), &ids) != nil || len(ids) == 0 || len(ids) > 100 {
		return nil, refuse(http.StatusBadRequest, "InvalidInstanceIds.Malformed", "The amount of specified InstanceIds is not valid, or they are no JSON.")
	}
	return ids, nil
}

// hasTags reports whether tags have all that a request names.
func hasTags(p url.Values, tags map[string]string) bool {
	for n := 1; p.Has(fmt.Sprintf("Tag.%d.Key", n)); n++ {
		value, ok := tags[p.Get(fmt.Sprintf("Tag.%d.Key", n))]
		if wanted := fmt.Sprintf("Tag.%d.Value", n); !ok || p.Has(wanted) && p.Get(wanted) != value {
			return false
		}
	}
	return true
}

var errNoInstance = refuse(http.StatusNotFound, "InvalidInstanceId.NotFound", "The specified InstanceId does not exist.")

// release is DeleteInstance. An instance that is being created cannot be released, and one that runs by force only.
func (c *Cloud) release(p url.Values) (any, error) {
	i := c.find(p.Get("InstanceId"))
	switch {
	case i == nil:
		return nil, errNoInstance
	case i.status == pending && !i.released:
		return nil, refuse(http.StatusForbidden, "IncorrectInstanceStatus.Initializing", "The specified instance status does not support this operation.")
	case i.status == running && p.Get("Force") != "true":
		return nil, refuse(http.StatusForbidden, "IncorrectInstanceStatus", "The current status of the resource does not support this operation.")
	}
	i.released, i.status = true, stopping
	if i.stop <= 0 {
		c.remove(i)
	}
	return &ecs.DeleteInstanceResponseBody{}, nil
}

// modifyDisk is ModifyDiskAttribute.
func (c *Cloud) modifyDisk(p url.Values) (any, error) {
	known, ok := c.disks[p.Get("DiskId")]
	if !ok {
		return nil, refuse(http.StatusNotFound, "InvalidDiskId.NotFound", "The specified disk does not exist.")
	}
	if p.Get("DeleteWithInstance") == "false" && known.local {
		return nil, refuse(http.StatusForbidden, "InvalidOperation.LocalDiskNotSupported", "The operation is not supported by a local disk.")
	}
	if p.Has("DeleteWithInstance") {
		known.deleteWithInstance = p.Get("DeleteWithInstance") == "true"
	}
	return &ecs.ModifyDiskAttributeResponseBody{}, nil
}

// reboot is RebootInstance.
func (c *Cloud) reboot(p url.Values) (any, error) {
	i := c.find(p.Get("InstanceId"))
	switch {
	case i == nil:
		return nil, errNoInstance
	case i.status != running:
		return nil, refuse(http.StatusForbidden, "IncorrectInstanceStatus", "The current status of the resource does not support this operation.")
	}
	c.reboots++
	return &ecs.RebootInstanceResponseBody{}, nil
}

// console is GetInstanceConsoleOutput.
func (c *Cloud) console(p url.Values) (any, error) {
	i := c.find(p.Get("InstanceId"))
	if i == nil {
		return nil, errNoInstance
	}
	return &ecs.GetInstanceConsoleOutputResponseBody{InstanceId: &i.id, ConsoleOutput: dara.String(base64.StdEncoding.EncodeToString([]byte(c.output)))}, nil
}
