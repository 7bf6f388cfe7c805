// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package plugin makes the archives of kubectl drover and the manifest with which krew installs it. The bytes of an archive
// depend on the binary, the license and the time of the commit alone.
package plugin

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Platform is an operating system and an architecture, by Go's names.
type Platform struct{ OS, Architecture string }

// Platforms are those that the plugin is compiled for.
func Platforms() []Platform {
	return []Platform{{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}}
}

// Binary is the name of the program in the archive.
func (p Platform) Binary() string {
	if p.OS == "windows" {
		return "kubectl-drover.exe"
	}
	return "kubectl-drover"
}

// Archive is the name of the archive.
func (p Platform) Archive() string {
	return fmt.Sprintf("kubectl-drover-%s-%s.tar.gz", p.OS, p.Architecture)
}

// Pack returns the archive of a binary with the license.
func Pack(p Platform, binary, license []byte, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	archive := tar.NewWriter(compressed)
	for _, file := range []struct {
		name    string
		mode    int64
		content []byte
	}{{p.Binary(), 0o755, binary}, {"LICENSE", 0o644, license}} {
		header := &tar.Header{Name: file.name, Mode: file.mode, Size: int64(len(file.content)), ModTime: at, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(file.content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Manifest returns the manifest for krew. url is where the archives are found, with {version} for the version; a slash at its
// end is not doubled.
func Manifest(version, url string, archives map[Platform][]byte) ([]byte, error) {
	var platforms []any
	for _, p := range Platforms() {
		archive, found := archives[p]
		if !found {
			return nil, fmt.Errorf("there is no archive for %s/%s", p.OS, p.Architecture)
		}
		sum := sha256.Sum256(archive)
		platforms = append(platforms, map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"os": p.OS, "arch": p.Architecture}},
			"uri":      strings.TrimSuffix(strings.ReplaceAll(url, "{version}", version), "/") + "/" + p.Archive(),
			"sha256":   hex.EncodeToString(sum[:]),
			"bin":      p.Binary(),
			"files":    []any{map[string]any{"from": p.Binary(), "to": "."}, map[string]any{"from": "LICENSE", "to": "."}},
		})
	}
	return yaml.Marshal(map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
		"kind":       "Plugin",
		"metadata":   map[string]any{"name": "drover"},
		"spec": map[string]any{
			"version":          version,
			"homepage":         "https://drover.io",
			"shortDescription": "What is wrong with the nodes of Drover",
			"description": "Answers what is wrong with nodes whose machines Drover manages, since when, who must act, and what helps.\n" +
				"It shows clusters as a tree, checks an installation, and steers rollouts and freezes.\n",
			"platforms": platforms,
		},
	})
}
