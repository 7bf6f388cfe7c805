// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package quantity

import "testing"

func TestOf(t *testing.T) {
	t.Parallel()
	for want, n := range map[string]int32{"0 pods": 0, "1 pod": 1, "2 pods": 2} {
		if got := Of(n, "pod"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
