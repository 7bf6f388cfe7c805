// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package image makes container images from nothing but a static binary, root certificates and a user that is not root,
// and writes them as OCI archives. It needs no container engine and no base image. The same binary, certificates and
// labels always make the same bytes.
package image

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// User is the numeric user and group that the program runs as. 65532 is the customary number of "nonroot".
const User = 65532

// binary is the path of the program in its image. Deployments name no command, so that it may change.
const binary = "/manager"

// Labels are what the OCI image specification defines annotations for.
type Labels struct {
	Title    string
	Version  string
	Revision string
	Created  time.Time
}

// Map returns the labels by the keys of the OCI image specification.
func (l Labels) Map() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    l.Title,
		"org.opencontainers.image.version":  l.Version,
		"org.opencontainers.image.revision": l.Revision,
		"org.opencontainers.image.created":  l.Created.UTC().Format(time.RFC3339),
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.vendor":   "The Drover Authors",
	}
}

// New makes the image of one architecture from the binary at a path.
func New(path, architecture string, labels Labels) (v1.Image, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the binary: %w", err)
	}
	files, err := layer(content, labels.Created)
	if err != nil {
		return nil, fmt.Errorf("writing the layer: %w", err)
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil }
	compressed, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("compressing the layer: %w", err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	filled, err := mutate.Append(base, mutate.Addendum{Layer: compressed, History: v1.History{
		Created: v1.Time{Time: labels.Created}, CreatedBy: "drover release", Comment: "static binary, root certificates and a user",
	}})
	if err != nil {
		return nil, fmt.Errorf("adding the layer: %w", err)
	}
	config, err := filled.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", architecture, v1.Time{Time: labels.Created}
	config.Config = v1.Config{
		Entrypoint: []string{binary},
		User:       fmt.Sprintf("%d:%d", User, User),
		WorkingDir: "/",
		Env:        []string{"SSL_CERT_FILE=" + certificates},
		Labels:     labels.Map(),
	}
	return mutate.ConfigFile(filled, config)
}

// certificates is where Go's crypto/x509 and most programs look for root certificates.
const certificates = "/etc/ssl/certs/ca-certificates.crt"

// layer is an uncompressed tar with every file of the image.
func layer(program []byte, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	add := func(name string, kind byte, mode int64, content []byte) error {
		header := &tar.Header{Typeflag: kind, Name: name, Mode: mode, Size: int64(len(content)), ModTime: at.UTC().Truncate(time.Second), Format: tar.FormatPAX}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err := w.Write(content)
		return err
	}
	entries := []struct {
		name    string
		kind    byte
		mode    int64
		content []byte
	}{
		{"etc/", tar.TypeDir, 0o755, nil},
		{"etc/group", tar.TypeReg, 0o644, fmt.Appendf(nil, "root:x:0:\nnonroot:x:%d:\n", User)},
		{"etc/passwd", tar.TypeReg, 0o644, fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:%d:%d:nonroot:/:/sbin/nologin\n", User, User)},
		{"etc/ssl/", tar.TypeDir, 0o755, nil},
		{"etc/ssl/certs/", tar.TypeDir, 0o755, nil},
		{certificates[1:], tar.TypeReg, 0o644, roots()},
		{binary[1:], tar.TypeReg, 0o755, program},
		{"tmp/", tar.TypeDir, 0o1777, nil}, // a mount point for an emptyDir: the root is read-only
	}
	for _, e := range entries {
		if err := add(e.name, e.kind, e.mode, e.content); err != nil {
			return nil, fmt.Errorf("adding %s: %w", e.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// roots are the certificates of Mozilla's program, as golang.org/x/crypto/x509roots carries them. Those that are
// trusted only for certificates of before a date are left out: a PEM file cannot express that.
func roots() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return out.Bytes()
}
