// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/registry"

	"drover.io/release/internal/checksum"
	"drover.io/release/internal/program"
)

// wholeRepository has everything that a release is made from: the real chart, kinds and roles, and programs that are empty.
func wholeRepository(t *testing.T) (imageJob, []program.Program) {
	t.Helper()
	job, _ := smallRepository(t)
	origin, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	job.version = "v0.2.3"
	job.folder = filepath.Join(t.TempDir(), job.version)
	for _, module := range []string{"machine-controller", "bootstrap", "infra-providers", "kubectl-drover"} {
		folder := filepath.Join(job.root, module)
		if module == "infra-providers" {
			folder = filepath.Join(folder, "cmd", "sim")
		}
		writeFile(t, filepath.Join(job.root, module, "go.mod"), []byte("module drover.io/"+module+"\n\ngo 1.24\n"))
		writeFile(t, filepath.Join(folder, "main.go"), []byte("package main\n\nfunc main() {}\n"))
	}
	for _, name := range []string{"charts", "monitoring", "api", "docs", "CHANGELOG.md", "LICENSE", "machine-controller/config", "bootstrap/config", "infra-providers/config"} {
		if err := os.Symlink(filepath.Join(origin, name), filepath.Join(job.root, name)); err != nil {
			t.Fatal(err)
		}
	}
	programs, err := program.List(job.root)
	if err != nil {
		t.Fatal(err)
	}
	return job, programs
}

// TestTheManifestsNameWhatIsPushed follows a release with images to a registry: what its manifests name is there, by digest.
func TestTheManifestsNameWhatIsPushed(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	job, programs := wholeRepository(t)
	job.registry = strings.TrimPrefix(server.URL, "http://") + "/drover"
	if err := releaseAll(t.Context(), job, programs, parts{binaries: true, pluginURL: "https://example.org/{version}/"}); err != nil {
		t.Fatal(err)
	}
	printed, err := execute(t, "push", job.folder, "--registry", job.registry)
	if err != nil {
		t.Fatal(err)
	}
	pushed := strings.Split(strings.TrimSpace(printed), "\n")
	if len(pushed) != len(programs) {
		t.Errorf("got %q, want one image for each of %d programs", pushed, len(programs))
	}
	var manifests string
	for _, name := range []string{"drover.yaml", "drover-infra-sim.yaml"} {
		content, err := os.ReadFile(filepath.Join(job.folder, name))
		if err != nil {
			t.Fatal(err)
		}
		manifests += string(content)
	}
	for _, image := range pushed {
		if !strings.Contains(manifests, "image: "+image+"\n") {
			t.Errorf("no manifest names %s", image)
		}
	}
	checkContents(t, job)
	checkPlugin(t, job)
	if err := releaseAll(t.Context(), job, programs, parts{}); err == nil || !strings.Contains(err.Error(), job.folder+" is not empty") {
		t.Errorf("a second release in the folder: got %v", err)
	}
}

// checkContents checks which files a release has, and that the checksums cover them.
func checkContents(t *testing.T, job imageJob) {
	t.Helper()
	var got []string
	err := fs.WalkDir(os.DirFS(job.folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !strings.HasPrefix(name, monitoringFolder) && !strings.HasPrefix(name, clusterctlFolder) {
			got = append(got, name)
		}
		return err
	})
	want := []string{"SHA256SUMS", "VERSION", "drover-0.2.3.tgz", "drover-deletion-protection.yaml", "drover-infra-sim.yaml", "drover.yaml", "plugin/drover.yaml", "release-notes.md"}
	for _, name := range []string{"bootstrap", "infra-sim", "machine-controller"} {
		want = append(want, "images/drover-"+name+".tar", "sbom/drover-"+name+"-linux-amd64.spdx.json", "sbom/drover-"+name+"-linux-arm64.spdx.json")
	}
	for _, name := range []string{"darwin-amd64", "darwin-arm64", "linux-amd64", "linux-arm64", "windows-amd64"} {
		want = append(want, "plugin/kubectl-drover-"+name+".tar.gz")
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, %s", err, diff)
	}
	if _, err := execute(t, "verify", job.folder, "--checksums-only"); err != nil {
		t.Error(err)
	}
}

