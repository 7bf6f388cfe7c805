// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// chunks returns a text in pieces of random lengths, some of them empty.
type chunks struct {
	left   string
	random *rand.Rand
}

// Read implements [io.Reader].
func (c *chunks) Read(p []byte) (int, error) {
	if c.left == "" {
		return 0, io.EOF
	}
	n := min(c.random.IntN(7), len(p), len(c.left))
	copy(p, c.left[:n])
	c.left = c.left[n:]
	return n, nil
}

// randomJSON is a value of a few kinds, with the strings and keys that the bodies look for, and those that look like them.
func randomJSON(r *rand.Rand, depth int) any {
	texts := []string{
		"", "a", `"`, `\`, "\n", "é", "10", "1e5", "1e-2147483647", "12345678901", "0x10", "10000-01-01T22:59:59Z", "-0001-12-31T01:00:00Z", "2026-01-01T00:00:00Z",
		"10000-01-01", "-", "a\"10000-01-01", "100m", "1.5Gi", strings.Repeat("9", 30),
	}
	keys := []string{"capacity", "requests", "limits", "sizeLimit", "allocatedResources", "name", "x", "capacity ", "1e5", `q"`}
	switch kind := r.IntN(6); {
	case kind == 0 && depth > 0:
		list := []any{}
		for range r.IntN(4) {
			list = append(list, randomJSON(r, depth-1))
		}
		return list
	case kind < 3 && depth > 0:
		object := map[string]any{}
		for range r.IntN(4) {
			object[keys[r.IntN(len(keys))]] = randomJSON(r, depth-1)
		}
		return object
	case kind == 3:
		return []any{nil, true, false}[r.IntN(3)]
	case kind == 4:
		return r.IntN(100_000) - 50_000
	}
	return texts[r.IntN(len(texts))]
}

// TestBodiesDoNotDependOnTheChunks has answers that come in pieces of random lengths, through both bodies as a Transport has them:
// the text is the same as at once, it is JSON, and as long as before.
func TestBodiesDoNotDependOnTheChunks(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewChaCha8([32]byte{3}))
	read := func(from io.Reader) string {
		t.Helper()
		content, err := io.ReadAll(&timesBody{ReadCloser: &quantitiesBody{ReadCloser: io.NopCloser(from)}})
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	for i := range 1500 {
		content, err := json.Marshal(randomJSON(r, 4))
		if err != nil {
			t.Fatal(err)
		}
		once := read(strings.NewReader(string(content)))
		if pieces := read(&chunks{string(content), r}); pieces != once {
			t.Fatalf("%d: at once %s, in pieces %s", i, once, pieces)
		}
		if !json.Valid([]byte(once)) {
			t.Fatalf("%d: %s becomes %s, which is no JSON", i, content, once)
		}
	}
}

// TestBodiesKeepWhatCanBeDecoded has answers without a time or a quantity that is not for a decoder: what is decoded is the same.
func TestBodiesKeepWhatCanBeDecoded(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewChaCha8([32]byte{4}))
	for i := range 1500 {
		value := randomJSON(r, 4)
		content, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), `"10000-01-01T`) || strings.Contains(string(content), "-0001") || strings.Contains(string(content), "2147483647") {
			continue
		}
		through, err := io.ReadAll(&timesBody{ReadCloser: &quantitiesBody{ReadCloser: io.NopCloser(strings.NewReader(string(content)))}})
		if err != nil {
			t.Fatal(err)
		}
		var want, got any
		if err := json.Unmarshal(content, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(through, &got); err != nil {
			t.Fatalf("%d: %s: %v", i, through, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%d: %s becomes %s:\n%s", i, content, through, diff)
		}
	}
}

// TestErrorsOfABodyFollowWhatWasRead has an answer that breaks off: what came before it is read, then the error, each time.
func TestErrorsOfABodyFollowWhatWasRead(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"times":      func(r io.Reader) io.Reader { return &timesBody{ReadCloser: io.NopCloser(r)} },
		"quantities": func(r io.Reader) io.Reader { return &quantitiesBody{ReadCloser: io.NopCloser(r)} },
	} {
		const text = `{"a":"100`
		body := wrap(io.MultiReader(strings.NewReader(text), errorReader{}))
		got, err := io.ReadAll(body)
		if string(got) != text || err == nil || err.Error() != "broken off" {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
		if n, err := body.Read(make([]byte, 10)); n != 0 || err == nil || err.Error() != "broken off" {
			t.Errorf("%s again: %d bytes, %v", name, n, err)
		}
	}
}

type errorReader struct{}

// Read implements [io.Reader].
func (errorReader) Read([]byte) (int, error) { return 0, fmt.Errorf("broken off") }
