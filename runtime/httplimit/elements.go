// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// TooManyElementsError is the error of an answer with more elements than its limit. Each becomes a value in memory that may
// be some hundred times as large as the bytes that it came from.
type TooManyElementsError struct {
	// Limit is what was allowed.
	Limit int
}

func (e *TooManyElementsError) Error() string {
	return fmt.Sprintf("the server's answer has more than %d elements", e.Limit)
}

// ContentTypeError is the error of an answer in a format that was not requested.
type ContentTypeError struct{ ContentType string }

func (e *ContentTypeError) Error() string {
	return fmt.Sprintf("the server answered with %q instead of JSON", e.ContentType)
}

// WrapJSON returns a RoundTripper for the API of Kubernetes whose answers fail with a [TooLargeError] where they have more
// bytes than allowed, after decompression by next, and with a [TooManyElementsError] where they have more elements: objects,
// arrays, and commas between values. A watch has no end, and its reader holds one event at a time: there both hold for each
// event by itself, which has 4 MiB at most. An answer that is not JSON fails with a [ContentTypeError], because the decoder is
// chosen by its Content-Type, except for plain text, and any text that is no success, which nothing decodes. An answer that
// refuses a request has 64 KiB at most.
func WrapJSON(next http.RoundTripper, bytes int64, elements int) http.RoundTripper {
	return &counted{next, bytes, elements}
}

type counted struct {
	next     http.RoundTripper
	bytes    int64
	elements int
}

func (c *counted) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(request)
	if err != nil || response.Body == nil || response.StatusCode == http.StatusSwitchingProtocols {
		return response, err
	}
	kind := response.Header.Get("Content-Type")
	text, ok := readable(kind, response.StatusCode)
	if !ok {
		_ = response.Body.Close()
		return nil, &ContentTypeError{kind}
	}
	if !text {
		// What a decoder makes of parameters, or of a type that is not well formed, is not for the server to choose.
		response.Header.Set("Content-Type", "application/json")
	}
	limits := *c
	if isWatch(request) {
		limits.bytes = min(limits.bytes, maxEvent)
	}
	if response.StatusCode >= http.StatusBadRequest {
		limits.bytes = min(limits.bytes, maxRefusal)
	}
	response.Body = &jsonBody{ReadCloser: response.Body, limits: &limits, watch: isWatch(request)}
	return response, nil
}

// WrappedRoundTripper returns the transport below, for client-go.
func (c *counted) WrappedRoundTripper() http.RoundTripper { return c.next }

// maxRefusal is how many bytes an answer may have that refuses a request: a Status of Kubernetes, with its reasons.
const maxRefusal = 64 << 10

// maxEvent is how many bytes an event may have: twice as many as an object that etcd stores.
const maxEvent = 4 << 20

// readable reports whether an answer of this type is JSON, or text, which nothing decodes: plain, as API servers have at
// /readyz, or of any kind in an answer that is no success, as of a proxy. One without a type is what was requested, which is
// JSON.
func readable(contentType string, status int) (text, ok bool) {
	kind, _, _ := strings.Cut(contentType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	text = kind == "text/plain" || strings.HasPrefix(kind, "text/") && status >= http.StatusMultipleChoices
	return text, text || kind == "" || kind == "application/json"
}

// isWatch reports whether the answer has no end by itself.
func isWatch(request *http.Request) bool { return request.URL.Query().Get("watch") != "" }

// jsonBody counts bytes and elements of JSON as they are read.
type jsonBody struct {
	io.ReadCloser
	limits *counted
	watch  bool

	// bytes and elements are those of the answer, or of the present event of a watch.
	bytes    int64
	elements int
	scanner  Scanner
}

func (b *jsonBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	for _, c := range p[:n] {
		b.take(c)
		switch {
		case b.elements > b.limits.elements:
			return 0, &TooManyElementsError{b.limits.elements}
		case b.bytes > b.limits.bytes:
			return 0, &TooLargeError{b.limits.bytes}
		}
	}
	return n, err
}

// take counts one byte. Content that is not JSON is counted wrongly, and fails in the decoder.
func (b *jsonBody) take(c byte) {
	b.bytes++
	switch {
	case !b.scanner.Structural(c):
	case c != '}' && c != ']':
		b.elements++
	case b.scanner.Depth == 0 && b.watch:
		b.bytes, b.elements = 0, 0
	}
}
