// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"strings"
)

// guestAddress is what user networking gives every guest, each in a network of its own.
const guestAddress = "10.0.2.15"

// neighbour looks an address up in the table of those that the host has spoken to; empty when there is none.
func neighbour(mac string) string {
	content, err := os.ReadFile("/proc/net/arp")
	if err != nil {
		return ""
	}
	return neighbourIn(string(content), mac)
}

// neighbourIn reads lines of: address, type, flags, hardware address, mask, device. Flags are 0x0 for an entry
// that was asked for and not answered.
func neighbourIn(table, mac string) string {
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) == 6 && strings.EqualFold(fields[3], mac) && fields[2] != "0x0" {
			return fields[0]
		}
	}
	return ""
}
