// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNewTokensAreValidAndDiffer(t *testing.T) {
	t.Parallel()
	seen := map[Token]bool{}
	for range 100 {
		tok, err := New()
		if err != nil {
			t.Fatal(err)
		}
		parsed, ok := Parse(tok.Value())
		if !ok || parsed != tok || seen[tok] {
			t.Fatalf("parsed = %t, equal = %t, seen before = %t", ok, parsed == tok, seen[tok])
		}
		seen[tok] = true
	}
}

// With bytes from 0 to 251 once, each letter must come up equally often; 252 to 255 must be passed over.
func TestTokenCharactersAreUniform(t *testing.T) {
	t.Parallel()
	var every []byte
	for b := range 256 {
		every = append(every, byte(b))
	}
	count := map[rune]int{}
	for shift := range 256 {
		tok, err := read(bytes.NewReader(append(append([]byte{}, every[shift:]...), every[:shift]...)))
		if err != nil {
			t.Fatal(err)
		}
		for _, letter := range tok.ID[:1] {
			count[letter]++
		}
	}
	// The four bytes that are passed over give their turn to byte 0, the letter a.
	want := map[rune]int{}
	for _, letter := range alphabet {
		want[letter] = 7
	}
	want['a'] += 4
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNewFailsWithoutRandomness(t *testing.T) {
	t.Parallel()
	if _, err := read(strings.NewReader("short")); err == nil {
		t.Error("made a token of too few random bytes")
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]Token{
		"abcdef.0123456789abcdef":   {"abcdef", "0123456789abcdef"},
		"abcde.0123456789abcdef":    {},
		"abcdef.0123456789abcde":    {},
		"ABCDEF.0123456789abcdef":   {},
		"abcdef.0123456789abcdef\n": {},
		"":                          {},
	} {
		got, ok := Parse(s)
		if diff := cmp.Diff(want, got); diff != "" || ok != (want != Token{}) {
			t.Errorf("Parse(%q) = %t (-want +got):\n%s", s, ok, diff)
		}
	}
}

func TestTokenIsNotPrinted(t *testing.T) {
	t.Parallel()
	tok := Token{"abcdef", "0123456789abcdef"}
	for _, printed := range []string{fmt.Sprint(tok), fmt.Sprintf("%v %+v %#v %s", tok, tok, tok, tok), fmt.Sprintf("%+v", struct{ T Token }{tok})} {
		if strings.Contains(printed, tok.Secret) {
			t.Errorf("printed: %s", printed)
		}
	}
}
