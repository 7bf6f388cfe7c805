// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"cmp"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
)

// storage returns the disks. All of them are deleted with the virtual machine.
func storage(input Input, image Image) *armcompute.StorageProfile {
	profile := &armcompute.StorageProfile{ImageReference: image.Reference, OSDisk: osDisk(input)}
	if kind := input.Spec.DiskControllerType; kind != "" {
		profile.DiskControllerType = ptr.To(armcompute.DiskControllerTypes(kind))
	}
	for lun, from := range input.Spec.DataDisks {
		profile.DataDisks = append(profile.DataDisks, &armcompute.DataDisk{
			Name:         ptr.To(dataDiskName(input.Identity.UID, from.Name)),
			Lun:          ptr.To(int32(lun)), //nolint:gosec // 31 at most
			CreateOption: ptr.To(armcompute.DiskCreateOptionTypesEmpty),
			DeleteOption: ptr.To(armcompute.DiskDeleteOptionTypesDelete),
			DiskSizeGB:   ptr.To(from.SizeGB),
			Caching:      caching(from.Caching),
			ManagedDisk:  managed(from.AzureDiskSettings),
		})
	}
	return profile
}

func osDisk(input Input) *armcompute.OSDisk {
	from := input.Spec.OSDisk
	to := &armcompute.OSDisk{
		Name:         ptr.To(Name(input.Identity.UID)),
		CreateOption: ptr.To(armcompute.DiskCreateOptionTypesFromImage),
		DeleteOption: ptr.To(armcompute.DiskDeleteOptionTypesDelete),
		OSType:       ptr.To(armcompute.OperatingSystemTypesLinux),
		DiskSizeGB:   from.SizeGB,
		Caching:      caching(from.Caching),
		ManagedDisk:  managed(from.AzureDiskSettings),
	}
	if from.Ephemeral.Placement != "" {
		to.DiffDiskSettings = &armcompute.DiffDiskSettings{
			Option: ptr.To(armcompute.DiffDiskOptionsLocal), Placement: ptr.To(armcompute.DiffDiskPlacement(from.Ephemeral.Placement)),
		}
		to.Caching = ptr.To(armcompute.CachingTypesReadOnly)
	}
	if input.Spec.Security.Type == "ConfidentialVM" {
		if to.ManagedDisk == nil {
			to.ManagedDisk = &armcompute.ManagedDiskParameters{}
		}
		to.ManagedDisk.SecurityProfile = &armcompute.VMDiskSecurityProfile{
			SecurityEncryptionType: ptr.To(armcompute.SecurityEncryptionTypes(cmp.Or(from.SecurityEncryptionType, "VMGuestStateOnly"))),
		}
	}
	return to
}

func caching(kind string) *armcompute.CachingTypes {
	if kind == "" {
		return nil
	}
	return ptr.To(armcompute.CachingTypes(kind))
}

// managed leaves out what the spec does not set.
func managed(from infrav1.AzureDiskSettings) *armcompute.ManagedDiskParameters {
	if from.Type == "" && from.DiskEncryptionSetID == "" {
		return nil
	}
	to := &armcompute.ManagedDiskParameters{}
	if from.Type != "" {
		to.StorageAccountType = ptr.To(armcompute.StorageAccountTypes(from.Type))
	}
	if from.DiskEncryptionSetID != "" {
		to.DiskEncryptionSet = &armcompute.DiskEncryptionSetParameters{ID: ptr.To(from.DiskEncryptionSetID)}
	}
	return to
}
