// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package expiring

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// newMap returns a Map of one minute and its clock.
func newMap(limit int) (*Map[string, int], *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(start)
	return &Map[string, int]{Clock: clock, TTL: time.Minute, Max: limit}, clock
}

// after moves the clock to a time after the start.
func after(clock *clocktesting.FakePassiveClock, d time.Duration) { clock.SetTime(start.Add(d)) }

func expect(t *testing.T, m *Map[string, int], want map[string]int) {
	t.Helper()
	if diff := cmp.Diff(want, maps.Collect(m.All())); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if m.Len() != len(want) {
		t.Errorf("Len is %d, want %d", m.Len(), len(want))
	}
	if len(m.queue) != len(m.entries) {
		t.Errorf("%d entries are queued, %d are kept", len(m.queue), len(m.entries))
	}
	for key, value := range want {
		if got, found := m.Get(key); !found || got != value || !m.Has(key) {
			t.Errorf("Get(%q) is %d, %t, want %d", key, got, found, value)
		}
	}
}

func TestZeroMapIsReady(t *testing.T) {
	t.Parallel()
	m := &Map[string, int]{}
	if value, found := m.Get("a"); found || value != 0 || m.Has("a") || m.Len() != 0 {
		t.Errorf("an empty Map has %d, %t", value, found)
	}
	m.Delete("a")
	m.Set("a", 1)
	expect(t, m, map[string]int{"a": 1})
	m.Delete("a")
	expect(t, m, map[string]int{})
}

func TestZeroMapUsesTheRealClock(t *testing.T) {
	t.Parallel()
	m := &Map[string, int]{TTL: time.Nanosecond}
	m.Set("a", 1)
	time.Sleep(time.Microsecond)
	if m.Has("a") {
		t.Error("the entry has not expired")
	}
}

func TestEntryExpiresAtTheEndOfItsTTL(t *testing.T) {
	t.Parallel()
	m, clock := newMap(0)
	m.Set("a", 1)
	after(clock, time.Minute-1)
	expect(t, m, map[string]int{"a": 1})
	after(clock, time.Minute)
	if m.Len() != 0 || m.Has("a") {
		t.Error("the entry has outlived its TTL")
	}
	expect(t, m, map[string]int{})
}

func TestEntryWithoutTTLStays(t *testing.T) {
	t.Parallel()
	m, clock := newMap(0)
	m.TTL = 0
	m.Set("a", 1)
	after(clock, 1000*time.Hour)
	expect(t, m, map[string]int{"a": 1})
}

func TestSetExtendsTheTime(t *testing.T) {
	t.Parallel()
	m, clock := newMap(0)
	m.Set("a", 1)
	after(clock, 40*time.Second)
	m.Set("a", 2)
	after(clock, 99*time.Second)
	expect(t, m, map[string]int{"a": 2})
	after(clock, 100*time.Second)
	expect(t, m, map[string]int{})
}

func TestSetUntilHasItsOwnTime(t *testing.T) {
	t.Parallel()
	m, clock := newMap(0)
	m.SetUntil("short", 1, start.Add(time.Second))
	m.SetUntil("long", 2, start.Add(time.Hour))
	m.SetUntil("forever", 3, time.Time{})
	m.Set("usual", 4)
	expect(t, m, map[string]int{"short": 1, "long": 2, "forever": 3, "usual": 4})
	after(clock, time.Second)
	expect(t, m, map[string]int{"long": 2, "forever": 3, "usual": 4})
	after(clock, time.Minute)
	expect(t, m, map[string]int{"long": 2, "forever": 3})
	after(clock, time.Hour)
	expect(t, m, map[string]int{"forever": 3})
}

func TestSetUntilThePastDeletes(t *testing.T) {
	t.Parallel()
	m, _ := newMap(1)
	m.Set("a", 1)
	m.SetUntil("b", 2, start)
	expect(t, m, map[string]int{"a": 1})
	m.SetUntil("a", 3, start.Add(-time.Hour))
	expect(t, m, map[string]int{})
}

func TestGetOrSetKeepsTheFirstValueAndItsTime(t *testing.T) {
	t.Parallel()
	m, clock := newMap(0)
	if got, found := m.GetOrSet("a", 1); got != 1 || found {
		t.Errorf("the first call returns %d, %t", got, found)
	}
	after(clock, 40*time.Second)
	if got, found := m.GetOrSet("a", 2); got != 1 || !found {
		t.Errorf("the second call returns %d, %t", got, found)
	}
	after(clock, time.Minute)
	if got, found := m.GetOrSet("a", 3); got != 3 || found {
		t.Errorf("a call after the end returns %d, %t", got, found)
	}
	after(clock, 2*time.Minute-1)
	expect(t, m, map[string]int{"a": 3})
}

