// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package panicerror

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
)

func TestCallReturnsTheErrorOfAPanic(t *testing.T) {
	t.Parallel()
	var none []int
	for name, call := range map[string]func() error{
		"of a value":       func() error { panic("odd") },
		"of a long value":  func() error { panic(strings.Repeat("odd", 1<<20)) },
		"of the runtime":   func() error { return errors.New(strings.Repeat("x", none[1])) },
		"of an error":      func() error { panic(errors.New("odd")) },
		"of a nil pointer": func() error { var e *Error; return errors.New(e.Value) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := errors.AsType[*Error](Call(call))
			if !ok {
				t.Fatal("got no Error")
			}
			if got.Value == "" || len(got.Value) > maxValue || !strings.Contains(got.Stack, "panicerror_test.go") {
				t.Errorf("got %q with the stack %s", got.Value, got.Stack)
			}
		})
	}
	failure := errors.New("refused")
	if err := Call(func() error { return failure }); !errors.Is(err, failure) {
		t.Errorf("got %v, want the call's own error", err)
	}
}

// numbers yields so many numbers, and then panics.
func numbers(many int) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for n := range many {
			if !yield(n, nil) {
				return
			}
		}
		panic("odd")
	}
}

func TestSeqYieldsAPanicAsItsLastElement(t *testing.T) {
	t.Parallel()
	var got []int
	var last error
	for n, err := range Seq(numbers(3)) {
		if last = err; err == nil {
			got = append(got, n)
		}
	}
	if _, ok := errors.AsType[*Error](last); !ok || !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("got %v and %v", got, last)
	}
}

func TestSeqEndsWhereTheCallerEnds(t *testing.T) {
	t.Parallel()
	for n, err := range Seq(numbers(3)) {
		if err != nil {
			t.Error(err)
		}
		if n == 1 {
			break
		}
	}
}

// TestSeqKeepsNoPanicOfItsCaller: the caller's loop is not part of the sequence.
func TestSeqKeepsNoPanicOfItsCaller(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("the panic of the caller's loop is gone")
		}
	}()
	for _, err := range Seq(numbers(3)) {
		_ = err
		panic("the caller's own")
	}
}
