// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"drover.io/infra-providers/qemu/image"
)

const content = "a disk"

func sum() string {
	s := sha256.Sum256([]byte(content))
	return hex.EncodeToString(s[:])
}

func TestEnsureDownloadsOnceForAll(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
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
	if asked.Load() != 1 {
		t.Errorf("it was downloaded %d times", asked.Load())
	}
}

func TestEnsureKeepsNothingItCannotVerify(t *testing.T) {
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
		checked := cache.Check(image.Source{Path: path})
		_, err := cache.Ensure(t.Context(), image.Source{Path: path})
		if (checked == nil) != want || (err == nil) != want {
			t.Errorf("%s: got %v and %v, want success to be %t", path, checked, err, want)
		}
	}
}
