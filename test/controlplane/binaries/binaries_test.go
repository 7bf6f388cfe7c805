// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDir(t *testing.T) {
	complete := programs(t, Etcd, APIServer, ControllerManager)
	incomplete := programs(t, Etcd, APIServer)
	for name, test := range map[string]struct {
		assets  string
		wantDir string
		wantErr []string
	}{
		"honours assets that hold everything": {assets: complete, wantDir: complete},
		"names the program that assets lack": {
			assets:  incomplete,
			wantErr: []string{AssetsVariable, filepath.Join(incomplete, ControllerManager), "make control-plane"},
		},
		"names assets that do not exist": {assets: "/absent", wantErr: []string{AssetsVariable, "/absent/etcd"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(AssetsVariable, test.assets)
			dir, err := Dir()
			expectError(t, err, test.wantErr)
			if err == nil && dir != test.wantDir {
				t.Errorf("got %s, want %s", dir, test.wantDir)
			}
		})
	}
}

func TestDirFindsTheRepositoryFromBelow(t *testing.T) {
	root := repository(t, "v3.6.1")
	below := filepath.Join(root, "some", "package")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(below)
	t.Setenv(AssetsVariable, "")

	_, err := Dir()
	expectError(t, err, []string{Etcd, "is missing", "make control-plane"})

	if err := os.Rename(programs(t, Required()...), mustMakeParent(t, Out(root))); err != nil {
		t.Fatal(err)
	}
	dir, err := Dir()
	if err != nil || dir != Out(root) {
		t.Errorf("got %s, %v, want %s", dir, err, Out(root))
	}
}

func TestAssetsLeavesOutOurOwn(t *testing.T) {
	root := repository(t, "v3.6.1")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	for name, test := range map[string]struct{ value, want string }{
		"when unset":                         {"", ""},
		"when it is our bin/k8s":             {Out(root), ""},
		"when it leads to our bin/k8s":       {Out(link) + "/", ""},
		"but not another directory":          {filepath.Join(root, "bin"), filepath.Join(root, "bin")},
		"nor the bin/k8s of another project": {"/elsewhere/bin/k8s", "/elsewhere/bin/k8s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(AssetsVariable, test.value)
			if got := Assets(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestDirOutsideARepository(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(AssetsVariable, "")
	_, err := Dir()
	expectError(t, err, []string{moduleDir, AssetsVariable})
}

func TestCheckAssetsNamesWhatIsNotAProgram(t *testing.T) {
	t.Parallel()
	dir := programs(t, Etcd)
	if err := os.Chmod(filepath.Join(dir, Etcd), 0o644); err != nil {
		t.Fatal(err)
	}
	expectError(t, CheckAssets(dir, []string{Etcd}), []string{"not an executable file"})
	expectError(t, CheckAssets(t.TempDir(), []string{Kubectl}), []string{"kubectl is missing"})
}

// programs returns a directory with executable files called names.
func programs(t *testing.T, names ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "programs")
	for _, name := range names {
		write(t, filepath.Join(dir, name), "")
		if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// write writes a file and the directories above it.
func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(mustMakeParent(t, path), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// mustMakeParent makes the directory that path is in and returns path.
func mustMakeParent(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// expectError checks that err holds every word of want, or is nil if there is
// none.
func expectError(t *testing.T, err error, want []string) {
	t.Helper()
	if (err != nil) != (len(want) > 0) {
		t.Fatalf("got error %v, want one with %q", err, want)
	}
	for _, word := range want {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q lacks %q", err, word)
		}
	}
}
