// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package paging reads lists of workload clusters page by page, within limits. Their API servers are not trusted: one
// that always has another page would block its caller for ever.
package paging

import (
	"errors"
	"fmt"

	"drover.io/runtime/httplimit"
)

// Max is how many pages a list may have: with 500 objects each, more than a cluster has of any kind.
const Max = 400

// ErrEndless is the error of a list that has more pages.
var ErrEndless = errors.New("the API server has more pages than any list should have")

// Read reads a list with a function that reads the page of a token, which is empty for the first, of
// at most size objects, and returns the token of the next one, empty after the last. A page with more
// elements than an answer may have is read again in halves. It fails with [ErrEndless] after Max pages,
// and otherwise as the function does.
func Read(size int64, page func(size int64, token string) (next string, err error)) error {
	token := ""
	for range Max {
		next, err := page(size, token)
		for ; size > 1 && tooMany(err); next, err = page(size, token) {
			size /= 2
		}
		if err != nil || next == "" {
			return err
		}
		token = next
	}
	return ErrEndless
}

func tooMany(err error) bool {
	_, many := errors.AsType[*httplimit.TooManyElementsError](err)
	return many
}

// Kept is how many bytes of a list may be kept in memory. API servers belong to tenants, and a list has many pages.
const Kept = 16 << 20

// ErrTooLarge is the error of a list of which more than Kept would be kept.
var ErrTooLarge = fmt.Errorf("the API server has more than %d MiB of what any such list should have", Kept>>20)

// overhead is what an object without any field takes in memory, at least: an answer of 150 KiB can have 50,000 of them.
const overhead = 1 << 10

// Budget counts the bytes that are kept of a list. The zero value is ready to use.
type Budget struct{ kept int }

// Keep counts one object, and fails with [ErrTooLarge] above the limit.
func (b *Budget) Keep(object interface{ Size() int }) error {
	return b.KeepBytes(object.Size() + overhead)
}

// KeepBytes counts what is kept of an object by a small type of the caller, and fails with [ErrTooLarge] above the limit.
func (b *Budget) KeepBytes(size int) error {
	if b.kept += size; b.kept > Kept {
		return ErrTooLarge
	}
	return nil
}
