// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alibabafake

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	ecs "github.com/alibabacloud-go/ecs-20140526/v7/client"
	"github.com/alibabacloud-go/tea/dara"
)

// imageInfo describes an image.
type imageInfo struct {
	id, name, family, owner, architecture, created, status string
	size                                                   int32
	// ownerID is the account of an image of others.
	ownerID string
	// dataDisks are how many data disks it has.
	dataDisks int
}

// images are the images of the cloud, by ID.
var images = map[string]imageInfo{
	Image:    {Image, Image, Family, "system", "x86_64", "2026-11-01T00:00:00Z", "Available", 20, "", 0},
	OldImage: {OldImage, OldImage, Family, "system", "x86_64", "2026-01-01T00:00:00Z", "Available", 20, "", 0},
	"ubuntu_24_04_arm64_20G_alibase_20261102.vhd": {
		"ubuntu_24_04_arm64_20G_alibase_20261102.vhd", "ubuntu_24_04_arm64_20G_alibase_20261102.vhd", "acs:ubuntu_24_04_arm64", "system", "arm64", "2026-11-02T00:00:00Z", "Available", 20, "", 0,
	},
	OwnImage:    {OwnImage, "nodes-1", "nodes", "self", "x86_64", "2026-10-01T00:00:00Z", "Available", 60, "", 0},
	SharedImage: {SharedImage, "nodes-2", "nodes", "others", "x86_64", "2026-11-20T00:00:00Z", "Available", 20, SharedBy, 0},
	FullImage:   {FullImage, "full-1", "full", "self", "x86_64", "2026-10-02T00:00:00Z", "Available", 20, "", 2},
	GoneImage:   {GoneImage, "nodes-0", "nodes-before", "self", "x86_64", "2025-10-01T00:00:00Z", "Deprecated", 60, "", 0},
}

// vSwitches are the zones of the vSwitches.
var vSwitches = map[string]string{VSwitchA: ZoneA, VSwitchB: ZoneB}

// typeInfo describes an instance type.
type typeInfo struct {
	cpus, gpus          int32
	gib                 float32
	architecture, image string
	gpu                 string
}

// types are the instance types.
var types = map[string]typeInfo{
	"ecs.g8i.large":  {2, 0, 8, "X86", "x86_64", ""},
	"ecs.g8i.xlarge": {4, 0, 16, "X86", "x86_64", ""},
	NoStock:          {192, 0, 768, "X86", "x86_64", ""},
	"ecs.g8y.large":  {2, 0, 8, "ARM", "arm64", ""},
	OnlyInA:          {8, 1, 30, "X86", "x86_64", "NVIDIA A10"},
}

// describeImages is DescribeImages.
func describeImages(p url.Values) any {
	var found []imageInfo
	statuses := strings.Split(p.Get("Status"), ",")
	for _, id := range slices.Sorted(maps.Keys(images)) {
		of := images[id]
		for parameter, value := range map[string]string{"ImageId": of.id, "ImageFamily": of.family, "ImageOwnerAlias": of.owner, "ImageOwnerId": of.ownerID} {
			if wanted := p.Get(parameter); wanted != "" && wanted != value {
				of = imageInfo{}
			}
		}
		if of.id != "" && slices.Contains(statuses, of.status) {
			found = append(found, of)
		}
	}
	number, _ := strconv.Atoi(p.Get("PageNumber"))
	size, _ := strconv.Atoi(p.Get("PageSize"))
	answer := &ecs.DescribeImagesResponseBody{Images: &ecs.DescribeImagesResponseBodyImages{}, TotalCount: dara.Int32(int32(len(found)))} //nolint:gosec // a few
	from := min((max(number, 1)-1)*size, len(found))
	for _, of := range found[from:min(from+size, len(found))] {
		answer.Images.Image = append(answer.Images.Image, &ecs.DescribeImagesResponseBodyImagesImage{
			ImageId: &of.id, ImageName: &of.name, ImageFamily: &of.family, ImageOwnerAlias: &of.owner, Architecture: &of.architecture, CreationTime: &of.created,
			Status: &of.status, Size: &of.size, DiskDeviceMappings: mappings(of),
		})
	}
	return answer
}

// mappings are the disks of an image.
func mappings(of imageInfo) *ecs.DescribeImagesResponseBodyImagesImageDiskDeviceMappings {
	all := &ecs.DescribeImagesResponseBodyImagesImageDiskDeviceMappings{}
	for n := range 1 + of.dataDisks {
		kind := "data"
		if n == 0 {
			kind = "system"
		}
		device := fmt.Sprintf("/dev/xvd%c", 'a'+n)
		all.DiskDeviceMapping = append(all.DiskDeviceMapping, &ecs.DescribeImagesResponseBodyImagesImageDiskDeviceMappingsDiskDeviceMapping{
			Type: &kind, Device: &device, SnapshotId: dara.String("s-" + of.id),
		})
	}
	return all
}

// describeTypes is DescribeInstanceTypes.
func describeTypes(p url.Values) any {
	answer := &ecs.DescribeInstanceTypesResponseBody{InstanceTypes: &ecs.DescribeInstanceTypesResponseBodyInstanceTypes{}}
	for n := 1; p.Has(fmt.Sprintf("InstanceTypes.%d", n)); n++ {
		name := p.Get(fmt.Sprintf("InstanceTypes.%d", n))
		of, ok := types[name]
		if !ok {
			continue
		}
		answer.InstanceTypes.InstanceType = append(answer.InstanceTypes.InstanceType, &ecs.DescribeInstanceTypesResponseBodyInstanceTypesInstanceType{
			InstanceTypeId: &name, CpuCoreCount: &of.cpus, MemorySize: &of.gib, CpuArchitecture: &of.architecture, GPUAmount: &of.gpus, GPUSpec: &of.gpu,
			CpuOptions: &ecs.DescribeInstanceTypesResponseBodyInstanceTypesInstanceTypeCpuOptions{Core: dara.Int32(of.cpus / 2), ThreadsPerCore: dara.Int32(2)},
		})
	}
	return answer
}
