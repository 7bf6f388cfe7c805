// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drover.io/infra-providers/qemu/image"
	"drover.io/runtime/egress"
)

const content = "a disk"

func sum() string {
	s := sha256.Sum256([]byte(content))
	return hex.EncodeToString(s[:])
}

func TestEnsureDownloadsOnce(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = w.Write([]byte(content))
	}))
	t.Cleanup(server.Close)
	cache := &image.Cache{Downloads: filepath.Join(t.TempDir(), "downloads")}
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			path, err := cache.Ensure(t.Context(), image.Source{URL: server.URL, SHA256: sum()})
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != content {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	callers.Wait()
	if requests.Load() != 1 {
		t.Errorf("it was downloaded %d times", requests.Load())
	}
}

func TestEnsureStoresOnlyVerifiedFiles(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"with another checksum": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("another disk")) },
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "6")
			_, _ = w.Write([]byte("a d"))
		},
		"refused": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, content, http.StatusNotFound) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(answer)
			t.Cleanup(server.Close)
			cache := &image.Cache{Downloads: t.TempDir()}
			if path, err := cache.Ensure(t.Context(), image.Source{URL: server.URL, SHA256: sum()}); err == nil {
				t.Errorf("got %s", path)
			}
			if left, err := os.ReadDir(cache.Downloads); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

func TestEnsureStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	cache := &image.Cache{Downloads: t.TempDir()}
	if _, err := cache.Ensure(ctx, image.Source{URL: server.URL, SHA256: sum()}); err == nil {
		t.Error("it succeeded")
	}
}

func TestEnsureStaysInItsFolder(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	folder := t.TempDir()
	for path, text := range map[string]string{filepath.Join(outside, "secret"): "s", filepath.Join(folder, "inside"): content} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(outside, "secret"), filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("inside", filepath.Join(folder, "alias")); err != nil {
		t.Fatal(err)
	}
	cache := &image.Cache{Folder: folder}
	for path, want := range map[string]bool{
		"inside": true, "alias": true,
		"link": false, "../secret": false, filepath.Join(outside, "secret"): false, "nowhere": false, ".": false,
	} {
		_, checked := cache.Find(image.Source{Path: path})
		_, err := cache.Ensure(t.Context(), image.Source{Path: path})
		if (checked == nil) != want || (err == nil) != want {
			t.Errorf("%s: got %v and %v, want success to be %t", path, checked, err, want)
		}
	}
}

// TestEnsureConnectsToNoMetadataService: neither by the URL of a machine, nor by a mirror that redirects there.
func TestEnsureConnectsToNoMetadataService(t *testing.T) {
	t.Parallel()
	const metadata = "http://169.254.169.254/latest/meta-data/"
	mirror := httptest.NewServer(http.RedirectHandler(metadata, http.StatusFound))
	t.Cleanup(mirror.Close)
	cache := &image.Cache{Downloads: t.TempDir()}
	for _, url := range []string{metadata, mirror.URL} {
		_, err := cache.Ensure(t.Context(), image.Source{URL: url, SHA256: sum()})
		if _, forbidden := errors.AsType[*egress.ForbiddenError](err); !forbidden {
			t.Errorf("%s: got %v, want a ForbiddenError", url, err)
		}
	}
}

// TestEnsureIsBounded has a server that never ends, one that never begins, and one that announces too much.
func TestEnsureIsBounded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		limits image.Limits
		want   string
	}{
		"when the file is longer than announced": {
			func(w http.ResponseWriter, r *http.Request) {
				for r.Context().Err() == nil {
					if _, err := w.Write(make([]byte, 1024)); err != nil {
						return
					}
				}
			}, image.Limits{Bytes: 4096}, "it is larger than 4096 bytes, which --image-max-size sets",
		},
		"when the file is too long": {
			func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "4097")
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}, image.Limits{Bytes: 4096}, "it is larger than 4096 bytes, which --image-max-size sets",
		},
		"when the server never answers": {
			func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			image.Limits{Time: time.Millisecond}, "it took longer than 1ms, which --image-download-timeout sets",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(test.answer)
			t.Cleanup(server.Close)
			cache := &image.Cache{Downloads: t.TempDir(), Limits: test.limits}
			_, err := cache.Ensure(t.Context(), image.Source{URL: server.URL, SHA256: sum()})
			if err == nil || !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if left, err := os.ReadDir(cache.Downloads); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// TestSlowServerBlocksNoOtherSource: a caller that waits for a download can give up, and one with another source of the
// file does not wait.
func TestSlowServerBlocksNoOtherSource(t *testing.T) {
	t.Parallel()
	requests := make(chan struct{}, 1)
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		requests <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(slow.Close)
	well := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(content)) }))
	t.Cleanup(well.Close)
	cache := &image.Cache{Downloads: filepath.Join(t.TempDir(), "downloads")}
	first, endFirst := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	callers.Go(func() {
		if _, err := cache.Ensure(first, image.Source{URL: slow.URL, SHA256: sum()}); err == nil {
			t.Error("the slow server answered")
		}
	})
	<-requests
	second, endSecond := context.WithCancel(t.Context())
	endSecond()
	if _, err := cache.Ensure(second, image.Source{URL: slow.URL, SHA256: sum()}); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting: got %v, want the context's error", err)
	}
	if _, err := cache.Ensure(t.Context(), image.Source{URL: well.URL, SHA256: sum()}); err != nil {
		t.Errorf("from another server: %v", err)
	}
	endFirst()
	callers.Wait()
}

func TestSweepDeletesPartialDownloads(t *testing.T) {
	t.Parallel()
	cache := &image.Cache{Downloads: filepath.Join(t.TempDir(), "downloads")}
	if err := cache.DeletePartial(); err != nil {
		t.Errorf("without a folder: %v", err)
	}
	if err := os.Mkdir(cache.Downloads, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{sum(), sum() + ".partial-12"} {
		if err := os.WriteFile(filepath.Join(cache.Downloads, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := cache.DeletePartial(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(cache.Downloads); err != nil || len(left) != 1 || left[0].Name() != sum() {
		t.Errorf("left: %v, %v", left, err)
	}
}
