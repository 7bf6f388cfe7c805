// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Archive is an OCI archive that was unpacked to be read.
type Archive struct {
	// Index is the image of several architectures.
	Index v1.ImageIndex
	// Name is its full name with registry and tag, Digest its digest.
	Name   string
	Digest v1.Hash
	// Referrers are the artifacts that are attached to its images.
	Referrers []v1.Image
}

// Open unpacks an OCI archive into a folder and reads it.
func Open(path, folder string) (*Archive, error) {
	if err := unpack(path, folder); err != nil {
		return nil, fmt.Errorf("unpacking %s: %w", path, err)
	}
	root, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	manifest, err := root.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	archive := &Archive{}
	for _, entry := range manifest.Manifests {
		if entry.MediaType.IsIndex() {
			archive.Name, archive.Digest = entry.Annotations[nameAnnotation], entry.Digest
			archive.Index, err = root.ImageIndex(entry.Digest)
		} else {
			var referrer v1.Image
			referrer, err = root.Image(entry.Digest)
			archive.Referrers = append(archive.Referrers, referrer)
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
	}
	if archive.Index == nil || archive.Name == "" {
		return nil, fmt.Errorf("%s is no archive of ours: it has no image with the annotation %s", path, nameAnnotation)
	}
	return archive, nil
}

// Push uploads the image and what refers to it. The repository is named without tag; the credentials are those of the
// container tools' own configuration (~/.docker/config.json or REGISTRY_AUTH_FILE). A tag that names something else already
// stays as it is, with an error: installations run what it names, and registries delete what no tag names.
func (a *Archive) Push(ctx context.Context, repository, tag string, options ...name.Option) error {
	target, err := name.NewTag(repository+":"+tag, options...)
	if err != nil {
		return fmt.Errorf("naming the image: %w", err)
	}
	with := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	switch found, err := remote.Head(target, with...); {
	case err == nil && found.Digest != a.Digest:
		return fmt.Errorf("%s is %s already, not %s: push another version, or delete the tag if nothing runs its image", target, found.Digest, a.Digest)
	case err != nil && !mayBeMissing(err):
		return fmt.Errorf("asking whether %s is there: %w", target, err)
	}
	if err := remote.WriteIndex(target, a.Index, with...); err != nil {
		return fmt.Errorf("pushing %s: %w", target, err)
	}
	for _, referrer := range a.Referrers {
		digest, err := referrer.Digest()
		if err != nil {
			return err
		}
		if err := remote.Write(target.Digest(digest.String()), referrer, with...); err != nil {
			return fmt.Errorf("pushing the software bill of materials of %s: %w", target, err)
		}
	}
	return nil
}

// mayBeMissing reports whether a registry answered that there is no such tag. Registries do so in several ways, such as that it
// is forbidden; what counts then meets the upload, too. While too many questions are asked, uploads may be accepted.
func mayBeMissing(err error) bool {
	answer, answered := errors.AsType[*transport.Error](err)
	if !answered {
		return false
	}
	switch answer.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return answer.StatusCode < http.StatusInternalServerError
}

// unpack extracts regular files. Names that lead out of the folder are refused.
func unpack(path, folder string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // nothing was written
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing is written through it
	for r := tar.NewReader(in); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := extract(root, header.Name, r); err != nil {
			return err
		}
	}
}

func extract(root *os.Root, name string, from io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	out, err := root.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, from)
	return errors.Join(err, out.Close())
}
