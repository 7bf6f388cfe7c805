// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"strings"

	"drover.io/release/internal/image"
)

// push uploads one archive to a registry and returns the name and digest that it has there.
func push(ctx context.Context, archivePath, registry string) (string, error) {
	folder, err := os.MkdirTemp("", "drover-push-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // a temporary folder that stays is no error of the push
	archive, err := image.Open(archivePath, folder)
	if err != nil {
		return "", err
	}
	repository, tag, ok := strings.Cut(path.Base(archive.Name), ":")
	if !ok {
		return "", fmt.Errorf("%s names its image %q, without a tag", archivePath, archive.Name)
	}
	repository = registry + "/" + repository
	if err := archive.Push(ctx, repository, tag); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s:%s@%s", repository, tag, archive.Digest), nil
}
