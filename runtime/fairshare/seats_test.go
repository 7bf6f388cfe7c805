// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package fairshare_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"drover.io/runtime/fairshare"
)

// TestPlaceThatIsGivenBackIsFreeForAll: a holder who has given all back has no claim on them.
func TestPlaceThatIsGivenBackIsFreeForAll(t *testing.T) {
	t.Parallel()
	seats := fairshare.New[string](4)
	for step, test := range []struct {
		holder string
		give   bool
		want   bool
	}{
		{"a", false, true},
		{"a", false, true},
		{"a", false, false}, // two are free, and it has two
		{"b", false, true},
		{"b", false, false}, // one is free, and it has one
		{"c", false, true},
		{"d", false, false}, // none is free
		{"a", true, true},
		{"a", true, true},
		{"a", false, true},
		{"d", false, true},
		{"d", false, false},
	} {
		if test.give {
			seats.Release(test.holder)
			continue
		}
		if got := seats.Acquire(test.holder); got != test.want {
			t.Errorf("step %d: %s gets a seat: %t, want %t", step, test.holder, got, test.want)
		}
	}
}

func TestSeatsAreNeverMoreThanThereAre(t *testing.T) {
	t.Parallel()
	const all = 10
	seats := fairshare.New[int](all)
	var taken atomic.Int32
	var group sync.WaitGroup
	for holder := range 8 {
		group.Go(func() {
			for range 1000 {
				if !seats.Acquire(holder) {
					continue
				}
				if now := taken.Add(1); now > all {
					t.Errorf("%d seats are taken", now)
				}
				taken.Add(-1)
				seats.Release(holder)
			}
		})
	}
	group.Wait()
	for holder := range all {
		if !seats.Acquire(holder) {
			t.Fatalf("only %d seats are given back", holder)
		}
	}
}
