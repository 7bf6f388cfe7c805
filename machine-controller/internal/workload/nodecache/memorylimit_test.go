// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nodecache

import (
	"errors"
	"strconv"
	"testing"
)

// TestNodesCountAgainstMemoryLimit has memory for four Nodes in each namespace.
func TestNodesCountAgainstMemoryLimit(t *testing.T) {
	t.Parallel()
	one := size(node("a", "sim://x", "1"))
	memory := NewMemoryLimit(4 * one)
	full := 0
	cache := func(namespace string) *Cache { return New(Observer{Full: func() { full++ }}, memory, namespace) }
	expect := func(what string, taken int64, fulls int) {
		t.Helper()
		if got := memory.taken["tenant"]; got != taken*one || full != fulls {
			t.Errorf("%s: %d bytes are taken, want %d; full was told %d times, want %d", what, got, taken*one, full, fulls)
		}
	}
	a, b, other := cache("tenant"), cache("tenant"), cache("other")
	must(t, a.Replace([]any{node("a", "sim://x", "1"), node("b", "sim://x", "1")}, "1"))
	expect("a list", 2, 0)
	must(t, b.Add(node("c", "sim://x", "1")))
	must(t, b.Update(node("c", "sim://x", "2")))
	expect("an update", 3, 0)
	must(t, b.Add(node("d", "sim://x", "1")))
	if err := b.Add(node("e", "sim://x", "1")); !errors.Is(err, ErrFull) {
		t.Errorf("a Node too many: %v", err)
	}
	if _, found := b.Node("e"); found {
		t.Error("a Node beyond the limit is kept")
	}
	expect("a Node too many", 4, 1)
	must(t, other.Replace([]any{node("a", "sim://x", "1"), node("b", "sim://x", "1")}, "1"))
	must(t, b.Delete(node("d", "sim://x", "1")))
	expect("a Node is deleted", 3, 1)
	must(t, b.Delete(node("d", "sim://x", "1")))
	expect("a Node is deleted twice", 3, 1)

	arrive := b.Transformer()
	if _, err := arrive(node("f", "sim://x", "1")); err != nil {
		t.Error(err)
	}
	expect("a Node arrives", 4, 1)
	if _, err := arrive(node("g", "sim://x", "1")); !errors.Is(err, ErrFull) {
		t.Errorf("one too many arrives: %v", err)
	}
	expect("one too many arrives", 4, 2)
	b.Begin()
	expect("another list begins", 3, 2)
	if _, err := b.Arrive(node("f", "sim://x", "1")); err != nil {
		t.Error(err)
	}
	must(t, b.Replace([]any{node("f", "sim://x", "1")}, "2"))
	expect("a list takes the seat of another", 3, 2)
	if err := b.Replace([]any{node("f", "sim://x", "1"), node("g", "sim://x", "1"), node("h", "sim://x", "1")}, "3"); !errors.Is(err, ErrFull) {
		t.Errorf("a list of too many: %v", err)
	}
	expect("a list of too many", 3, 3)
	a.Release()
	a.Release()
	must(t, a.Add(node("z", "sim://x", "1")))
	b.Release()
	expect("all is over", 0, 3)
	if len(memory.taken) != 1 {
		t.Errorf("namespaces without Nodes are kept: %v", memory.taken)
	}
}

// TestNodesWithOneProviderIDAreOrdered, in whatever order they come.
func TestNodesWithOneProviderIDAreOrdered(t *testing.T) {
	t.Parallel()
	c, _ := filled(t, node("d", "sim://x", "1"), node("b", "sim://x", "1"))
	held := c.ByProviderID("sim://x")
	for i, name := range []string{"c", "a", "e", "b"} {
		must(t, c.Update(node(name, "sim://x", strconv.Itoa(i+2))))
	}
	if got, before := names(c.ByProviderID("sim://x")), names(held); len(got) != 5 || got[0] != "a" || got[1] != "b" || got[2] != "c" || got[3] != "d" || got[4] != "e" || before[0] != "b" || before[1] != "d" {
		t.Errorf("got %v, and an earlier read has %v", got, before)
	}
}
