// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nodecache

import (
	"strings"
	"testing"
)

// TestNodesWithNamesThatNoNodeCanHaveAreLeftOut has an API server that answers with what no API server of Kubernetes stores.
// The status of a Machine could not refer to such a Node.
func TestNodesWithNamesThatNoNodeCanHaveAreLeftOut(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "A", "a/b", "../secrets", strings.Repeat("a", 254)} {
		listed, _ := filled(t, node(name, "p1", "1"), node("b", "p1", "1"))
		watched, record := filled(t, node("b", "p1", "1"))
		must(t, watched.Add(node(name, "p1", "2")))
		must(t, watched.Delete(node(name, "p1", "3")))
		for what, c := range map[string]*Cache{"listed": listed, "watched": watched} {
			if got := names(c.ByProviderID("p1")); len(got) != 1 || got[0] != "b" || c.Len() != 1 {
				t.Errorf("%q, %s: the Nodes are %q", name, what, got)
			}
		}
		if len(record.Changed) > 0 {
			t.Errorf("%q: notifies of %q", name, record.Changed)
		}
	}
}
