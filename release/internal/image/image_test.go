// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var labels = Labels{Title: "A program", Version: "v1.2.3", Revision: "abc", Created: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)}

// testBuilds makes the images of two architectures from two small files.
func testBuilds(t *testing.T) []Build {
	t.Helper()
	var builds []Build
	for _, architecture := range []string{"amd64", "arm64"} {
		path := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(path, []byte("binary for "+architecture), 0o600); err != nil {
			t.Fatal(err)
		}
		made, err := New(path, architecture, labels)
		if err != nil {
			t.Fatal(err)
		}
		builds = append(builds, Build{Architecture: architecture, Image: made, SBOM: []byte(`{"spdxVersion": "SPDX-2.3", "name": "` + architecture + `"}`)})
	}
	return builds
}

func writeTestArchive(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "archive.tar")
	if err := WriteArchive(path, "registry.example/a/program:v1.2.3", "v1.2.3", testBuilds(t), labels); err != nil {
		t.Fatal(err)
	}
	return path
}

// files returns the entries of an image by name, with their headers' modes.
func files(t *testing.T, image v1.Image) (contents map[string]string, modes map[string]int64) {
	t.Helper()
	contents, modes = map[string]string{}, map[string]int64{}
	all := mutate.Extract(image)
	t.Cleanup(func() { _ = all.Close() })
	for r := tar.NewReader(all); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return contents, modes
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		contents[header.Name], modes[header.Name] = string(content), header.Mode
		if header.Uid != 0 || header.Gid != 0 {
			t.Errorf("%s belongs to %d:%d, want root, so that the program cannot change it", header.Name, header.Uid, header.Gid)
		}
	}
}

func TestAnImageHasNothingButTheProgramCertificatesAndAUser(t *testing.T) {
	t.Parallel()
	contents, modes := files(t, testBuilds(t)[1].Image)
	certificates := contents["etc/ssl/certs/ca-certificates.crt"]
	delete(contents, "etc/ssl/certs/ca-certificates.crt")
	want := map[string]string{
		"etc": "", "etc/ssl": "", "etc/ssl/certs": "", "tmp": "",
		"etc/group":  "root:x:0:\nnonroot:x:65532:\n",
		"etc/passwd": "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n",
		"manager":    "binary for arm64",
	}
	if diff := cmp.Diff(want, contents); diff != "" {
		t.Error(diff)
	}
	if modes["manager"] != 0o755 {
		t.Errorf("the program has mode %o, want 755", modes["manager"])
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(certificates)) || strings.Count(certificates, "BEGIN CERTIFICATE") < 100 {
		t.Errorf("%d root certificates can be read, want at least 100", strings.Count(certificates, "BEGIN CERTIFICATE"))
	}
}

func TestTheConfigurationOfAnImage(t *testing.T) {
	t.Parallel()
	config, err := testBuilds(t)[1].Image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := v1.Config{
		Entrypoint: []string{"/manager"}, User: "65532:65532", WorkingDir: "/",
		Env:    []string{"SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
		Labels: labels.Map(),
	}
	if diff := cmp.Diff(want, config.Config); diff != "" {
		t.Error(diff)
	}
	if config.OS != "linux" || config.Architecture != "arm64" || !config.Created.Equal(labels.Created) {
		t.Errorf("got %s/%s of %s", config.OS, config.Architecture, config.Created)
	}
}

func TestAnArchiveIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	first, err := os.ReadFile(writeTestArchive(t))
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(writeTestArchive(t))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("two archives of the same programs differ")
	}
}

func TestAnArchiveIsPushedWithItsReferrers(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	archive, err := Open(writeTestArchive(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if archive.Name != "registry.example/a/program:v1.2.3" {
		t.Errorf("got name %q", archive.Name)
	}
	repository := strings.TrimPrefix(server.URL, "http://") + "/team/program"
	if err := archive.Push(context.Background(), repository, "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	reference, err := name.ParseReference(repository + ":v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("the index is not valid: %v", err)
	}
	digest, err := index.Digest()
	if err != nil || digest != archive.Digest {
		t.Errorf("got digest %s, %v, want %s", digest, err, archive.Digest)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range manifest.Manifests {
		checkReferrer(t, reference.Context().Digest(entry.Digest.String()), entry.Platform.Architecture)
	}
	if len(manifest.Manifests) != 2 {
		t.Errorf("got %d architectures, want 2", len(manifest.Manifests))
	}
}

// checkReferrer looks for the software bill of materials of an image as any client of a registry does.
func checkReferrer(t *testing.T, image name.Digest, architecture string) {
	t.Helper()
	list, err := remote.Referrers(image, remote.WithFilter("artifactType", SBOMType))
	if err != nil {
		t.Fatal(err)
	}
	referrers, err := list.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(referrers.Manifests) != 1 {
		t.Fatalf("%s has %d referrers of the type, want 1", architecture, len(referrers.Manifests))
	}
	artifact, err := remote.Image(image.Digest(referrers.Manifests[0].Digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	layers, err := artifact.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("got %d layers, %v, want 1", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	bill, err := io.ReadAll(content)
	if err != nil || !strings.Contains(string(bill), `"name": "`+architecture+`"`) {
		t.Errorf("got %q, %v, want the one of %s", bill, err, architecture)
	}
}

func TestMediaTypesAreThoseOfOCI(t *testing.T) {
	t.Parallel()
	builds := testBuilds(t)
	index := NewIndex(builds, labels)
	if kind, err := index.MediaType(); err != nil || kind != types.OCIImageIndex {
		t.Errorf("index: got %s, %v", kind, err)
	}
	manifest, err := builds[0].Image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	got := []types.MediaType{manifest.MediaType, manifest.Config.MediaType, manifest.Layers[0].MediaType}
	if diff := cmp.Diff([]types.MediaType{types.OCIManifestSchema1, types.OCIConfigJSON, types.OCILayer}, got); diff != "" {
		t.Error(diff)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	write := func(header *tar.Header, content string) string {
		path := filepath.Join(t.TempDir(), "archive.tar")
		out, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = out.Close() })
		w := tar.NewWriter(out)
		header.Size, header.Mode = int64(len(content)), 0o644
		if err := errors.Join(w.WriteHeader(header), func() error { _, err := w.Write([]byte(content)); return err }(), w.Close()); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for title, path := range map[string]string{
		"what leads out of the folder": write(&tar.Header{Name: "../out", Typeflag: tar.TypeReg}, "x"),
		"what has no image":            write(&tar.Header{Name: "index.json", Typeflag: tar.TypeReg}, `{"schemaVersion": 2, "manifests": []}`),
		"what is missing":              filepath.Join(t.TempDir(), "none.tar"),
	} {
		if _, err := Open(path, t.TempDir()); err == nil {
			t.Errorf("%s is not refused", title)
		}
	}
}
