// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"strings"
)

// guestAddress is the address of every guest with user networking, each in a network of its own.
const guestAddress = "10.0.2.15"

// neighborAddress returns the address of a hardware address in the neighbor table of the host; empty when there is none.
func neighborAddress(mac string) string {
	content, err := os.ReadFile("/proc/net/arp")
	if err != nil {
		return ""
	}
	return findNeighbor(string(content), mac)
}

// findNeighbor reads lines of: address, type, flags, hardware address, mask, device. Flags are 0x0 for an entry without
// an answer.
func findNeighbor(table, mac string) string {
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) == 6 && strings.EqualFold(fields[3], mac) && fields[2] != "0x0" {
			return fields[0]
		}
	}
	return ""
}
