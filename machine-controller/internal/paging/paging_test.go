// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package paging

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"drover.io/runtime/httplimit"
)

func TestRead(t *testing.T) {
	t.Parallel()
	failure := errors.New("no answer")
	for name, test := range map[string]struct {
		pages int // that the list has; 0 is without end
		fails error
		reads int
		err   error
	}{
		"a list of one page ends":           {1, nil, 1, nil},
		"a list of some pages ends":         {3, nil, 3, nil},
		"the longest list ends":             {Max, nil, Max, nil},
		"a list that does not end is ended": {0, nil, Max, ErrEndless},
		"a failure ends it":                 {3, failure, 1, failure},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reads := 0
			err := Read(500, func(size int64, token string) (string, error) {
				if want := fmt.Sprint(reads); reads > 0 && token != want || reads == 0 && token != "" || size != 500 {
					t.Errorf("requested %d after %q", size, token)
				}
				reads++
				if reads == test.pages {
					return "", test.fails
				}
				return fmt.Sprint(reads), test.fails
			})
			if reads != test.reads || !errors.Is(err, test.err) {
				t.Errorf("%d pages, %v; want %d, %v", reads, err, test.reads, test.err)
			}
		})
	}
}

// TestAPageOfTooManyElementsIsReadInHalves, as are those after it.
func TestAPageOfTooManyElementsIsReadInHalves(t *testing.T) {
	t.Parallel()
	for most, want := range map[int64][]int64{2: {8, 4, 2, 2}, 1: {8, 4, 2, 1, 1}, 0: {8, 4, 2, 1}} {
		var sizes []int64
		err := Read(8, func(size int64, token string) (string, error) {
			sizes = append(sizes, size)
			switch {
			case size > most:
				return "", fmt.Errorf("listing: %w", &httplimit.TooManyElementsError{Limit: 1})
			case token == "":
				return "next", nil
			}
			return "", nil
		})
		if !slices.Equal(sizes, want) || tooMany(err) != (most == 0) {
			t.Errorf("at most %d: asked for %d, %v; want %d", most, sizes, err, want)
		}
	}
}

// TestBudget keeps objects until they are too many together.
func TestBudget(t *testing.T) {
	t.Parallel()
	budget, kept := Budget{}, 0
	for budget.Keep(sized(1<<20-overhead)) == nil {
		kept++
	}
	if kept != Kept>>20 {
		t.Errorf("%d MiB are kept", kept)
	}
	empty, objects := Budget{}, 0
	for empty.Keep(sized(0)) == nil {
		objects++
	}
	if objects != Kept/overhead {
		t.Errorf("%d objects without fields are kept", objects)
	}
	if err := budget.Keep(sized(1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

type sized int

func (s sized) Size() int { return int(s) }