// checkPlugin checks that krew finds each archive of a release, and accepts it.
func checkPlugin(t *testing.T, job imageJob) {
	t.Helper()
	manifest, err := os.ReadFile(filepath.Join(job.folder, pluginFolder, "drover.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	archives, err := filepath.Glob(filepath.Join(job.folder, pluginFolder, "*.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range archives {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		for _, want := range []string{"sha256: " + hex.EncodeToString(sum[:]), "uri: https://example.org/v0.2.3/" + filepath.Base(path)} {
			if !strings.Contains(string(manifest), want+"\n") {
				t.Errorf("the manifest does not have %q", want)
			}
		}
	}
}

// TestAReleaseThatBrokeOffIsNotUsed: the checksums are written last, and nothing accepts a folder without them.
func TestAReleaseThatBrokeOffIsNotUsed(t *testing.T) {
	t.Parallel()
	private, _ := keys(t)
	for title, test := range map[string]struct{ file, want string }{
		"a program that does not compile": {"bootstrap/main.go", "compiling bootstrap for linux/amd64"},
		"a missing license":               {"LICENSE", "writing the plugin: "},
		"a missing changelog":             {"CHANGELOG.md", "writing the release notes: reading the changelog"},
		"a missing Deployment":            {"bootstrap/config", "assembling the chart: reading the Deployment of bootstrap"},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			job, programs := wholeRepository(t)
			if err := os.Remove(filepath.Join(job.root, test.file)); err != nil {
				t.Fatal(err)
			}
			with := parts{binaries: test.file == "LICENSE" || test.file == "bootstrap/main.go", pluginURL: defaultPluginURL}
			if err := releaseAll(t.Context(), job, programs, with); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
			for _, arguments := range [][]string{{"push", job.folder, "--registry=localhost:1"}, {"sign", job.folder, "--key=" + private}, {"verify", job.folder, "--checksums-only"}} {
				if _, err := execute(t, arguments...); err == nil || !strings.Contains(err.Error(), checksum.File+" is missing") {
					t.Errorf("%s: got %v, want that there is no release", arguments[0], err)
				}
			}
		})
	}
}

func TestTheAddressOfThePluginIsChecked(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"plugin", "all"} {
		for _, url := range []string{"", "http://example.org", "example.org/plugin", "https:///plugin", "https://a b"} {
			if _, err := execute(t, command, "--version=v0.1.0", "--plugin-url="+url, "--out="+filepath.Join(t.TempDir(), "out")); err == nil || !strings.HasPrefix(err.Error(), "--plugin-url must be a URL such as https://") {
				t.Errorf("%s %q: got %v", command, url, err)
			}
		}
	}
}

func TestAFolderWithAnyNameIsRead(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "[v1] *")
	writeFile(t, filepath.Join(folder, "images", "drover-a.tar"), []byte("no archive"))
	writeFile(t, filepath.Join(folder, clusterctlFolder, "cluster-api", "v1.2.3", "core-components.yaml"), nil)
	if err := checksum.Write(folder); err != nil {
		t.Fatal(err)
	}
	if _, err := execute(t, "push", folder, "--registry=localhost:1"); err == nil || !strings.Contains(err.Error(), "drover-a.tar") {
		t.Errorf("push: got %v, want that it reads the archive", err)
	}
	if out, err := execute(t, "clusterctl-config", folder); err != nil || !strings.Contains(out, "/cluster-api/v1.2.3/core-components.yaml") {
		t.Errorf("clusterctl-config: got %q, %v", out, err)
	}
}

func TestARegistryGetsNothingOfAnIncompleteRelease(t *testing.T) {
	t.Parallel()
	private, public := keys(t)
	for title, test := range map[string]struct {
		change func(folder string) error
		want   string
	}{
		"a file too many": {func(folder string) error {
			return os.WriteFile(filepath.Join(folder, "images", "other.tar"), nil, 0o600)
		}, "images/other.tar is not in SHA256SUMS"},
		"a missing file": {func(folder string) error { return os.Remove(filepath.Join(folder, "VERSION")) }, "VERSION is in SHA256SUMS, but missing"},
		"a damaged list": {func(folder string) error {
			return os.WriteFile(filepath.Join(folder, checksum.File), []byte("x\n"), 0o600)
		}, "no checksum and name"},
		"a link to a file": {func(folder string) error { return os.Symlink("VERSION", filepath.Join(folder, "link")) }, "link is no regular file"},
	} {
		folder := filepath.Join(t.TempDir(), "v1.2.3")
		writeFile(t, filepath.Join(folder, "VERSION"), []byte("v1.2.3\n"))
		writeFile(t, filepath.Join(folder, "images", "drover-a.tar"), nil)
		if err := checksum.Write(folder); err != nil {
			t.Fatal(err)
		}
		_, signed := execute(t, "sign", folder, "--key", private)
		if err := errors.Join(signed, test.change(folder)); err != nil {
			t.Fatal(err)
		}
		for _, arguments := range [][]string{{"push", folder, "--registry=localhost:1"}, {"sign", folder, "--key", private}, {"verify", folder, "--key", public}} {
			want := test.want
			if arguments[0] == "verify" && title == "a damaged list" {
				want = "the signature does not belong"
			}
			if _, err := execute(t, arguments...); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %s: got %v, want %q", title, arguments[0], err, want)
			}
		}
	}
}
