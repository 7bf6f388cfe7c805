// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package panicerror turns a panic into an error. SDKs of clouds panic at answers that no real cloud gives, and whoever
// may name a server chooses its answers. Package account uses it for every call of a driver; every goroutine that makes
// such calls uses it too, because a panic there would end the process.
package panicerror

import (
	"fmt"
	"runtime/debug"
)

// maxValue is how many bytes of a panic's value are kept: it may contain an answer of a server.
const maxValue = 1024

// Error is a panic. Its text is the same for every panic, because errors end in conditions.
type Error struct {
	// Value is the value of the panic as text.
	Value string
	// Stack is that of the goroutine.
	Stack string
}

func (e *Error) Error() string {
	return "internal error: a panic, whose stack is in the provider's log"
}

// Call returns the error of a call, or the Error of its panic.
func Call(call func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = newError(value)
		}
	}()
	return call()
}

func newError(value any) *Error {
	text := fmt.Sprint(value)
	return &Error{Value: text[:min(len(text), maxValue)], Stack: string(debug.Stack())}
}
