// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/node/quote"
)

// Disk is a disk to give a file system and to mount. The mount itself is one of the units.
type Disk struct {
	Device string

	// Partitioned is true where the file system is in the only partition of a GUID partition table.
	Partitioned bool

	Filesystem, Label, MountPath string
	MountOptions                 []string
}

// reservedTrees are folders that a running host needs as they are, with everything below them; reservedDirs are
// folders that it needs themselves.
var (
	reservedTrees = []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/oem", "/proc", "/run", "/sbin", "/sys", "/tmp", "/usr", "/var/run"}
	reservedDirs  = []string{"/var", "/var/lib", "/var/lib/cloud", "/root"}
)

// addDisks must come first: the services wait for the mounts.
func addDisks(n *Node, _ distribution, in Input) error {
	for i, d := range in.Spec.Disks {
		field := "spec.disks[" + itoa(i) + "]"
		if err := checkDisk(n.Disks, d, field); err != nil {
			return err
		}
		disk := Disk{
			Device:       d.Device,
			Partitioned:  d.PartitionTable == bootstrapv1.PartitionTableGPT,
			Filesystem:   string(d.Filesystem),
			Label:        d.Label,
			MountPath:    d.MountPath,
			MountOptions: d.MountOptions,
		}
		if disk.Filesystem == "" {
			disk.Filesystem = string(bootstrapv1.Ext4)
		}
		n.Disks = append(n.Disks, disk)
	}
	// A mount below another one comes after it.
	slices.SortFunc(n.Disks, func(a, b Disk) int { return strings.Compare(a.MountPath, b.MountPath) })
	for _, d := range n.Disks {
		n.Units = append(n.Units, Unit{Name: d.unit(), Content: d.mount(), Enabled: true})
	}
	return nil
}

func checkDisk(known []Disk, d bootstrapv1.Disk, field string) error {
	for _, other := range known {
		switch {
		case other.Device == d.Device:
			return invalid(field+".device", "%s is there twice: a disk holds one file system", d.Device)
		case other.Label == d.Label:
			return invalid(field+".label", "%q is there twice: file systems are found by their labels", d.Label)
		case other.MountPath == d.MountPath:
			return invalid(field+".mountPath", "%s is there twice", d.MountPath)
		}
	}
	within := func(folder string) bool { return d.MountPath == folder || strings.HasPrefix(d.MountPath, folder+"/") }
	if slices.ContainsFunc(reservedTrees, within) || slices.Contains(reservedDirs, d.MountPath) {
		return invalid(field+".mountPath", "the host needs %s as it is", d.MountPath)
	}
	return nil
}

// source is the file system as the host finds it once it exists.
func (d Disk) source() string { return "/dev/disk/by-label/" + d.Label }

func (d Disk) unit() string { return unit.UnitNamePathEscape(d.MountPath) + ".mount" }

func (d Disk) mount() string {
	options := append([]string{"defaults"}, d.MountOptions...)
	return "[Unit]\nDescription=File system " + d.Label + "\nBefore=local-fs.target\n\n" +
		"[Mount]\nWhat=" + d.source() + "\nWhere=" + d.MountPath + "\nType=" + d.Filesystem + "\nOptions=" + strings.Join(options, ",") + "\n\n" +
		"[Install]\nWantedBy=local-fs.target\n"
}

// requiresMounts is what keeps a service from starting on the disk below a mount that failed.
func (n *Node) requiresMounts() string {
	if len(n.Disks) == 0 {
		return ""
	}
	paths := make([]string, 0, len(n.Disks))
	for _, d := range n.Disks {
		paths = append(paths, d.MountPath)
	}
	return "RequiresMountsFor=" + strings.Join(paths, " ") + "\n"
}

// mountFunction mounts a file system where it is not mounted yet. Files that were written below the folder
// before there was a disk, which is when cloud-init writes them, move along.
const mountFunction = `mount_disk() { # unit, folder, file system
  if mountpoint --quiet "$2"; then return; fi
  if ! [ -e "$3" ]; then
    echo "bootstrap: there is no $3: its disk is missing or holds something else" >&2
    return 1
  fi
  mkdir -p "$2" /run/drover/disk
  mount "$3" /run/drover/disk
  cp -a "$2/." /run/drover/disk/
  umount /run/drover/disk
  systemctl enable --quiet "$1"
  systemctl start "$1"
}`

func (n *Node) writeMounts(line func(string, ...any)) {
	if len(n.Disks) == 0 {
		return
	}
	line("%s", mountFunction)
	line("systemctl daemon-reload")
	line("udevadm settle")
	for _, d := range n.Disks {
		line("mount_disk %s %s %s", quote.Shell(d.unit()), quote.Shell(d.MountPath), quote.Shell(d.source()))
	}
}
