// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package image owns the files that machines boot from: those of the operator's folder, which it never writes
// to, and those that it downloads, verifies and keeps by their checksum. It knows no machine.
package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
)

// Source is where a file comes from: a path inside the operator's folder, or a URL with a checksum.
type Source struct {
	Path   string `json:"path,omitempty"`
	URL    string `json:"url,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

// Given reports whether there is a file to have.
func (s Source) Given() bool { return s.Path != "" || s.URL != "" }

// Cache finds and downloads files.
type Cache struct {
	// Folder is the operator's. Paths never lead out of it, not by a symbolic link either.
	Folder string
	// Downloads is where downloaded files are kept.
	Downloads string

	mu   sync.Mutex
	busy map[string]*sync.Mutex
}

// Check says what is wrong with a source that can be judged without the network.
func (c *Cache) Check(s Source) error {
	if s.Path == "" {
		return nil
	}
	_, err := c.local(s.Path)
	return err
}

// Ensure returns the path of the file, downloading it first if need be. Callers that want the same file share one
// download.
func (c *Cache) Ensure(ctx context.Context, s Source) (string, error) {
	if s.Path != "" {
		return c.local(s.Path)
	}
	turn := c.turn(s.SHA256)
	turn.Lock()
	defer turn.Unlock()
	final := filepath.Join(c.Downloads, s.SHA256)
	if _, err := os.Stat(final); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return final, err
	}
	if err := ctx.Err(); err != nil { // the turn may have taken long
		return "", err
	}
	if err := os.MkdirAll(c.Downloads, 0o700); err != nil {
		return "", err
	}
	partial := final + ".partial"
	defer os.Remove(partial) //nolint:errcheck // gone already when all went well
	if err := download(ctx, s, partial); err != nil {
		return "", fmt.Errorf("downloading %s: %w", s.URL, err)
	}
	return final, os.Rename(partial, final)
}

func (c *Cache) turn(key string) *sync.Mutex {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy == nil {
		c.busy = map[string]*sync.Mutex{}
	}
	if c.busy[key] == nil {
		c.busy[key] = &sync.Mutex{}
	}
	return c.busy[key]
}

// local resolves a path in the operator's folder.
func (c *Cache) local(path string) (string, error) {
	root, err := os.OpenRoot(c.Folder)
	if err != nil {
		return "", fmt.Errorf("the provider's folder of images: %w", err)
	}
	defer root.Close() //nolint:errcheck // read only
	info, err := root.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("the provider's folder of images has no %q", path)
	case err != nil:
		return "", fmt.Errorf("looking for %q in the provider's folder of images: %w", path, err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%q in the provider's folder of images is not a file", path)
	}
	return filepath.EvalSymlinks(filepath.Join(c.Folder, path))
}

// download writes what the URL has to a file, and fails unless it has the checksum.
func download(ctx context.Context, s Source, to string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return plain(err)
	}
	defer response.Body.Close() //nolint:errcheck // read only
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the server says %s", response.Status)
	}
	file, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(file, sum), response.Body)
	if err = errors.Join(plain(err), file.Sync(), file.Close()); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != s.SHA256 {
		return fmt.Errorf("its checksum is %s, not %s", got, s.SHA256)
	}
	return nil
}

// plain drops what differs from one attempt to the next, such as the local port.
func plain(err error) error {
	if at, ok := errors.AsType[*net.OpError](err); ok {
		return at.Err
	}
	if at, ok := errors.AsType[*url.Error](err); ok {
		return at.Err
	}
	return err
}
