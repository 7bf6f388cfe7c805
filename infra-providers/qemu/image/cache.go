// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package image provides the files that machines boot from: those of the operator's folder, which it never writes to, and
// those that it downloads, verifies and stores by their checksum. It is independent of machines; package host calls it.
package image

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/egress"
)

// partial is part of the name of a file that is being downloaded.
const partial = ".partial-"

// Source is the source of a file: a path in the operator's folder, or a URL with a checksum.
type Source struct {
	Path   string `json:"path,omitempty"`
	URL    string `json:"url,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

// Given reports whether the source names a file.
func (s Source) Given() bool { return s.Path != "" || s.URL != "" }

// Limits bound one download.
type Limits struct {
	// Bytes is the maximum size of a file.
	Bytes int64
	// Time is the maximum time of a download.
	Time time.Duration
}

// DefaultLimits apply where none are set.
var DefaultLimits = Limits{Bytes: 64 << 30, Time: time.Hour}

// Cache finds and downloads files.
type Cache struct {
	// Folder is the operator's. Paths never lead out of it, also not by a symbolic link.
	Folder string
	// Downloads is the folder of downloaded files.
	Downloads string
	// Limits bound each download; a zero value is that of DefaultLimits.
	Limits Limits

	mu        sync.Mutex
	downloads map[Source]*downloadLock
}

// downloadLock is held during the download of a source. It exists while a caller holds it or waits for it.
type downloadLock struct {
	held    chan struct{}
	waiting int
}

// DeletePartial deletes partial downloads of a process that was killed. No download may be in progress.
func (c *Cache) DeletePartial() error {
	entries, err := os.ReadDir(c.Downloads)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		if strings.Contains(entry.Name(), partial) {
			err = errors.Join(err, os.Remove(filepath.Join(c.Downloads, entry.Name())))
		}
	}
	return err
}

// Find returns the path of a file on this host, and an empty one for a file that has to be downloaded. It fails for a
// source that is invalid without the network.
func (c *Cache) Find(s Source) (string, error) {
	if s.Path != "" {
		return c.local(s.Path)
	}
	if s.URL == "" {
		return "", nil
	}
	path := c.storedPath(s)
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return path, err
}

// Ensure returns the path of the file, and downloads it first if necessary. Callers with the same source share one
// download. Callers with another source of the same file do not wait for it, so a server that never answers does not block
// them.
func (c *Cache) Ensure(ctx context.Context, s Source) (string, error) {
	if s.Path != "" {
		return c.local(s.Path)
	}
	unlock, err := c.lock(ctx, s)
	if err != nil {
		return "", err
	}
	defer unlock()
	final := c.storedPath(s)
	if _, err := os.Stat(final); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return final, err
	}
	if err := os.MkdirAll(c.Downloads, 0o700); err != nil {
		return "", err
	}
	file, err := os.CreateTemp(c.Downloads, s.SHA256+partial)
	if err != nil {
		return "", err
	}
	defer os.Remove(file.Name()) //nolint:errcheck // it was renamed if all succeeded
	err = c.download(ctx, s, file)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("downloading %s: %w", s.URL, err)
	}
	if err := os.Rename(file.Name(), final); err != nil {
		return "", err
	}
	logr.FromContextOrDiscard(ctx).Info("downloaded image", "sha256", s.SHA256)
	return final, nil
}

// storedPath is the path of a downloaded file.
func (c *Cache) storedPath(s Source) string { return filepath.Join(c.Downloads, s.SHA256) }

// lock waits until no other caller downloads a source. It fails when the context ends first.
func (c *Cache) lock(ctx context.Context, s Source) (unlock func(), err error) {
	c.mu.Lock()
	if c.downloads == nil {
		c.downloads = map[Source]*downloadLock{}
	}
	t := c.downloads[s]
	if t == nil {
		t = &downloadLock{held: make(chan struct{}, 1)}
		c.downloads[s] = t
	}
	t.waiting++
	c.mu.Unlock()
	leave := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.waiting--; t.waiting == 0 {
			delete(c.downloads, s)
		}
	}
	select {
	case t.held <- struct{}{}:
		return func() { <-t.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
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

// download writes the content of the URL to a file, and fails unless it has the checksum.
func (c *Cache) download(ctx context.Context, s Source, to *os.File) error {
	limits := Limits{Bytes: cmp.Or(c.Limits.Bytes, DefaultLimits.Bytes), Time: cmp.Or(c.Limits.Time, DefaultLimits.Time)}
	tooSlow := fmt.Errorf("it took longer than %s, which --image-download-timeout sets", limits.Time)
	ctx, cancel := context.WithTimeoutCause(ctx, limits.Time, tooSlow)
	defer cancel()
	sum := sha256.New()
	n, err := fetch(ctx, s.URL, io.MultiWriter(to, sum), limits.Bytes)
	switch {
	case errors.Is(context.Cause(ctx), tooSlow) && err != nil:
		return tooSlow
	case err != nil:
		return driver.StableNetworkError(err, "calling the server")
	case n > limits.Bytes:
		return fmt.Errorf("it is larger than %d bytes, which --image-max-size sets", limits.Bytes)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != s.SHA256 {
		return fmt.Errorf("its checksum is %s, not %s", got, s.SHA256)
	}
	return to.Sync()
}

// client connects to no metadata service, because the author of a machine chooses the URL. Mirrors redirect, so redirects
// are followed, each with the same restriction.
var client = func() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	egress.Restrict(transport, net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second})
	return &http.Client{Transport: transport}
}()

// fetch copies the content of a URL, and at most one byte more than the limit.
func fetch(ctx context.Context, url string, to io.Writer, limit int64) (int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close() //nolint:errcheck // read only
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the server answered %s", response.Status)
	}
	if response.ContentLength > limit {
		return response.ContentLength, nil
	}
	return io.Copy(to, io.LimitReader(response.Body, limit+1))
}
