// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"io"
	"net/http"
)

// Format is how the answers of an API are written.
type Format int

// The formats whose elements can be counted.
const (
	JSON Format = iota
	XML
)

// WrapDocuments returns a RoundTripper for an API whose client decodes every answer in one format, whatever type the answer
// has. Answers fail with a [TooLargeError] where they have more bytes than allowed, after decompression by next, and with a
// [TooManyElementsError] where they have more elements: in JSON those that [WrapJSON] counts, in XML start tags and
// attributes.
func WrapDocuments(next http.RoundTripper, format Format, bytes int64, elements int) http.RoundTripper {
	return &documents{next, format, counted{bytes: bytes, elements: elements}}
}

type documents struct {
	next   http.RoundTripper
	format Format
	limits counted
}

func (d *documents) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := d.next.RoundTrip(request)
	if err != nil || response.Body == nil || response.StatusCode == http.StatusSwitchingProtocols {
		return response, err
	}
	if d.format == XML {
		response.Body = &xmlBody{ReadCloser: response.Body, limits: &d.limits}
	} else {
		response.Body = &jsonBody{ReadCloser: response.Body, limits: &d.limits}
	}
	return response, nil
}

// xmlBody counts bytes and elements of XML as they are read. What only looks like an element, as in a comment, counts too:
// an answer of a service has few of those.
type xmlBody struct {
	io.ReadCloser
	limits *counted

	bytes    int64
	elements int
	// opened is true after a <.
	opened bool
}

func (b *xmlBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes += int64(n)
	for _, c := range p[:n] {
		if b.opened && c != '/' || c == '=' {
			b.elements++
		}
		b.opened = c == '<'
	}
	switch {
	case b.elements > b.limits.elements:
		return 0, &TooManyElementsError{b.limits.elements}
	case b.bytes > b.limits.bytes:
		return 0, &TooLargeError{b.limits.bytes}
	}
	return n, err
}
