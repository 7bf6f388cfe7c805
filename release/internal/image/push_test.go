// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// startRegistry starts a registry whose requests pass through a filter first, and returns a repository of it. The filter
// answers a request itself, and returns true, or leaves it to the registry.
func startRegistry(t *testing.T, filter func(http.ResponseWriter, *http.Request) bool, options ...registry.Option) string {
	t.Helper()
	handler := registry.New(append(options, registry.Logger(log.New(io.Discard, "", 0)))...)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if filter == nil || !filter(w, r) {
			handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://") + "/team/program"
}

func openTestArchive(t *testing.T) *Archive {
	t.Helper()
	archive, err := Open(writeTestArchive(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

// tagged is the digest that a tag has, or "" if there is no such tag.
func tagged(t *testing.T, repository, tag string) string {
	t.Helper()
	reference, err := name.NewTag(repository + ":" + tag)
	if err != nil {
		t.Fatal(err)
	}
	found, err := remote.Head(reference)
	var refused *transport.Error
	if errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return found.Digest.String()
}

func TestATagWithOtherContentIsKept(t *testing.T) {
	t.Parallel()
	var uploads atomic.Int32
	repository := startRegistry(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			uploads.Add(1)
		}
		return false
	})
	first := openTestArchive(t)
	if err := first.Push(t.Context(), repository, "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	path, changed := filepath.Join(t.TempDir(), "archive.tar"), labels
	changed.Revision = "def"
	if err := WriteArchive(path, "registry.example/a/program:v1.2.3", "v1.2.3", testBuilds(t), changed); err != nil {
		t.Fatal(err)
	}
	second, err := Open(path, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	before := uploads.Load()
	err = second.Push(t.Context(), repository, "v1.2.3")
	if err == nil || !strings.Contains(err.Error(), repository+":v1.2.3 is "+first.Digest.String()+" already, not "+second.Digest.String()) {
		t.Errorf("got %v, want an error with both digests", err)
	}
	if got := uploads.Load() - before; got != 0 {
		t.Errorf("%d requests of the second push write to the registry, want none", got)
	}
	if got := tagged(t, repository, "v1.2.3"); got != first.Digest.String() {
		t.Errorf("the tag is %s, want what it was: %s", got, first.Digest)
	}
	if err := second.Push(t.Context(), repository, "v1.2.4"); err != nil {
		t.Errorf("another version: %v", err)
	}
}

// TestATagThatIsNotKnownIsKept: a registry that is asked too often does not answer what a tag is, and accepts an upload.
func TestATagThatIsNotKnownIsKept(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{http.StatusTooManyRequests: false, http.StatusNotImplemented: false, http.StatusForbidden: true} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			repository := startRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodHead || !strings.HasSuffix(r.URL.Path, "/manifests/v1.2.3") {
					return false
				}
				w.WriteHeader(status)
				return true
			})
			err := openTestArchive(t).Push(t.Context(), repository, "v1.2.3")
			if pushed := err == nil; pushed != want {
				t.Errorf("got %v, want that it is pushed: %t", err, want)
			}
		})
	}
}

func TestARegistryThatRefusesGetsNoTag(t *testing.T) {
	t.Parallel()
	for title, refuse := range map[string]func(*http.Request) bool{
		"every upload": func(r *http.Request) bool { return r.Method == http.MethodPost },
		"every manifest": func(r *http.Request) bool {
			return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/")
		},
		"a tag": func(r *http.Request) bool {
			return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/v1.2.3")
		},
		"the end of a blob": func(r *http.Request) bool {
			return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/blobs/")
		},
	} {
		t.Run("it refuses "+title, func(t *testing.T) {
			t.Parallel()
			repository := startRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
				if !refuse(r) {
					return false
				}
				w.WriteHeader(http.StatusForbidden)
				_, _ = w.Write([]byte(`{"errors": [{"code": "DENIED", "message": "the quota is used up"}]}`))
				return true
			})
			err := openTestArchive(t).Push(t.Context(), repository, "v1.2.3")
			var refused *transport.Error
			if !errors.As(err, &refused) || refused.StatusCode != http.StatusForbidden {
				t.Fatalf("got %v, want the answer of the registry", err)
			}
			for _, want := range []string{"pushing " + repository + ":v1.2.3: ", "the quota is used up"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want an error with %q", err, want)
				}
			}
			if got := tagged(t, repository, "v1.2.3"); got != "" {
				t.Errorf("the tag is %s, want none", got)
			}
		})
	}
}

