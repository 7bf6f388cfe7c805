// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"

	"drover.io/runtime/httplimit"
)

// maxList is how many bytes all pages of a list may have that is kept in memory, of a service that a Secret names: the
// elements have any length.
const maxList = 32 << 20

type budgetKey struct{}

// WithBudget returns the context of a list that is kept in memory: with it, all answers together have a limited length.
// One that has a budget already keeps it.
func WithBudget(ctx context.Context) context.Context {
	if ctx.Value(budgetKey{}) != nil {
		return ctx
	}
	left := &atomic.Int64{}
	left.Store(maxList)
	return context.WithValue(ctx, budgetKey{}, left)
}

// budgeted counts what answers take of the budget of their context.
type budgeted struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b budgeted) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(request)
	if left, ok := request.Context().Value(budgetKey{}).(*atomic.Int64); ok && err == nil && response.Body != nil {
		response.Body = budgetedBody{response.Body, left}
	}
	return response, err
}

type budgetedBody struct {
	io.ReadCloser
	left *atomic.Int64
}

// Read implements io.Reader.
func (b budgetedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if b.left.Add(-int64(n)) < 0 {
		return 0, &httplimit.TooLargeError{Limit: maxList}
	}
	return n, err
}
