// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package ignition

import (
	"github.com/coreos/ignition/v2/config/v3_4/types"

	"drover.io/bootstrap/node"
)

// addDisk never wipes: Ignition uses a partition or a file system that is there as it should be, and fails on any
// other. By the path, Ignition writes the files below it to that disk.
func addDisk(storage *types.Storage, d node.Disk) {
	device, never := d.Device, false
	if d.Partitioned {
		device = "/dev/disk/by-partlabel/" + d.Label
		storage.Disks = append(storage.Disks, types.Disk{
			Device:     d.Device,
			WipeTable:  &never,
			Partitions: []types.Partition{{Number: 1, Label: &d.Label}},
		})
	}
	filesystem := types.Filesystem{Device: device, Format: &d.Filesystem, Label: &d.Label, Path: &d.MountPath, WipeFilesystem: &never}
	for _, option := range d.MountOptions {
		filesystem.MountOptions = append(filesystem.MountOptions, types.MountOption(option))
	}
	storage.Filesystems = append(storage.Filesystems, filesystem)
}
