// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"drover.io/release/internal/image"
	"drover.io/release/internal/program"
	"drover.io/release/internal/sbom"
)

// imageJob makes the images of the programs, with their software bills of materials, below a folder.
type imageJob struct {
	root, folder, version, registry string
	source                          program.GitState
	progress                        io.Writer
}

// run compiles the programs and writes images/<program>.tar and sbom/<program>-linux-<architecture>.spdx.json for each. It
// returns the digests of the images by the names of the programs.
func (j imageJob) run(ctx context.Context, programs []program.Program) (map[string]string, error) {
	binaries, err := os.MkdirTemp("", "drover-release-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(binaries) //nolint:errcheck // a temporary folder that stays is no error of the images
	for _, folder := range []string{"images", "sbom"} {
		if err := os.MkdirAll(filepath.Join(j.folder, folder), 0o755); err != nil {
			return nil, err
		}
	}
	digests := map[string]string{}
	for i, p := range programs {
		start := time.Now()
		path, digest, err := j.one(ctx, p, binaries)
		if err != nil {
			return nil, err
		}
		digests[p.Name] = digest
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(j.progress, "(%d/%d) %s: %.1f MiB for %d architectures in %s\n", i+1, len(programs), path,
			float64(info.Size())/(1<<20), len(program.Architectures()), time.Since(start).Round(time.Second))
	}
	return digests, nil
}

func (j imageJob) one(ctx context.Context, p program.Program, binaries string) (path, digest string, err error) {
	labels := image.Labels{Title: p.Title, Version: j.version, Revision: j.source.Revision, Created: j.source.Time}
	var builds []image.Build
	for _, architecture := range program.Architectures() {
		fmt.Fprintf(j.progress, "compiling %s for %s\n", p.Name, architecture)
		binary, err := p.Build(ctx, j.root, architecture, j.version, binaries)
		if err != nil {
			return "", "", err
		}
		name := p.ImageName() + "-linux-" + architecture
		bill, err := sbom.New(sbom.Subject{Path: binary, Name: name, Version: j.version, Created: j.source.Time})
		if err != nil {
			return "", "", fmt.Errorf("describing %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(j.folder, "sbom", name+".spdx.json"), bill, 0o644); err != nil {
			return "", "", err
		}
		made, err := image.New(binary, architecture, labels)
		if err != nil {
			return "", "", fmt.Errorf("making the image %s: %w", name, err)
		}
		builds = append(builds, image.Build{Architecture: architecture, Image: made, SBOM: bill})
	}
	index, err := image.NewIndex(builds, labels).Digest()
	if err != nil {
		return "", "", fmt.Errorf("computing the digest of %s: %w", p.ImageName(), err)
	}
	path = filepath.Join(j.folder, "images", p.ImageName()+".tar")
	return path, index.String(), image.WriteArchive(path, j.registry+"/"+p.ImageName()+":"+j.version, j.version, builds, labels)
}