func TestUpdateReplacesExtendsAndDeletes(t *testing.T) {
	t.Parallel()
	m, clock := newMap(0)
	increment := func(current int, found bool) (int, bool) {
		if !found && current != 0 {
			t.Errorf("an absent key has the value %d", current)
		}
		return current + 1, current < 2
	}
	m.Update("a", increment)
	expect(t, m, map[string]int{"a": 1})
	after(clock, 40*time.Second)
	m.Update("a", increment)
	after(clock, 99*time.Second)
	expect(t, m, map[string]int{"a": 2})
	m.Update("a", increment)
	expect(t, m, map[string]int{})
	m.Update("b", func(_ int, found bool) (int, bool) { return 1, found })
	expect(t, m, map[string]int{})
	m.Set("a", 1)
	after(clock, time.Hour)
	m.Update("a", func(current int, found bool) (int, bool) {
		if found || current != 0 {
			t.Errorf("an expired key has the value %d, %t", current, found)
		}
		return 7, true
	})
	expect(t, m, map[string]int{"a": 7})
}

func TestFullMapEvictsOnlyTheOldest(t *testing.T) {
	t.Parallel()
	m, clock := newMap(3)
	for i, key := range []string{"a", "b", "c"} {
		after(clock, time.Duration(i)*time.Second)
		m.Set(key, i)
	}
	after(clock, 3*time.Second)
	m.Set("a", 3) // the oldest is b now
	expect(t, m, map[string]int{"a": 3, "b": 1, "c": 2})
	m.Set("d", 4)
	expect(t, m, map[string]int{"a": 3, "c": 2, "d": 4})
	m.GetOrSet("e", 5)
	expect(t, m, map[string]int{"a": 3, "d": 4, "e": 5})
	m.Update("f", func(int, bool) (int, bool) { return 6, true })
	expect(t, m, map[string]int{"d": 4, "e": 5, "f": 6})
}

func TestEntriesThatNeverExpireAreEvictedInTheOrderOfTheirWrites(t *testing.T) {
	t.Parallel()
	m, _ := newMap(2)
	m.TTL = 0
	for i, key := range []string{"a", "b", "a", "c"} {
		m.Set(key, i)
	}
	expect(t, m, map[string]int{"a": 2, "c": 3})
}

func TestEvictionPrefersWhatExpiresFirst(t *testing.T) {
	t.Parallel()
	m, _ := newMap(3)
	m.SetUntil("forever", 0, time.Time{})
	m.SetUntil("long", 1, start.Add(time.Hour))
	m.SetUntil("short", 2, start.Add(time.Second))
	m.Set("a", 3)
	expect(t, m, map[string]int{"forever": 0, "long": 1, "a": 3})
	m.Set("b", 4)
	expect(t, m, map[string]int{"forever": 0, "long": 1, "b": 4})
	m.SetUntil("c", 5, time.Time{})
	m.SetUntil("d", 6, time.Time{})
	expect(t, m, map[string]int{"forever": 0, "c": 5, "d": 6})
	m.SetUntil("e", 7, time.Time{})
	expect(t, m, map[string]int{"c": 5, "d": 6, "e": 7})
}

func TestExpiredEntriesAreEvictedFirst(t *testing.T) {
	t.Parallel()
	m, clock := newMap(2)
	m.SetUntil("short", 1, start.Add(time.Second))
	m.SetUntil("forever", 2, time.Time{})
	after(clock, time.Second)
	m.Set("a", 3)
	expect(t, m, map[string]int{"forever": 2, "a": 3})
}

func TestWriteFreesWhatHasExpired(t *testing.T) {
	t.Parallel()
	m, clock := newMap(0)
	for i := range 100 {
		m.Set(fmt.Sprint(i), i)
	}
	after(clock, time.Minute)
	m.Set("a", 1)
	if len(m.entries) != 1 || len(m.queue) != 1 {
		t.Errorf("%d entries and a queue of %d are left", len(m.entries), len(m.queue))
	}
}

func TestRepeatedWritesOfOneKeyTakeNoMemory(t *testing.T) {
	t.Parallel()
	m, _ := newMap(0)
	for i := range 1000 {
		m.Set("a", i)
		m.Delete("b")
		m.Set("b", i)
	}
	expect(t, m, map[string]int{"a": 999, "b": 999})
}

func TestDefaultMaxBoundsTheMap(t *testing.T) {
	t.Parallel()
	m := &Map[int, struct{}]{}
	for i := range DefaultMax + 1 {
		m.Set(i, struct{}{})
	}
	if m.Len() != DefaultMax || m.Has(0) || !m.Has(1) {
		t.Errorf("there are %d entries; the first is kept: %t, the second: %t", m.Len(), m.Has(0), m.Has(1))
	}
}

func TestMapMayBeWrittenWhileItIsIterated(t *testing.T) {
	t.Parallel()
	m, _ := newMap(0)
	m.Set("a", 1)
	m.Set("b", 2)
	seen := 0
	for key := range m.All() {
		m.Delete(key)
		m.Set("new "+key, 3)
		seen++
	}
	if seen != 2 {
		t.Errorf("%d entries were seen, want 2", seen)
	}
	for range m.All() {
		seen++
		break
	}
	if seen != 3 {
		t.Error("the iteration has not stopped")
	}
	expect(t, m, map[string]int{"new a": 3, "new b": 3})
}

func TestUpdateIsAtomic(t *testing.T) {
	t.Parallel()
	m := &Map[string, int]{TTL: time.Hour}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 500 {
				m.Update("a", func(current int, _ bool) (int, bool) { return current + 1, true })
				m.GetOrSet("b", 1)
				m.Get("a")
			}
		})
	}
	group.Wait()
	expect(t, m, map[string]int{"a": 4000, "b": 1})
}
