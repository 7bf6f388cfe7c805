// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"drover.io/release/internal/checksum"
	"drover.io/release/internal/image"
)

// signedRelease is a release of a version that was signed with a key.
func signedRelease(t *testing.T, version, key string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), version)
	for name, content := range map[string]string{"VERSION": version + "\n", "drover.yaml": "kind: List\n", "drover-infra-sim.yaml": "kind: Namespace\n", "images/drover-a.tar": "archive of " + version} {
		writeFile(t, filepath.Join(folder, name), []byte(content))
	}
	if err := checksum.Write(folder); err != nil {
		t.Fatal(err)
	}
	if _, err := execute(t, "sign", folder, "--key", key); err != nil {
		t.Fatal(err)
	}
	return folder
}

// replaced changes a part of a file.
func replaced(t *testing.T, path, from, to string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(content, []byte(from)) {
		t.Fatalf("%s does not have %q: %v", path, from, err)
	}
	writeFile(t, path, bytes.Replace(content, []byte(from), []byte(to), 1))
}

// TestWhatIsTamperedWithIsNotVerified has what somebody can do who may write to the place of a release, and has not its key.
func TestWhatIsTamperedWithIsNotVerified(t *testing.T) {
	t.Parallel()
	private, public := keys(t)
	otherPrivate, otherPublic := keys(t)
	const foreign = "the signature does not belong to this content and key"
	for title, test := range map[string]struct {
		change func(t *testing.T, folder string)
		want   string
	}{
		"nothing": {func(*testing.T, string) {}, ""},
		"a manifest": {func(t *testing.T, folder string) {
			t.Helper()
			replaced(t, filepath.Join(folder, "drover.yaml"), "List", "list")
		}, "drover.yaml has SHA-256 "},
		"an image": {func(t *testing.T, folder string) {
			t.Helper()
			replaced(t, filepath.Join(folder, "images/drover-a.tar"), "archive", "arch1ve")
		}, "images/drover-a.tar has SHA-256 "},
		"the version": {func(t *testing.T, folder string) {
			t.Helper()
			replaced(t, filepath.Join(folder, "VERSION"), "v1.2.3", "v1.2.4")
		}, "VERSION has SHA-256 "},
		"a file too many": {func(t *testing.T, folder string) {
			t.Helper()
			writeFile(t, filepath.Join(folder, "plugin/extra"), nil)
		}, "plugin/extra is not in SHA256SUMS"},
		"a manifest and its checksum": {func(t *testing.T, folder string) {
			t.Helper()
			replaced(t, filepath.Join(folder, "drover.yaml"), "List", "list")
			if err := checksum.Write(folder); err != nil {
				t.Fatal(err)
			}
		}, foreign},
		"a file and its line, which are removed": {func(t *testing.T, folder string) {
			t.Helper()
			if err := errors.Join(os.Remove(filepath.Join(folder, "drover-infra-sim.yaml")), checksum.Write(folder)); err != nil {
				t.Fatal(err)
			}
		}, foreign},
		"the line ends of the list": {func(t *testing.T, folder string) {
			t.Helper()
			replaced(t, filepath.Join(folder, checksum.File), "\n", "\r\n")
		}, foreign},
		"one character of the signature": {func(t *testing.T, folder string) {
			t.Helper()
			path := filepath.Join(folder, checksum.Signature)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			content[10] = map[bool]byte{true: 'B', false: 'A'}[content[10] == 'A']
			writeFile(t, path, content)
		}, foreign},
		"an empty signature": {func(t *testing.T, folder string) {
			t.Helper()
			writeFile(t, filepath.Join(folder, checksum.Signature), nil)
		}, foreign},
		"the signature, which is removed": {func(t *testing.T, folder string) {
			t.Helper()
			if err := os.Remove(filepath.Join(folder, checksum.Signature)); err != nil {
				t.Fatal(err)
			}
		}, "is not signed, as SHA256SUMS.sig is missing"},
		"all of it, signed with another key": {func(t *testing.T, folder string) {
			t.Helper()
			replaced(t, filepath.Join(folder, "drover.yaml"), "List", "list")
			if err := checksum.Write(folder); err != nil {
				t.Fatal(err)
			}
			if _, err := execute(t, "sign", folder, "--key", otherPrivate); err != nil {
				t.Fatal(err)
			}
			if _, err := execute(t, "verify", folder, "--key", otherPublic); err != nil {
				t.Errorf("with that key: %v", err)
			}
		}, foreign},
		"the signature of another release": {func(t *testing.T, folder string) {
			t.Helper()
			other, err := os.ReadFile(filepath.Join(signedRelease(t, "v1.2.2", private), checksum.Signature))
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(folder, checksum.Signature), other)
		}, foreign},
		"an older release in its place": {func(t *testing.T, folder string) {
			t.Helper()
			if err := errors.Join(os.RemoveAll(folder), os.Rename(signedRelease(t, "v1.2.2", private), folder)); err != nil {
				t.Fatal(err)
			}
		}, `has release "v1.2.2", not "v1.2.3"`},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			folder := signedRelease(t, "v1.2.3", private)
			test.change(t, folder)
			printed, err := execute(t, "verify", folder, "--key", public)
			if test.want == "" {
				if err != nil || printed != "verified signature and checksums of "+folder+"\n" {
					t.Errorf("got %q, %v", printed, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(printed, "verified") {
				t.Errorf("got %q, %v, want %q", printed, err, test.want)
			}
		})
	}
}

// TestPushStopsAtTheArchiveThatIsNone has two archives, of which the first by name is pushed and printed, and one that names no tag.
func TestPushStopsAtTheArchiveThatIsNone(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	folder := filepath.Join(t.TempDir(), "v1.2.3")
	binary := filepath.Join(t.TempDir(), "binary")
	writeFile(t, binary, []byte("binary"))
	labels := image.Labels{Version: "v1.2.3", Created: time.Unix(1, 0)}
	made, err := image.New(binary, "amd64", labels)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(folder, "VERSION"), []byte("v1.2.3\n"))
	if err := os.MkdirAll(filepath.Join(folder, "images"), 0o755); err != nil {
		t.Fatal(err)
	}
	for file, name := range map[string]string{"a.tar": "localhost/drover-a:v1.2.3", "b.tar": "localhost:5000/drover-b"} {
		builds := []image.Build{{Architecture: "amd64", Image: made, SBOM: []byte("{}")}}
		if err := image.WriteArchive(filepath.Join(folder, "images", file), name, "v1.2.3", builds, labels); err != nil {
			t.Fatal(err)
		}
	}
	if err := checksum.Write(folder); err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(server.URL, "http://")
	printed, err := execute(t, "push", folder, "--registry", address)
	if err == nil || !strings.Contains(err.Error(), `b.tar names its image "localhost:5000/drover-b", without a tag`) {
		t.Errorf("got %v", err)
	}
	if want := address + "/drover-a:v1.2.3@sha256:"; !strings.HasPrefix(printed, want) || strings.Count(printed, "\n") < 1 || strings.Contains(printed, "drover-b:") {
		t.Errorf("printed %q", printed)
	}
}
