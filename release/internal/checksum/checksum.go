// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package checksum writes and verifies the file SHA256SUMS of a release, in the format of sha256sum(1).
package checksum

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// File is the name of the list, and Signature that of its detached signature. Neither is in the list.
const (
	File      = "SHA256SUMS"
	Signature = "SHA256SUMS.sig"
)

// Write lists the checksums of every file below the folder, sorted by name.
func Write(folder string) error {
	sums, err := compute(folder)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&out, "%s  %s\n", sums[name], name)
	}
	return os.WriteFile(filepath.Join(folder, File), out.Bytes(), 0o644)
}

// Verify compares the files below the folder with the list. Its error names each file that differs, is missing, or is not
// in the list.
func Verify(folder string) error {
	wanted, err := read(filepath.Join(folder, File))
	if err != nil {
		return err
	}
	found, err := compute(folder)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		switch sum, there := found[name]; {
		case !there:
			errs = append(errs, fmt.Errorf("%s is in %s, but missing", name, File))
		case sum != wanted[name]:
			errs = append(errs, fmt.Errorf("%s has SHA-256 %s, not %s", name, sum, wanted[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if _, listed := wanted[name]; !listed {
			errs = append(errs, fmt.Errorf("%s is not in %s", name, File))
		}
	}
	return errors.Join(errs...)
}

func compute(folder string) (map[string]string, error) {
	sums := map[string]string{}
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if !entry.Type().IsRegular() { // a symbolic link may lead to a file that is no part of the release
			return fmt.Errorf("%s is no regular file", name)
		}
		if name == File || name == Signature {
			return nil
		}
		sums[name], err = sum(filepath.Join(folder, name))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("computing checksums: %w", err)
	}
	return sums, nil
}

func sum(path string) (string, error) {
	in, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer in.Close() //nolint:errcheck // nothing was written
	hash := sha256.New()
	if _, err := io.Copy(hash, in); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func read(path string) (map[string]string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading checksums: %w", err)
	}
	sums := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		digest, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok || len(digest) != 2*sha256.Size {
			return nil, fmt.Errorf("%s has a line that is no checksum and name: %q", path, lines.Text())
		}
		sums[name] = digest
	}
	return sums, nil
}
