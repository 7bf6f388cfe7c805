// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package qemufake

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// image is qemu-img for `create` and `resize`: it writes only the header of a disk.
func image(args []string) error {
	var plain []string
	base := ""
	for i := 1; i < len(args); i++ {
		switch args[i] {
		case "-q":
		case "-b":
			i++
			base = args[i]
		case "-f", "-F":
			i++
		default:
			plain = append(plain, args[i])
		}
	}
	size := int64(1 << 20)
	if base != "" {
		if _, err := os.Stat(base); err != nil {
			return fmt.Errorf("could not open backing file %q", base)
		}
	}
	if len(plain) == 2 {
		var err error
		if size, err = strconv.ParseInt(plain[1], 10, 64); err != nil {
			return err
		}
	}
	if len(plain) == 0 || args[0] != "create" && args[0] != "resize" {
		return errors.New("only create and resize of one disk")
	}
	return os.WriteFile(plain[0], Disk(size, base), 0o600)
}

// Disk returns the first cluster of an empty qcow2 disk, with a backing file if that has a name.
func Disk(size int64, backing string) []byte {
	const cluster, nameAt = 1 << 16, 512
	disk := append([]byte("QFI\xfb\x00\x00\x00\x03"), make([]byte, cluster-8)...)
	put := binary.BigEndian
	if backing != "" {
		put.PutUint64(disk[8:], nameAt)
		put.PutUint32(disk[16:], uint32(copy(disk[nameAt:], backing))) //nolint:gosec // it fits in a cluster
	}
	put.PutUint32(disk[20:], 16)
	put.PutUint64(disk[24:], uint64(size)) //nolint:gosec // sizes are not negative
	put.PutUint32(disk[100:], 104)
	return disk
}
