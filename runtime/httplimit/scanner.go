// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

// Scanner finds the structure of JSON, byte by byte and without a buffer. The zero value is at the beginning of a document,
// or of a stream of them. Content that is not JSON is scanned wrongly, and fails in the decoder.
type Scanner struct {
	// Depth is how many objects and arrays are open.
	Depth int

	inString, escape bool
}

// Structural takes the next byte, and reports whether it opens or closes an object or array or separates values; what is in
// strings does not.
func (s *Scanner) Structural(c byte) bool {
	switch {
	case s.escape:
		s.escape = false
	case s.inString:
		s.escape, s.inString = c == '\\', c != '"'
	case c == '"':
		s.inString = true
	case c == ',':
		return true
	case c == '{', c == '[':
		s.Depth++
		return true
	case c == '}', c == ']':
		s.Depth--
		return true
	}
	return false
}