func TestAPushThatBrokeOffIsCompleted(t *testing.T) {
	t.Parallel()
	var refuse atomic.Bool
	var blobs atomic.Int32
	refuse.Store(true)
	repository := startRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		if strings.Contains(r.URL.Path, "/blobs/") {
			blobs.Add(1)
			return false
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if refuse.Load() && bytes.Contains(body, []byte(`"subject"`)) {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	}, registry.WithReferrersSupport(true))
	archive := openTestArchive(t)
	err := archive.Push(t.Context(), repository, "v1.2.3")
	if err == nil || !strings.Contains(err.Error(), "pushing the software bill of materials of "+repository+":v1.2.3") {
		t.Fatalf("got %v, want an error about the software bill of materials", err)
	}
	refuse.Store(false)
	first := blobs.Swap(0)
	if err := archive.Push(t.Context(), repository, "v1.2.3"); err != nil {
		t.Fatalf("the second push: %v", err)
	}
	if second := blobs.Load(); second >= first {
		t.Errorf("the second push uploads %d blobs, the first %d: want only what was missing", second, first)
	}
	checkReferrers(t, repository, archive)
}

// checkReferrers checks that every image of a pushed archive has its software bill of materials.
func checkReferrers(t *testing.T, repository string, archive *Archive) {
	t.Helper()
	manifest, err := archive.Index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range manifest.Manifests {
		digest, err := name.NewDigest(repository + "@" + entry.Digest.String())
		if err != nil {
			t.Fatal(err)
		}
		checkReferrer(t, digest, entry.Platform.Architecture)
	}
}

func TestARegistryWithoutReferrersListsThemByTag(t *testing.T) {
	t.Parallel()
	repository := startRegistry(t, nil)
	archive := openTestArchive(t)
	for range 2 { // a second push adds nothing twice
		if err := archive.Push(t.Context(), repository, "v1.2.3"); err != nil {
			t.Fatal(err)
		}
		checkReferrers(t, repository, archive)
	}
}

func TestAPushEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	repository := startRegistry(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		cancel()
		<-r.Context().Done()
		return true
	})
	if err := openTestArchive(t).Push(ctx, repository, "v1.2.3"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
	if got := tagged(t, repository, "v1.2.3"); got != "" {
		t.Errorf("the tag is %s, want none", got)
	}
}

