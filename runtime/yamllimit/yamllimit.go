// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package yamllimit refuses YAML that takes much memory while it is parsed, before it is parsed: a Secret of 1 MiB may
// take a hundred times as much. Packages that read what tenants write, such as kubeconfig, call it.
package yamllimit

import (
	"bytes"
	"errors"
)

const (
	// MaxBytes is how many bytes a document may have. A kubeconfig with a bundle of ten CA certificates, a client
	// certificate and a key has some 40,000.
	MaxBytes = 256 << 10
	// MaxElements is how many keys, items and lists a document may have: each takes up to a thousand bytes while it is
	// parsed. A kubeconfig of a hundred clusters has some 2,000.
	MaxElements = 4_096
)

// The errors of Check.
var (
	ErrSize     = errors.New("it has more than 256 KiB")
	ErrElements = errors.New("it has more than 4096 keys and items")
)

// Check fails for a document that is too large. What aliases stand for does not count: see MayHaveAliases.
func Check(content []byte) error {
	switch {
	case len(content) > MaxBytes:
		return ErrSize
	case elements(content) > MaxElements:
		return ErrElements
	default:
		return nil
	}
}

// elements counts what may begin an element in YAML or JSON: what is in quotes is counted, too. The characters are the same
// in UTF-16, which parsers accept, too.
func elements(content []byte) (count int) {
	for i, c := range content {
		switch c {
		case ',', '[', '{', ':', '?':
			count++
		case '-':
			if i+1 == len(content) || !isWord(content[i+1]) {
				count++ // an item of a list is a hyphen and white space
			}
		}
	}
	return count
}

// MayHaveAliases reports whether a document has what may be an alias (*name), because a few of these stand for any number
// of elements. What is in quotes counts, too.
func MayHaveAliases(content []byte) bool {
	if bytes.IndexByte(content, '&') < 0 {
		return false
	}
	for i, c := range content {
		if c == '*' && (i == 0 || !isWord(content[i-1])) {
			return true
		}
	}
	return false
}

// isWord reports whether a byte is a character that has no meaning in YAML, nor is white space or a part of such.
func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}
