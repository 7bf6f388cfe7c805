// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"regexp"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestAnArchiveHasTheProgramAndTheLicense(t *testing.T) {
	t.Parallel()
	packed, err := Pack(Platform{"windows", "amd64"}, []byte("program"), []byte("license"), noon)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Pack(Platform{"windows", "amd64"}, []byte("program"), []byte("license"), noon)
	if err != nil || !bytes.Equal(packed, again) {
		t.Errorf("two archives of the same differ, error %v", err)
	}
	compressed, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	archive, got := tar.NewReader(compressed), map[string]string{}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		got[header.Name] = string(content)
		if header.Name == "kubectl-drover.exe" && header.Mode != 0o755 {
			t.Errorf("the program has the mode %o", header.Mode)
		}
	}
	if got["kubectl-drover.exe"] != "program" || got["LICENSE"] != "license" || len(got) != 2 {
		t.Errorf("got %v", got)
	}
}

// TestTheManifestIsOneThatKrewAccepts checks what krew's validation does: names, a version, and for each platform a selector,
// a uri, a checksum, a program and files.
func TestTheManifestIsOneThatKrewAccepts(t *testing.T) {
	t.Parallel()
	archives := map[Platform][]byte{}
	for _, p := range Platforms() {
		archives[p] = []byte(p.OS + p.Architecture)
	}
	content, err := Manifest("v1.2.3", "https://example.org/{version}", archives)
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version, ShortDescription, Description, Homepage string
			Platforms                                        []struct {
				URI, Sha256, Bin string
				Selector         struct{ MatchLabels map[string]string }
				Files            []struct{ From, To string }
			}
		}
	}
	if err := yaml.UnmarshalStrict(content, &m); err != nil {
		t.Fatal(err)
	}
	if m.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || m.Kind != "Plugin" || m.Metadata.Name != "drover" || m.Spec.Version != "v1.2.3" || m.Spec.ShortDescription == "" {
		t.Errorf("got %+v", m)
	}
	if len(m.Spec.Platforms) != len(Platforms()) {
		t.Fatalf("%d platforms", len(m.Spec.Platforms))
	}
	for i, p := range Platforms() {
		got := m.Spec.Platforms[i]
		sum := sha256.Sum256(archives[p])
		if got.URI != "https://example.org/v1.2.3/"+p.Archive() || got.Sha256 != hex.EncodeToString(sum[:]) || got.Bin != p.Binary() || len(got.Files) != 2 ||
			got.Selector.MatchLabels["os"] != p.OS || got.Selector.MatchLabels["arch"] != p.Architecture {
			t.Errorf("%v: got %+v", p, got)
		}
		if !regexp.MustCompile(`^[a-f0-9]{64}$`).MatchString(got.Sha256) {
			t.Errorf("%v: the checksum is %q", p, got.Sha256)
		}
	}
}

func TestAManifestNeedsEveryArchive(t *testing.T) {
	t.Parallel()
	if _, err := Manifest("v1.2.3", "https://example.org", nil); err == nil {
		t.Error("no error")
	}
}
