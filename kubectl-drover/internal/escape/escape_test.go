// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestLine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"keeps words in any language":         {`Nœud "ü" 節點`, `Nœud "ü" 節點`},
		"joins lines":                         {"Draining the Node waits for:\n* Pod a/b: c\n* Pod d/e: f\n", "Draining the Node waits for: Pod a/b: c; Pod d/e: f"},
		"escapes sequences of a terminal":     {"a\x1b[2Jb\x1b]0;title\ac", `a\u001b[2Jb\u001b]0;title\u0007c`},
		"escapes a carriage return":           {"bad\rgood", `bad\u000dgood`},
		"escapes control characters of 8 bit": {"a\u009b2Jb", `a\u009b2Jb`},
		"escapes what is not UTF-8":           {"a\x9bb\xff", `a\u009bb\u00ff`},
		"escapes what reverses the direction": {"a\u202eb\u2066c", `a\u202eb\u2066c`},
		"escapes what is not seen":            {"a\u200bb\U000e0041c", `a\u200bb\udb40\udc41c`},
		"keeps a replacement character":       {"a\ufffdb", "a\ufffdb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Line(test.text); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestWriterKeepsJSON has a text with every kind of character that is escaped.
func TestWriterKeepsJSON(t *testing.T) {
	t.Parallel()
	want := "a\tb\nc\x1b[31md\u009b\u202e\U000e0041"
	content, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := (Writer{&out}).Write(content); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got != want {
		t.Errorf("%s: got %q, error %v", out.String(), got, err)
	}
}

func TestWriterKeepsLinesAndTabs(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	n, err := Writer{&out}.Write([]byte("a\tb\nc\x1b[31md"))
	if err != nil || n != 11 {
		t.Errorf("wrote %d, error %v", n, err)
	}
	if want := "a\tb\nc\\u001b[31md"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