// rewrite copies an archive, with each file changed by a function; a file that becomes nil is left out.
func rewrite(t *testing.T, path string, change func(name string, content []byte) []byte) string {
	t.Helper()
	packed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for r := tar.NewReader(bytes.NewReader(packed)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			if content = change(header.Name, content); content == nil {
				continue
			}
		}
		header.Size = int64(len(content))
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(t.TempDir(), "archive.tar")
	if err := os.WriteFile(changed, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return changed
}

func TestALayerThatDiffersFromItsDigestIsNotPushed(t *testing.T) {
	t.Parallel()
	repository := startRegistry(t, nil)
	path := rewrite(t, writeTestArchive(t), func(_ string, content []byte) []byte {
		if bytes.HasPrefix(content, []byte{0x1f, 0x8b}) {
			content[len(content)-1] ^= 1
		}
		return content
	})
	archive, err := Open(path, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := archive.Push(t.Context(), repository, "v1.2.3"); err == nil {
		t.Error("a changed layer is pushed")
	}
	if got := tagged(t, repository, "v1.2.3"); got != "" {
		t.Errorf("the tag is %s, want none", got)
	}
}

func TestOpenRefusesADamagedArchive(t *testing.T) {
	t.Parallel()
	whole := writeTestArchive(t)
	digest := openTestArchive(t).Digest.Hex
	packed, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(t.TempDir(), "short.tar")
	if err := os.WriteFile(short, packed[:len(packed)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	without := func(part string) string {
		return rewrite(t, whole, func(name string, content []byte) []byte {
			if strings.HasSuffix(name, part) {
				return nil
			}
			return content
		})
	}
	for title, path := range map[string]string{
		"one that was cut off":  short,
		"one without index":     without("index.json"),
		"one without its image": without(digest),
		"one whose index is no JSON": rewrite(t, whole, func(name string, content []byte) []byte {
			return map[bool][]byte{true: []byte("{"), false: content}[name == "index.json"]
		}),
		"one whose image is not named": rewrite(t, whole, func(_ string, content []byte) []byte {
			return bytes.ReplaceAll(content, []byte(nameAnnotation), []byte("io.example.none"))
		}),
		"a folder": t.TempDir(),
	} {
		if _, err := Open(path, t.TempDir()); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want an error with its path", title, err)
		}
	}
}

// TestCredentialsAreThoseOfContainerTools sets the environment, so that it is not parallel.
func TestCredentialsAreThoseOfContainerTools(t *testing.T) {
	repository := startRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, ok := r.BasicAuth(); ok && user == "robot" && password == "secret" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	host, _, _ := strings.Cut(repository, "/")
	docker, podman := t.TempDir(), t.TempDir()
	content := []byte(`{"auths": {"` + host + `": {"username": "robot", "password": "secret"}}}`)
	for _, path := range []string{filepath.Join(docker, "config.json"), filepath.Join(podman, "auth.json")} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	archive := openTestArchive(t)
	for _, test := range []struct {
		title, docker, file string
		accepted            bool
	}{
		{"no credentials", t.TempDir(), "", false},
		{"those of DOCKER_CONFIG", docker, "", true},
		{"those of REGISTRY_AUTH_FILE", t.TempDir(), filepath.Join(podman, "auth.json"), true},
	} {
		t.Run(test.title, func(t *testing.T) {
			for variable, value := range map[string]string{"HOME": t.TempDir(), "XDG_RUNTIME_DIR": t.TempDir(), "DOCKER_CONFIG": test.docker, "REGISTRY_AUTH_FILE": test.file} {
				t.Setenv(variable, value)
			}
			err := archive.Push(t.Context(), repository, "v1.2.3")
			var refused *transport.Error
			if unauthorized := errors.As(err, &refused) && refused.StatusCode == http.StatusUnauthorized; unauthorized == test.accepted || test.accepted && err != nil {
				t.Errorf("got %v, want it accepted: %t", err, test.accepted)
			}
		})
	}
}

func TestEachArchitectureHasItsOwnProgram(t *testing.T) {
	t.Parallel()
	archive := openTestArchive(t)
	manifest, err := archive.Index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(labels.Map(), manifest.Annotations); diff != "" {
		t.Errorf("annotations of the index: %s", diff)
	}
	got := map[string]string{}
	for _, entry := range manifest.Manifests {
		made, err := archive.Index.Image(entry.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := made.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != entry.Platform.Architecture || entry.Platform.OS != config.OS {
			t.Errorf("the index names %s, the image %s/%s", entry.Platform, config.OS, config.Architecture)
		}
		contents, _ := files(t, made)
		got[entry.Platform.String()] = contents["manager"]
	}
	if diff := cmp.Diff(map[string]string{"linux/amd64": "binary for amd64", "linux/arm64": "binary for arm64"}, got); diff != "" {
		t.Error(diff)
	}
}
