// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// nameAnnotation is where containerd reads the full name of an image that it imports, refAnnotation where others read
// its tag.
const (
	nameAnnotation = "io.containerd.image.name"
	refAnnotation  = "org.opencontainers.image.ref.name"
)

// WriteArchive writes the image of several architectures, and what refers to it, as an OCI archive: a tar of an OCI
// image layout. The name is the full one, with registry and tag.
func WriteArchive(path, name, tag string, builds []Build, labels Labels) error {
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add:        NewIndex(builds, labels),
		Descriptor: v1.Descriptor{Annotations: map[string]string{nameAnnotation: name, refAnnotation: tag}},
	})
	for _, b := range builds {
		referrer, err := b.Referrer()
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: referrer})
	}
	folder, err := os.MkdirTemp(filepath.Dir(path), ".layout-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // a temporary folder that stays is no error of the archive
	if _, err := layout.Write(folder, index); err != nil {
		return fmt.Errorf("writing the image layout: %w", err)
	}
	return writeTar(path, folder, labels.Created)
}

// writeTar packs a folder, in the order of names and with one time for all files.
func writeTar(path, folder string, at time.Time) (err error) {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := tar.NewWriter(out)
	files := os.DirFS(folder)
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		return addFile(w, files, name, entry, at)
	})
	return errors.Join(err, w.Close())
}

func addFile(w *tar.Writer, files fs.FS, name string, entry fs.DirEntry, at time.Time) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, ModTime: at.UTC().Truncate(time.Second), Format: tar.FormatPAX}
	if entry.IsDir() {
		header.Typeflag, header.Name, header.Mode = tar.TypeDir, name+"/", 0o755
		return w.WriteHeader(header)
	}
	info, err := entry.Info()
	if err != nil {
		return err
	}
	header.Size = info.Size()
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	in, err := files.Open(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, in)
	return errors.Join(err, in.Close())
}
