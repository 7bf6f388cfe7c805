// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package panicerror

import "iter"

// Seq yields what a sequence yields and, if the sequence panics, an Error as the last element. A panic of the caller's
// loop body is not recovered.
func Seq[T any](sequence iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if more, err := forward(sequence, yield); err != nil && more {
			var none T
			yield(none, err)
		}
	}
}

// forward yields until the sequence or the caller ends. More is false when it was the caller.
func forward[T any](sequence iter.Seq2[T, error], yield func(T, error) bool) (more bool, err error) {
	more = true
	yielding := false
	defer func() {
		if yielding {
			return
		}
		if value := recover(); value != nil {
			err = newError(value)
		}
	}()
	for element, failure := range sequence {
		yielding = true
		more = yield(element, failure)
		yielding = false
		if !more {
			break
		}
	}
	return more, nil
}
