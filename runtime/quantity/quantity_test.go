// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package quantity

import "testing"

func TestNumbersWithNounAndVerb(t *testing.T) {
	t.Parallel()
	for n, want := range map[int32]string{0: "0 pods, 0 pods are, have", 1: "1 pod, 1 pod is, has", 2: "2 pods, 2 pods are, have"} {
		if got := Of(n, "pod") + ", " + Are(n, "pod") + ", " + Verb(n, "has", "have"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
