// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package expiring

import (
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"
)

// model is a Map that examines every entry on each call.
type model struct {
	limit   int
	now     time.Time
	entries []modelEntry // in the order of their writes
}

type modelEntry struct {
	key, value int
	expires    time.Time
}

func (m *model) drop(matches func(modelEntry) bool) {
	var left []modelEntry
	for _, e := range m.entries {
		if !matches(e) {
			left = append(left, e)
		}
	}
	m.entries = left
}

func (m *model) put(next modelEntry) {
	m.drop(func(e modelEntry) bool { return e.key == next.key || !e.expires.IsZero() && !m.now.Before(e.expires) })
	if !next.expires.IsZero() && !m.now.Before(next.expires) {
		return
	}
	if len(m.entries) == m.limit {
		first := m.entries[0]
		for _, e := range m.entries {
			if first.expires.IsZero() && !e.expires.IsZero() || !e.expires.IsZero() && e.expires.Before(first.expires) {
				first = e
			}
		}
		m.drop(func(e modelEntry) bool { return e.key == first.key })
	}
	m.entries = append(m.entries, next)
}

func (m *model) all() map[int]int {
	all := map[int]int{}
	for _, e := range m.entries {
		if e.expires.IsZero() || m.now.Before(e.expires) {
			all[e.key] = e.value
		}
	}
	return all
}

// TestMapBehavesLikeItsModel compares the Map after every step of a random sequence with one that is plain and slow.
func TestMapBehavesLikeItsModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		clock := clocktesting.NewFakePassiveClock(start)
		want := &model{limit: 1 + random.IntN(8), now: start}
		got := &Map[int, int]{Clock: clock, TTL: 10 * time.Second, Max: want.limit}
		for step := range 500 {
			key := random.IntN(12)
			switch random.IntN(6) {
			case 0:
				got.Set(key, step)
				want.put(modelEntry{key, step, want.now.Add(got.TTL)})
			case 1:
				expires := want.now.Add(time.Duration(random.IntN(30)-2) * time.Second)
				got.SetUntil(key, step, expires)
				want.put(modelEntry{key, step, expires})
			case 2:
				got.SetUntil(key, step, time.Time{})
				want.put(modelEntry{key: key, value: step})
			case 3:
				got.Delete(key)
				want.drop(func(e modelEntry) bool { return e.key == key })
			case 4:
				_, present := want.all()[key]
				if _, found := got.GetOrSet(key, step); found != present {
					t.Fatalf("seed %d, step %d: GetOrSet found the key: %t, want %t", seed, step, found, present)
				}
				if !present {
					want.put(modelEntry{key, step, want.now.Add(got.TTL)})
				}
			case 5:
				want.now = want.now.Add(time.Duration(random.IntN(4)) * time.Second)
				clock.SetTime(want.now)
			}
			if diff := cmp.Diff(want.all(), maps.Collect(got.All())); diff != "" {
				t.Fatalf("seed %d, step %d (-want +got):\n%s", seed, step, diff)
			}
		}
	}
}
