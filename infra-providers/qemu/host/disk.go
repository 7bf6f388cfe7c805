// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
)

// virtualSize reads the size that a qcow2 disk shows to its guest: a big-endian number at the 24th byte.
func virtualSize(path string) (int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close() //nolint:errcheck // read only
	header := make([]byte, 32)
	if _, err := io.ReadFull(file, header); err != nil {
		return 0, err
	}
	if string(header[:4]) != "QFI\xfb" {
		return 0, errors.New("it is not a qcow2 disk")
	}
	return int64(binary.BigEndian.Uint64(header[24:])), nil //nolint:gosec // no disk has an exbibyte
}
