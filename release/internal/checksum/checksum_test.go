// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package checksum

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, folder, name, content string) {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestWriteIsReadBySha256sum(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, folder, "b/c", "c")
	write(t, folder, "a", "a")
	write(t, folder, Signature, "is not listed")
	if err := Write(folder); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(folder, File))
	if err != nil {
		t.Fatal(err)
	}
	want := "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  a\n" +
		"2e7d2c03a9507ae265ecf5b5356885a53393a2029d241394997265a1a25aefc6  b/c\n"
	if string(got) != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestVerifyNamesEachFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, name := range []string{"same", "changed", "missing"} {
		write(t, folder, name, name)
	}
	if err := Write(folder); err != nil {
		t.Fatal(err)
	}
	if err := Verify(folder); err != nil {
		t.Fatalf("what was just written is refused: %v", err)
	}
	write(t, folder, "changed", "otherwise")
	write(t, folder, "added", "added")
	if err := os.Remove(filepath.Join(folder, "missing")); err != nil {
		t.Fatal(err)
	}
	err := Verify(folder)
	if err == nil {
		t.Fatal("what differs is not refused")
	}
	for _, name := range []string{"changed has SHA-256", "missing is in SHA256SUMS, but missing", "added is not in SHA256SUMS"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not say %q:\n%v", name, err)
		}
	}
	if strings.Contains(err.Error(), "same") {
		t.Errorf("the error names a file that is as it was:\n%v", err)
	}
}

func TestVerifyRefusesALineThatIsNoChecksum(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, folder, File, "abc  a\n")
	if err := Verify(folder); err == nil {
		t.Error("a line that is no checksum is accepted")
	}
}

func TestOnlyRegularFilesAreVerified(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"drover.yaml", File} {
		folder, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "elsewhere")
		if err := os.WriteFile(filepath.Join(folder, "drover.yaml"), []byte("kind: List\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Write(folder); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(folder, name), elsewhere); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(elsewhere, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
		if err := Verify(folder); err == nil || !strings.Contains(err.Error(), name+" is no regular file") {
			t.Errorf("a link in place of %s: got %v", name, err)
		}
		if err := Write(folder); err == nil {
			t.Errorf("checksums of a link in place of %s are written", name)
		}
	}
}
