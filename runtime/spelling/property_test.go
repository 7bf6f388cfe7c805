// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package spelling

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestOneMistakeIsFound makes each kind of mistake at each place of real names: the name is offered, and no other one.
func TestOneMistakeIsFound(t *testing.T) {
	t.Parallel()
	names := []string{"cluster", "machinedeployment", "machineset", "machinehealthcheck", "bootstrapconfig", "restartremediation"}
	for _, name := range names {
		for i := range len(name) {
			mistakes := []string{name[:i] + name[i+1:], name[:i] + "x" + name[i:], name[:i] + "x" + name[i+1:], strings.ToUpper(name[:i]) + name[i:]}
			if i > 0 {
				mistakes = append(mistakes, name[:i-1]+string(name[i])+string(name[i-1])+name[i+1:])
			}
			for _, wrong := range mistakes {
				if got, found := Nearest(wrong, names); !found || got != name {
					t.Errorf("%q: got %q, want %q", wrong, got, name)
				}
			}
		}
	}
}

// TestDistanceIsThatOfTexts: it is 0 for the same text alone, the same both ways, and at least the difference of the lengths.
func TestDistanceIsThatOfTexts(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewChaCha8([32]byte{2}))
	text := func() string {
		b := make([]byte, r.IntN(6))
		for i := range b {
			b[i] = "abc"[r.IntN(3)]
		}
		return string(b)
	}
	for range 3000 {
		a, b := text(), text()
		d := distance(a, b)
		if d != distance(b, a) || (d == 0) != (a == b) || d < max(len(a), len(b))-min(len(a), len(b)) || d > max(len(a), len(b)) {
			t.Fatalf("the distance of %q and %q is %d, and %d the other way round", a, b, d, distance(b, a))
		}
	}
}

// TestNothingNearIsOffered has words that are too far, too short, and no names at all.
func TestNothingNearIsOffered(t *testing.T) {
	t.Parallel()
	for wrong, names := range map[string][]string{"database": {"cluster", "machine"}, "ab": {"xy"}, "machine": nil, "": {"machine"}} {
		if got, found := Nearest(wrong, names); found {
			t.Errorf("%q: got %q of %q", wrong, got, names)
		}
	}
	// The order of the names decides between those that differ alike.
	names := []string{"web-1", "web-2"}
	for range 2 {
		if got, _ := Nearest("web-3", names); got != names[0] {
			t.Errorf("got %q of %q", got, names)
		}
		slices.Reverse(names)
	}
}
