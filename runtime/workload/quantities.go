// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"io"
	"net/http"
	"slices"
)

// cheapQuantities keeps quantities from being decoded that take minutes and gigabytes, such as 1e-2147483647. An answer
// decides itself which kinds it has, so any answer may have quantities. None of a workload cluster is used.
type cheapQuantities struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (c cheapQuantities) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(request)
	if err == nil && response.Body != nil && response.StatusCode != http.StatusSwitchingProtocols {
		response.Body = &quantitiesBody{ReadCloser: response.Body}
	}
	return response, err
}

// WrappedRoundTripper returns the transport below, for client-go.
func (c cheapQuantities) WrappedRoundTripper() http.RoundTripper { return c.next }

const (
	// maxDigits is how many digits a number may have, and maxExponent how many its exponent.
	maxDigits, maxExponent = 1000, 3
	// afterBackslash is the value of escape for the character that follows a backslash.
	afterBackslash = 5
)

// quantitiesBody writes the digits of a number beyond the maximum as escape sequences of JSON. A string stays the same by
// that; a quantity, which is decoded without them, is refused at once. A kubelet may report the capacity of its Node with
// any exponent, and the author of a Pod may request with any: there the digits are left out, because the Node, or the list
// of all Pods on one, could not be decoded.
type quantitiesBody struct {
	io.ReadCloser
	// ready can be read; buffer is the memory that it is in.
	ready, buffer []byte
	err           error

	// escape is how many characters of an escape sequence follow.
	escape int
	// digits are those of the present number, or of its exponent.
	digits   int
	exponent bool

	inString bool
	// word is the beginning of the last string.
	word []byte
	// resources is true in an object that maps resources to quantities, and size in the size of a volume.
	resources, size bool
}

// resourceLists are the fields of Nodes and Pods that map resources to quantities, and sizeLimit is one of a volume.
var resourceLists = []string{"capacity", "allocatable", "requests", "limits", "resources", longestList}

const longestList, sizeLimit = "allocatedResources", "sizeLimit"

// Read implements io.Reader.
func (b *quantitiesBody) Read(p []byte) (int, error) {
	for len(b.ready) == 0 && len(p) > 0 {
		if b.err != nil {
			return 0, b.err
		}
		n, err := b.ReadCloser.Read(p)
		b.err, b.buffer = err, b.buffer[:0]
		for _, c := range p[:n] {
			b.take(c)
		}
		b.ready = b.buffer
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// take takes the next byte.
func (b *quantitiesBody) take(c byte) {
	switch {
	case b.escape > 0, c == '\\':
		b.escaped(c)
	case isDigit(c):
		b.digits++
		if b.digits > maxDigits || b.exponent && b.digits > maxExponent {
			b.surplus(c)
			return
		}
	case b.continuesNumber(c):
	default:
		b.digits, b.exponent = 0, false
		b.structure(c)
	}
	b.buffer = append(b.buffer, c)
}

// escaped observes a character of an escape sequence, which begins with a backslash and ends a number.
func (b *quantitiesBody) escaped(c byte) {
	switch {
	case b.escape == afterBackslash && c == 'u':
		b.escape = 4
	case b.escape == afterBackslash:
		b.escape = 0
	case b.escape > 0:
		b.escape--
	default:
		b.escape, b.digits, b.exponent = afterBackslash, 0, false
	}
}

// continuesNumber reports whether a character that is no digit is part of a number, and observes the begin of its exponent.
func (b *quantitiesBody) continuesNumber(c byte) bool {
	switch c {
	case '.':
		return true
	case '+', '-':
		return b.exponent && b.digits == 0
	case 'e', 'E':
		if b.digits == 0 || b.exponent {
			return false
		}
		b.digits, b.exponent = 0, true
		return true
	default:
		return false
	}
}

// surplus writes a digit beyond the maximum.
func (b *quantitiesBody) surplus(digit byte) {
	if !b.resources && !b.size {
		b.buffer = append(b.buffer, '\\', 'u', '0', '0', '3', digit) // ASCII has 0 to 9 at 30 to 39
	}
}

// structure observes a character that is not of a number.
func (b *quantitiesBody) structure(c byte) {
	switch {
	case c == '"':
		if b.inString = !b.inString; b.inString {
			b.word = b.word[:0]
		}
	case b.inString:
		if len(b.word) <= len(longestList) {
			b.word = append(b.word, c)
		}
	case c == '{':
		b.resources = slices.Contains(resourceLists, string(b.word))
	case c == ':':
		b.size = string(b.word) == sizeLimit
	case c == '}':
		b.resources = false
	}
}
