// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package spelling finds the name that is meant by one with a spelling mistake. It is pure.
package spelling

import "strings"

// Nearest returns the name that differs least from another one, if that is little: in case only, or in a third of its
// characters, three at most. The first is returned where several differ alike.
func Nearest(wrong string, names []string) (string, bool) {
	best, least := "", min(max(len(wrong)/3, 1), 3)+1
	for _, name := range names {
		if d := distance(strings.ToLower(wrong), strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}
	return best, best != ""
}

// distance is how many characters are to be inserted, deleted, replaced or swapped with the next one, so that one text
// becomes the other.
func distance(a, b string) int {
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
