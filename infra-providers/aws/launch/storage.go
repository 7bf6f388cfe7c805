// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
)

// volumes returns what differs from the image, which is the zero value without one. Every volume is deleted with the
// instance: a volume that the image sets to persist would be orphaned by each deletion.
func volumes(image types.Image, spec infrav1.AWSMachineSpec) (all []types.BlockDeviceMapping) {
	additional := map[string]bool{}
	for _, volume := range spec.Volumes {
		additional[volume.DeviceName] = true
	}
	for _, mapping := range image.BlockDeviceMappings {
		device := aws.ToString(mapping.DeviceName)
		if mapping.Ebs == nil || additional[device] {
			continue
		}
		isRoot := device == aws.ToString(image.RootDeviceName) && spec.RootVolume != (infrav1.AWSVolume{})
		switch {
		case isRoot:
			all = append(all, types.BlockDeviceMapping{DeviceName: &device, Ebs: ebs(spec.RootVolume, "")})
		case !aws.ToBool(mapping.Ebs.DeleteOnTermination):
			all = append(all, types.BlockDeviceMapping{DeviceName: &device, Ebs: &types.EbsBlockDevice{DeleteOnTermination: aws.Bool(true)}})
		}
	}
	for _, volume := range spec.Volumes {
		volume.Type = cmp.Or(volume.Type, string(types.VolumeTypeGp3))
		all = append(all, types.BlockDeviceMapping{DeviceName: &volume.DeviceName, Ebs: ebs(volume.AWSVolume, volume.SnapshotID)})
	}
	return all
}

func ebs(from infrav1.AWSVolume, snapshot string) *types.EbsBlockDevice {
	to := &types.EbsBlockDevice{
		DeleteOnTermination: aws.Bool(true),
		VolumeSize:          from.SizeGiB,
		VolumeType:          types.VolumeType(from.Type),
		Iops:                from.IOPS,
		Throughput:          from.ThroughputMiBps,
		Encrypted:           from.Encrypted,
		KmsKeyId:            nonEmpty(from.KMSKeyID),
		SnapshotId:          nonEmpty(snapshot),
	}
	if to.KmsKeyId != nil {
		to.Encrypted = aws.Bool(true)
	}
	return to
}

// rootSize returns the size of the root volume in GiB, zero when it is unknown.
func rootSize(image types.Image, spec infrav1.AWSMachineSpec) int32 {
	if spec.RootVolume.SizeGiB != nil {
		return *spec.RootVolume.SizeGiB
	}
	for _, mapping := range image.BlockDeviceMappings {
		if mapping.Ebs != nil && aws.ToString(mapping.DeviceName) == aws.ToString(image.RootDeviceName) {
			return aws.ToInt32(mapping.Ebs.VolumeSize)
		}
	}
	return 0
}
