// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// image behaves as qemu-img does for `create` and `resize`: it makes the header of a disk, and no disk.
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
	header := append([]byte("QFI\xfb"), make([]byte, 28)...)
	binary.BigEndian.PutUint64(header[24:], uint64(size)) //nolint:gosec // sizes are not negative
	return os.WriteFile(plain[0], header, 0o600)
}
