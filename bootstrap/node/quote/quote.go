// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package quote writes strings of users into the languages of a host, so that they arrive as what they
// are and never as code. There is one function for each language; package node calls them wherever a value of a spec
// ends in a script, a unit, a configuration or an environment file. YAML and JSON are written by their encoders.
package quote

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Shell returns s as one word of bash or sh, whatever characters it has. It cannot contain a zero byte, which no
// argument of a program can.
func Shell(s string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(s, "\x00", ""), "'", `'\''`) + "'"
}

// Environment returns the line that sets a variable, for a file that both systemd's EnvironmentFile and the shell's "."
// read. It fails for values that the two do not read alike: those with quotes, backslashes or control characters.
func Environment(name, value string) (string, error) {
	if !IsText(value) {
		return "", errNotText
	}
	for _, r := range value {
		if r < ' ' || r == 0x7f || strings.ContainsRune(`'"\`, r) {
			return "", fmt.Errorf("must not contain %q", r)
		}
	}
	return name + "='" + value + "'\n", nil
}

// TOML returns s as a basic string of TOML. It fails for what is not UTF-8, which TOML cannot contain.
func TOML(s string) (string, error) {
	if !utf8.ValidString(s) {
		return "", errors.New("is not UTF-8")
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String(), nil
}

// Systemd returns s as one argument of a command in a unit, such as ExecStart=, in which neither specifiers nor
// variables are filled in. It fails for what systemd refuses in a unit: zero bytes and what is not UTF-8.
func Systemd(s string) (string, error) {
	if !IsText(s) || strings.ContainsRune(s, 0) {
		return "", errNotText
	}
	var b strings.Builder
	b.WriteByte('"')
	plain := s != ""
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			plain = false
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '%' || r == '$':
			b.WriteRune(r)
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			plain = false
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			plain = plain && !strings.ContainsRune(" ';#", r)
			b.WriteRune(r)
		}
	}
	if plain {
		return b.String()[1:], nil
	}
	b.WriteByte('"')
	return b.String(), nil
}

var errNotText = errors.New("is not UTF-8 text, or has a code point that Unicode has reserved for no character")

// IsText reports whether systemd takes s for text. It ignores a line with a noncharacter of Unicode, as one that is
// not UTF-8, and goes on without it.
func IsText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return r >= 0xfdd0 && r <= 0xfdef || r&0xfffe == 0xfffe
	})
}

// Jinja returns s as text of a jinja template, in which it is literal. YAML may quote the result in any way,
// because it holds no quotes that s has not; and no line ends behind a statement, where cloud-init's jinja drops it.
func Jinja(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if s[i] == '{' && i+1 < len(s) && strings.IndexByte("{%#", s[i+1]) >= 0 {
			b.WriteString("{% raw %}{{% endraw %}")
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
