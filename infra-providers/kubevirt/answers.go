// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"drover.io/runtime/httplimit"
)

// What an answer of an API server may have. A tenant may run it, and an empty object of three bytes becomes a
// VirtualMachineInstance of 1.5 KiB.
const (
	// maxAnswer is how many bytes an answer may have that is decoded.
	maxAnswer = 8 << 20
	// maxElements is how many objects, arrays and values an answer may have: several times what a page of
	// VirtualMachineInstances has.
	maxElements = 100_000
	// maxItems is how many objects a list may have, whatever was requested.
	maxItems = 250
)

var errTooManyItems = errors.New("the server's answer has more objects than were requested")

// bounded is a transport whose answers have so many bytes and objects. Text, such as a log, is not decoded.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(request)
	if err == nil && response.Body != nil && !strings.HasPrefix(response.Header.Get("Content-Type"), "text/") {
		response.Body = &boundedBody{ReadCloser: response.Body}
	}
	return response, err
}

type boundedBody struct {
	io.ReadCloser
	bytes, items int
	scanner      httplimit.Scanner
}

// Read implements io.Reader. The items of a list are what is two levels below the answer.
func (b *boundedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if b.bytes += n; b.bytes > maxAnswer {
		return 0, &httplimit.TooLargeError{Limit: maxAnswer}
	}
	for _, c := range into[:n] {
		if b.scanner.Structural(c) && b.scanner.Depth == 3 && (c == '{' || c == '[') {
			b.items++
		}
	}
	if b.items > maxItems {
		return 0, errTooManyItems
	}
	return n, err
}
