// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetznerfake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
)

// delayedRequest is a request whose connection was closed before it was carried out.
type delayedRequest struct {
	operation string
	request   *http.Request
	body      []byte
}

// keep closes the connection without an answer.
func (h *delayedRequest) keep(r *http.Request) {
	if h.request == nil {
		// A body that cannot be read violates the description.
		h.body, _ = io.ReadAll(r.Body)
		h.request = r.Clone(context.Background())
	}
	panic(http.ErrAbortHandler)
}

// Hold leaves the next request of an operation, such as POST /servers, without an answer, and returns a function that
// carries it out. Until then further requests of that operation have no answer either.
func (c *Cloud) Hold(operation string) (release func() error) {
	next := &delayedRequest{operation: operation}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults.held = next
	return func() error {
		c.mu.Lock()
		c.faults.held = nil
		c.mu.Unlock()
		if next.request == nil {
			return errors.New("nothing was held")
		}
		next.request.Body = io.NopCloser(bytes.NewReader(next.body))
		answer := httptest.NewRecorder()
		c.ServeHTTP(answer, next.request)
		if answer.Code >= http.StatusBadRequest {
			return fmt.Errorf("%s: %s", operation, answer.Body)
		}
		return nil
	}
}
