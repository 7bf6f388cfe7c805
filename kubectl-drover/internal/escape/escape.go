// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package escape makes text of others safe for a terminal. Messages of conditions come from clouds, consoles and workload
// clusters, so they may have control characters with which a terminal can be made to show, or to do, something else.
package escape

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line returns a text as one line: line breaks become semicolons, and every other character that a terminal does not show
// as itself is written as \uXXXX, as in JSON.
func Line(text string) string {
	var parts []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "* "))
		if line != "" {
			parts = append(parts, line)
		}
	}
	joined := ""
	for i, part := range parts {
		switch {
		case i == 0:
		case strings.HasSuffix(joined, ":") || strings.HasSuffix(joined, ";"):
			joined += " "
		default:
			joined += "; "
		}
		joined += part
	}
	return escaped(joined, false)
}

// Writer escapes what is written to it, except line breaks and tabs. JSON stays the same JSON.
type Writer struct{ To io.Writer }

// Write implements [io.Writer].
func (w Writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.To, escaped(string(p), true)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func escaped(text string, breaks bool) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return text
	}
	var out strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)):
			fmt.Fprintf(&out, `\u%04x`, text[i])
		case breaks && (r == '\n' || r == '\t'), unicode.IsGraphic(r):
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}
