// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package checksum

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEachChangeIsNamedAndNothingElse changes a folder in one way at a time.
func TestEachChangeIsNamedAndNothingElse(t *testing.T) {
	t.Parallel()
	for title, test := range map[string]struct {
		change func(folder string) error
		want   []string
	}{
		"nothing":            {func(string) error { return nil }, nil},
		"an empty folder":    {func(folder string) error { return os.Mkdir(filepath.Join(folder, "empty"), 0o755) }, nil},
		"the mode of a file": {func(folder string) error { return os.Chmod(filepath.Join(folder, "a"), 0o600) }, nil},
		"a signature":        {func(folder string) error { return os.WriteFile(filepath.Join(folder, Signature), []byte("x"), 0o600) }, nil},
		"a byte at the end": {func(folder string) error {
			return os.WriteFile(filepath.Join(folder, "a"), []byte("content of a\n"), 0o600)
		}, []string{"a has SHA-256 "}},
		"an empty file": {func(folder string) error { return os.Truncate(filepath.Join(folder, "b c/d"), 0) }, []string{"b c/d has SHA-256 "}},
		"another name":  {func(folder string) error { return os.Rename(filepath.Join(folder, "a"), filepath.Join(folder, "A")) }, []string{"a is in SHA256SUMS, but missing", "A is not in SHA256SUMS"}},
		"a file in another folder": {func(folder string) error {
			return os.Rename(filepath.Join(folder, "b c/d"), filepath.Join(folder, "d"))
		}, []string{"b c/d is in SHA256SUMS, but missing", "d is not in SHA256SUMS"}},
		"a signature in a folder": {func(folder string) error { return os.WriteFile(filepath.Join(folder, "b c", Signature), nil, 0o600) }, []string{"b c/SHA256SUMS.sig is not in SHA256SUMS"}},
		"two files that are swapped": {func(folder string) error {
			a, d, between := filepath.Join(folder, "a"), filepath.Join(folder, "b c/d"), filepath.Join(folder, "x")
			return errors.Join(os.Rename(a, between), os.Rename(d, a), os.Rename(between, d))
		}, []string{"a has SHA-256 ", "b c/d has SHA-256 "}},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			write(t, folder, "a", "content of a")
			write(t, folder, "b c/d", "content of d")
			if err := Write(folder); err != nil {
				t.Fatal(err)
			}
			if err := test.change(folder); err != nil {
				t.Fatal(err)
			}
			var lines []string
			if err := Verify(folder); err != nil {
				lines = strings.Split(err.Error(), "\n")
			}
			if len(lines) != len(test.want) {
				t.Fatalf("got %q, want %q", lines, test.want)
			}
			for i, want := range test.want {
				if !strings.HasPrefix(lines[i], want) {
					t.Errorf("got %q, want %q", lines[i], want)
				}
			}
		})
	}
}

// TestListsThatAreNoneAreRefused has lines that sha256sum does not write: none is read as a checksum of something.
func TestListsThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	sum := strings.Repeat("0", 64)
	for title, test := range map[string]struct{ list, want string }{
		"a digest that is too short":   {sum[1:] + "  a\n", "no checksum and name"},
		"a digest that is too long":    {sum + "0  a\n", "no checksum and name"},
		"one space":                    {sum + " a\n", "no checksum and name"},
		"the mark of binary files":     {sum + " *a\n", "no checksum and name"},
		"an empty line":                {"\n", "no checksum and name"},
		"a name that leads elsewhere":  {sum + "  ../a\n", "../a is in SHA256SUMS, but missing"},
		"an absolute name":             {sum + "  /etc/hostname\n", "/etc/hostname is in SHA256SUMS, but missing"},
		"the list itself":              {sum + "  " + File + "\n", File + " is in SHA256SUMS, but missing"},
		"a name that is written twice": {sum + "  a\n" + sum + "  a\n", "a has SHA-256 "},
		"nothing":                      {"", "a is not in SHA256SUMS"},
	} {
		folder := t.TempDir()
		write(t, folder, "a", "content")
		write(t, folder, File, test.list)
		if err := Verify(folder); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", title, err, test.want)
		}
	}
	if err := Verify(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder without a list: got %v", err)
	}
}
