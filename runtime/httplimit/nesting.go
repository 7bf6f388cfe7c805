// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"io"
	"net/http"
	"strings"
)

// maxNesting is how many objects and arrays may be open at a place in JSON. Objects of Kubernetes have some tens, with the
// record of who manages their fields; decoders refuse more than 10,000.
const maxNesting = 1000

// WrapNested returns a RoundTripper for the API of Kubernetes in whose answers an object or array that is nested too deeply
// is empty. An API server accepts an object that it could never return in a list or an event of a watch, where it is deeper
// than by itself: in any kind by metadata.managedFields. Then no object of its kind could be listed.
func WrapNested(next http.RoundTripper) http.RoundTripper { return &nested{next} }

type nested struct{ next http.RoundTripper }

func (n *nested) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := n.next.RoundTrip(request)
	if err == nil && response.Body != nil && strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		response.Body = &nestedBody{ReadCloser: response.Body}
		response.ContentLength = -1
	}
	return response, err
}

// WrappedRoundTripper returns the transport below, for client-go.
func (n *nested) WrappedRoundTripper() http.RoundTripper { return n.next }

// nestedBody leaves out what is in an object or array that is nested too deeply.
type nestedBody struct {
	io.ReadCloser
	scanner Scanner
}

func (b *nestedBody) Read(p []byte) (int, error) {
	for {
		read, err := b.ReadCloser.Read(p)
		kept := 0
		for _, c := range p[:read] {
			before := b.scanner.Depth
			b.scanner.Structural(c)
			if min(before, b.scanner.Depth) <= maxNesting {
				p[kept] = c
				kept++
			}
		}
		if kept > 0 || err != nil || len(p) == 0 {
			return kept, err
		}
	}
}
