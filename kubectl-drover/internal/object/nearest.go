// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package object

import "slices"

// Nearest returns the word of some that differs least from a word; empty if none is near.
func Nearest(word string, known []string) string {
	best, least := "", len(word)/3+2
	for _, each := range slices.Sorted(slices.Values(known)) {
		if d := distance(word, each); d < least {
			best, least = each, d
		}
	}
	return best
}

// distance is how many characters must be inserted, removed or replaced to make one word from another.
func distance(a, b string) int {
	previous := make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := range len(a) {
		current := make([]int, len(b)+1)
		current[0] = i + 1
		for j := range len(b) {
			replaced := previous[j]
			if a[i] != b[j] {
				replaced++
			}
			current[j+1] = min(replaced, previous[j+1]+1, current[j]+1)
		}
		previous = current
	}
	return previous[len(b)]
}
