// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package httplimit bounds the size of HTTP answers. The author of a kubeconfig, or of a Secret that names a server, could
// otherwise make a manager read an answer without end into memory, and so stop it for all other tenants.
package httplimit

import (
	"fmt"
	"io"
	"net/http"
)

// TooLargeError is the error of an answer that is larger than its limit.
type TooLargeError struct {
	// Limit is what was allowed, in bytes.
	Limit int64
}

func (e *TooLargeError) Error() string {
	if e.Limit < 1<<20 {
		return fmt.Sprintf("the server's answer is larger than %d KiB", e.Limit>>10)
	}
	return fmt.Sprintf("the server's answer is larger than %d MiB", e.Limit>>20)
}

// Wrap returns a RoundTripper whose answers fail with a [TooLargeError] where they go beyond limit
// bytes, after decompression by next.
func Wrap(next http.RoundTripper, limit int64) http.RoundTripper { return &transport{next, limit} }

type transport struct {
	next  http.RoundTripper
	limit int64
}

func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err != nil || response.Body == nil || response.StatusCode == http.StatusSwitchingProtocols {
		return response, err
	}
	response.Body = &body{ReadCloser: response.Body, limit: t.limit}
	return response, nil
}

type body struct {
	io.ReadCloser
	limit, read int64
}

func (b *body) Read(p []byte) (int, error) {
	if b.read >= b.limit {
		// The answer may end exactly here.
		if n, err := b.ReadCloser.Read(make([]byte, 1)); n == 0 && err != nil {
			return 0, err
		}
		return 0, &TooLargeError{b.limit}
	}
	if int64(len(p)) > b.limit-b.read {
		p = p[:b.limit-b.read]
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	return n, err
}

// WrappedRoundTripper returns the transport below, for client-go.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }
