// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package vm boots real machines: the guest of guest.sh, joined by our own managers to a real control plane. What
// a machine would download from the internet it downloads from this package's ArtifactServer on loopback, by the same
// fields of a BootstrapConfig.
package vm

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Images that the ArtifactServer has, by their names at the registries that it mirrors.
const (
	SandboxImage = "registry.k8s.io/pause:3.10.1"
	// profileSandboxImage is the one of a NodeProfile for the version of Kubernetes that the tests run.
	profileSandboxImage = "registry.k8s.io/pause:3.10.2"
	WorkloadImage       = "registry.k8s.io/e2e/hello:1"
)

// ArtifactServer is a web server with binaries and a registry with images.
type ArtifactServer struct {
	Port int
	// Checksums are the SHA-256 checksums of the binaries, by name.
	Checksums map[string]string

	// ChecksumURL is that below which each binary has a checksum file, such as kubelet.sha256, over TLS, and CA the certificate of
	// that server in PEM.
	ChecksumURL, CA string

	// Down is true while the server of the binaries refuses every request, as a mirror in maintenance does.
	Down atomic.Bool

	server, checksums *httptest.Server
}

// StartArtifactServer serves the files, by name, and the images, on loopback.
func StartArtifactServer(files map[string]string) (*ArtifactServer, error) {
	s := &ArtifactServer{Checksums: map[string]string{}}
	mux := http.NewServeMux()
	for file, path := range files {
		sum, err := sumOf(path)
		if err != nil {
			return nil, err
		}
		s.Checksums[file] = sum
		mux.HandleFunc("/"+file, func(w http.ResponseWriter, r *http.Request) {
			if s.Down.Load() {
				http.Error(w, "in maintenance", http.StatusServiceUnavailable)
				return
			}
			http.ServeFile(w, r, path)
		})
	}
	s.serveChecksums()
	mux.Handle("/v2/", registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	s.server = httptest.NewServer(mux)
	if at, ok := s.server.Listener.Addr().(*net.TCPAddr); ok {
		s.Port = at.Port
	}
	image, err := pauseImage()
	if err != nil {
		return nil, err
	}
	for _, at := range []string{SandboxImage, profileSandboxImage, WorkloadImage} {
		if err := s.push(at, image); err != nil {
			return nil, fmt.Errorf("pushing %s: %w", at, err)
		}
	}
	return s, nil
}

// serveChecksums serves the checksum files as projects publish them.
func (s *ArtifactServer) serveChecksums() {
	s.checksums = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		file, is := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/"), ".sha256")
		sum := s.Checksums[file]
		if !is || sum == "" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, "%s  %s\n", sum, file)
	}))
	s.ChecksumURL = s.checksums.URL
	s.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.checksums.Certificate().Raw}))
}

// Stop ends the servers.
func (s *ArtifactServer) Stop() {
	s.server.Close()
	s.checksums.Close()
}

// push gives the registry an image under the path that it has at the registry it mirrors.
func (s *ArtifactServer) push(at string, image v1.Image) error {
	wanted, err := name.ParseReference(at)
	if err != nil {
		return err
	}
	here, err := name.ParseReference(fmt.Sprintf("127.0.0.1:%d/%s:%s", s.Port, wanted.Context().RepositoryStr(), wanted.Identifier()))
	if err != nil {
		return err
	}
	return remote.Write(here, image)
}

// WriteSandboxArchive writes an archive with the image of sandbox containers, for those who import instead of pulling.
func WriteSandboxArchive(path string) error {
	image, err := pauseImage()
	if err != nil {
		return err
	}
	reference, err := name.ParseReference(SandboxImage)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(path, reference, image)
}

// pauseImage builds the program pause as an image.
func pauseImage() (v1.Image, error) {
	folder, err := os.MkdirTemp("", "drover-pause-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // a temporary folder
	binary := filepath.Join(folder, "pause")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "drover.io/test/vm/pause")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if output, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building pause: %w\n%s", err, output)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	if err := writer.WriteHeader(&tar.Header{Name: "pause", Mode: 0o755, Size: int64(len(content))}); err != nil {
		return nil, err
	}
	if _, err := writer.Write(content); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil })
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Architecture, config.OS, config.Config.Entrypoint = "amd64", "linux", []string{"/pause"}
	return mutate.ConfigFile(image, config)
}

func sumOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // read only
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
