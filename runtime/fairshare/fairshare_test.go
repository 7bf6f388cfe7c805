// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package fairshare_test

import (
	"testing"

	"drover.io/runtime/fairshare"
)

func TestPlaces(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		places  int
		holders []string
		// gets is how many places each gets in turns until none is left.
		gets map[string]int
	}{
		"one alone gets half":        {10, []string{"a"}, map[string]int{"a": 5}},
		"two get a third each":       {9, []string{"a", "b"}, map[string]int{"a": 3, "b": 3}},
		"one place is for the first": {1, []string{"a", "b"}, map[string]int{"a": 1}},
	} {
		places, got := fairshare.New[string](test.places), map[string]int{}
		for range test.places {
			for _, holder := range test.holders {
				if places.Take(holder) {
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
				places.Give(holder)
			}
		}
		if !places.Take("b") {
			t.Errorf("%s: nothing was given back", name)
		}
	}
	unlimited := fairshare.New[int](0)
	for range 100 {
		if !unlimited.Take(1) {
			t.Fatal("there is a limit")
		}
	}
}
