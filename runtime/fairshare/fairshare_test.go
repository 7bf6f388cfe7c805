// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package fairshare_test

import (
	"testing"

	"drover.io/runtime/fairshare"
)

func TestSeats(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		seats   int
		holders []string
		// gets is how many seats each gets in turns until none is left.
		gets map[string]int
	}{
		"one alone gets half":       {10, []string{"a"}, map[string]int{"a": 5}},
		"two get a third each":      {9, []string{"a", "b"}, map[string]int{"a": 3, "b": 3}},
		"one seat is for the first": {1, []string{"a", "b"}, map[string]int{"a": 1}},
	} {
		seats, got := fairshare.New[string](test.seats), map[string]int{}
		for range test.seats {
			for _, holder := range test.holders {
				if seats.Acquire(holder) {
					got[holder]++
				}
			}
		}
		for _, holder := range test.holders {
			if got[holder] != test.gets[holder] {
				t.Errorf("%s: got %v, want %v", name, got, test.gets)
			}
		}
		for holder, n := range got {
			for range n {
				seats.Release(holder)
			}
		}
		if !seats.Acquire("b") {
			t.Errorf("%s: nothing was given back", name)
		}
	}
	unlimited := fairshare.New[int](0)
	for range 100 {
		if !unlimited.Acquire(1) {
			t.Fatal("there is a limit")
		}
	}
}
