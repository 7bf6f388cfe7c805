// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"github.com/yandex-cloud/go-genproto/yandex/cloud/compute/v1"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/diskname"
	"drover.io/infra-providers/internal/label"
)

// Disks returns the requests for the disks of an input, the boot disk first, which has the image. The disks of an instance are
// created before it: Compute Cloud puts no labels on those that are created with it.
func Disks(input Input, image *compute.Image) []*compute.CreateDiskRequest {
	boot := disk(input, input.Identity.Name, input.Spec.BootDisk)
	boot.Source = &compute.CreateDiskRequest_ImageId{ImageId: image.Id}
	if boot.Size == 0 {
		boot.Size = image.MinDiskSize
	}
	all := []*compute.CreateDiskRequest{boot}
	for _, further := range input.Spec.Disks {
		to := disk(input, diskname.Further(input.Identity, further.Name), further.YandexDiskSettings)
		if further.SnapshotID != "" {
			to.Source = &compute.CreateDiskRequest_SnapshotId{SnapshotId: further.SnapshotID}
		}
		all = append(all, to)
	}
	return all
}

func disk(input Input, name string, from infrav1.YandexDiskSettings) *compute.CreateDiskRequest {
	to := &compute.CreateDiskRequest{
		FolderId: input.Spec.FolderID, ZoneId: input.Zone, Name: name, Labels: label.Merge(input.Spec.Labels, input.Identity),
		TypeId: from.TypeID, Size: ptr.Deref(from.SizeGiB, 0) << 30, BlockSize: ptr.Deref(from.BlockSize, 0), KmsKeyId: from.KMSKeyID,
		SnapshotScheduleIds: from.SnapshotScheduleIDs,
	}
	if from.PlacementGroupID != "" {
		to.DiskPlacementPolicy = &compute.DiskPlacementPolicy{PlacementGroupId: from.PlacementGroupID, PlacementGroupPartition: ptr.Deref(from.PlacementGroupPartition, 0)}
	}
	return to
}

// Matches reports whether a disk is what a request would create. One of an older image of the family is, too.
func Matches(found *compute.Disk, wanted *compute.CreateDiskRequest) bool {
	return found.ZoneId == wanted.ZoneId && found.Size == wanted.Size &&
		(wanted.TypeId == "" || found.TypeId == wanted.TypeId) &&
		(wanted.BlockSize == 0 || found.BlockSize == wanted.BlockSize) &&
		wanted.GetSnapshotId() == found.GetSourceSnapshotId() &&
		found.GetDiskPlacementPolicy().GetPlacementGroupId() == wanted.GetDiskPlacementPolicy().GetPlacementGroupId()
}

// maxDeviceName is the maximum length of the name of a further disk in a spec.
const maxDeviceName = 20

// IsDiskName reports whether a disk of a machine can have a name: it is that of the boot disk or of a further one. Labels may have
// been copied to other disks.
func IsDiskName(id driver.Identity, name string) bool { return diskname.Fits(id, name, maxDeviceName) }
