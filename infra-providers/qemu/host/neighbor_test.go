// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package host

import "testing"

func TestFindNeighbor(t *testing.T) {
	t.Parallel()
	const table = `IP address       HW type     Flags       HW address            Mask     Device
10.0.0.4         0x1         0x0         52:54:00:00:00:02     *        br0
10.0.0.5         0x1         0x2         52:54:00:00:00:01     *        br0
`
	for mac, want := range map[string]string{"52:54:00:00:00:01": "10.0.0.5", "52:54:00:00:00:02": "", "52:54:00:00:00:03": ""} {
		if got := findNeighbor(table, mac); got != want {
			t.Errorf("%s: got %q, want %q", mac, got, want)
		}
	}
}
