// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package sbom

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	spdxjson "github.com/spdx/tools-golang/json"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// ownBinary compiles a binary: Go records nothing of its modules in that of a test.
func ownBinary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if out, err := exec.Command("go", "build", "-o", path, "drover.io/release").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func describe(t *testing.T, path string) ([]byte, *spdx.Document) {
	t.Helper()
	got, err := New(Subject{Path: path, Name: "program", Version: "v1.2.3", Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	var document spdx.Document
	if err := spdxjson.ReadInto(bytes.NewReader(got), &document); err != nil {
		t.Fatalf("the document cannot be read: %v", err)
	}
	return got, &document
}

func TestModulesAreListedWithVersionsAndChecksums(t *testing.T) {
	t.Parallel()
	path := ownBinary(t)
	_, document := describe(t, path)
	byName := map[string]*spdx.Package{}
	for _, p := range document.Packages {
		byName[p.PackageName] = p
	}
	cobra := byName["github.com/spf13/cobra"]
	if cobra == nil || cobra.PackageVersion != "v1.10.2" {
		t.Fatalf("got %+v for cobra", cobra)
	}
	if got, want := cobra.PackageExternalReferences[0].Locator, "pkg:golang/github.com/spf13/cobra@v1.10.2"; got != want {
		t.Errorf("got locator %q, want %q", got, want)
	}
	// go.sum has the same bytes in Base64.
	sum, err := hex.DecodeString(cobra.PackageChecksums[0].Value)
	if err != nil {
		t.Fatal(err)
	}
	line := "github.com/spf13/cobra v1.10.2 h1:" + base64.StdEncoding.EncodeToString(sum) + "\n"
	if sums, err := os.ReadFile("../../go.sum"); err != nil || !strings.Contains(string(sums), line) {
		t.Errorf("go.sum does not have the line %q (%v)", line, err)
	}
	if std := byName["std"]; std == nil || !strings.HasPrefix(std.PackageVersion, "1.") {
		t.Errorf("got %+v for the standard library", std)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(content)
	if got, want := byName["program"].PackageChecksums[0].Value, hex.EncodeToString(digest[:]); got != want {
		t.Errorf("the binary has checksum %q, want %q", got, want)
	}
	if got, want := len(document.Relationships), len(document.Packages); got != want {
		t.Errorf("got %d relationships, want one for each of %d packages", got, want)
	}
}

func TestTheSameBinaryGivesTheSameDocument(t *testing.T) {
	t.Parallel()
	path := ownBinary(t)
	first, document := describe(t, path)
	second, _ := describe(t, path)
	if diff := cmp.Diff(string(first), string(second)); diff != "" {
		t.Error(diff)
	}
	if got := document.CreationInfo.Created; got != "2026-01-02T03:04:05Z" {
		t.Errorf("got time %q", got)
	}
}

func TestWhatIsNoGoBinaryIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, path + "2"} {
		if _, err := New(Subject{Path: path}); err == nil {
			t.Errorf("%s is accepted", path)
		}
	}
}
