// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestMemory follows one management cluster and its copy: the provider runs until noon, is gone for an hour, and a
// provider starts at one o'clock.
func TestMemory(t *testing.T) {
	t.Parallel()
	namespace, err := cluster.Namespace(t.Context(), "memory")
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakeClock(noon.Add(-time.Hour))
	provider := func(holder string) *Memory {
		return &Memory{Client: cluster.Client, Key: client.ObjectKey{Namespace: namespace, Name: "m"}, Holder: holder, Clock: clock}
	}
	renew := func(m *Memory) {
		t.Helper()
		if err := m.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	first := provider("first")
	if first.Ours("x", noon.Add(-24*time.Hour)) {
		t.Error("something is ours before the memory was read")
	}
	renew(first)
	if first.Ours("x", noon.Add(-24*time.Hour)) {
		t.Error("something is ours that was created before any memory")
	}
	clock.SetTime(noon)
	renew(first)
	first.Created("by-first")
	clock.SetTime(noon.Add(time.Hour))
	second := provider("second")
	renew(second)
	second.Created("by-second")
	for name, test := range map[string]struct {
		uid     types.UID
		created time.Time
		want    bool
	}{
		"keeps what the provider before created":                        {"x", noon.Add(-time.Minute), true},
		"keeps what it created between its last heartbeat and its end":  {"x", noon.Add(time.Minute), true},
		"disowns what was created while none was running":               {"x", noon.Add(30 * time.Minute), false},
		"disowns what was created since, and not by this process":       {"x", noon.Add(2 * time.Hour), false},
		"keeps what this process created":                               {"by-second", noon.Add(2 * time.Hour), true},
		"disowns what has no creation time":                             {"x", time.Time{}, false},
		"does not know what the process before created, except by time": {"by-first", noon.Add(30 * time.Minute), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := second.Ours(test.uid, test.created); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
	clock.SetTime(noon.Add(3 * time.Hour))
	renew(second)
	if second.Ours("x", noon.Add(30*time.Minute)) {
		t.Error("a heartbeat of its own changed the time before it")
	}
	clock.SetTime(noon.Add(3*time.Hour + time.Minute))
	third := provider("third")
	renew(third)
	if third.Ours("x", noon.Add(30*time.Minute)) {
		t.Error("after a restart, something is ours that was created while no provider was running")
	}
	for name, created := range map[string]time.Time{"first": noon.Add(-time.Minute), "second": noon.Add(2 * time.Hour)} {
		if !third.Ours("x", created) {
			t.Errorf("what the %s provider created is not ours after restarts", name)
		}
	}
}

func TestEarlierTimesWithoutAProviderAreBounded(t *testing.T) {
	t.Parallel()
	stored := &coordinationv1.Lease{}
	last := time.Unix(1_000_000, 0)
	for n := range 2 * maxGaps {
		gaps, err := addGap(stored, last, last.Add(time.Hour))
		if err != nil || len(gaps) != min(n+1, maxGaps) || !gaps[len(gaps)-1].has(last.Add(30*time.Minute)) {
			t.Fatalf("%d gaps after %d restarts, %v", len(gaps), n+1, err)
		}
		last = last.Add(2 * time.Hour)
	}
	stored.Annotations[gapsAnnotation] = "{"
	if _, err := addGap(stored, last, last.Add(time.Hour)); err == nil {
		t.Error("an annotation that cannot be read was replaced")
	}
}

func TestCreationsExpire(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Unix(1_000_000, 0))
	m := &Memory{Clock: clock}
	for n := range 1000 {
		m.Created(types.UID(fmt.Sprint("uid-", n)))
		m.Created("again")
		clock.Step(createdTTL / 100)
	}
	if got := m.creations().Len(); got > 102 {
		t.Errorf("%d creations are kept, want those of the last %s", got, createdTTL)
	}
	for uid, want := range map[types.UID]bool{"again": true, "uid-999": true, "uid-901": true, "uid-899": false} {
		if got := m.Ours(uid, time.Time{}); got != want {
			t.Errorf("%s: got ours %t, want %t", uid, got, want)
		}
	}
}
