// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package panicerror

import "iter"

// List yields what a list yields, and the Error of its panic as the last element. A panic of the caller's own loop is not
// one of the list and goes on.
func List[T any](list iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if more, err := forward(list, yield); err != nil && more {
			var none T
			yield(none, err)
		}
	}
}

// forward yields until the list or the caller ends. More is false when it was the caller.
func forward[T any](list iter.Seq2[T, error], yield func(T, error) bool) (more bool, err error) {
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
	for element, failure := range list {
		yielding = true
		more = yield(element, failure)
		yielding = false
		if !more {
			break
		}
	}
	return more, nil
}
