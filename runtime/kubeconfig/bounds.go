// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import "bytes"

const (
	// maxBytes is how many bytes a kubeconfig may have. One with a bundle of ten CA certificates, a client certificate and
	// a key has some 40,000.
	maxBytes = 256 << 10
	// maxElements is how many keys, items and lists a kubeconfig may have: each takes up to a thousand bytes while it is
	// parsed. A kubeconfig of a hundred clusters has some 2,000.
	maxElements = 4_096
	// maxHost is how many characters the host of an API server may have, as in DNS.
	maxHost = 253
)

// objectionToSize refuses content whose parsing takes much memory, before it is parsed.
func objectionToSize(content []byte) string {
	switch elements, aliases := measure(content); {
	case len(content) > maxBytes:
		return "it has more than 256 KiB; leave only the current context in it, with `kubectl config view --minify --flatten`"
	case elements > maxElements:
		return "it has more than 4096 keys and items; leave only the current context in it, with `kubectl config view --minify --flatten`"
	case aliases:
		return "it has aliases of YAML (*name), which are not supported; write the values in full"
	default:
		return ""
	}
}

// measure counts what may begin an element in YAML or JSON: what is in quotes is counted, too. It also reports what may be
// an alias, because a few of these stand for any number of elements. The characters are the same in UTF-16, which the
// parser accepts, too.
func measure(content []byte) (elements int, aliases bool) {
	if len(content) > maxBytes {
		return 0, false
	}
	for i, c := range content {
		switch c {
		case ',', '[', '{', ':', '?':
			elements++
		case '-':
			if i+1 == len(content) || !isWord(content[i+1]) {
				elements++ // an item of a list is a hyphen and white space
			}
		case '*':
			aliases = aliases || i == 0 || !isWord(content[i-1])
		}
	}
	return elements, aliases && bytes.IndexByte(content, '&') >= 0
}

// isWord reports whether a byte is a character that has no meaning in YAML, nor is white space or a part of such.
func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}
