// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package statedir_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover.io/infra-providers/internal/statedir"
)

type spec struct{ ID, Tag string }

func open(t *testing.T, options statedir.Options) *statedir.Dir[spec] {
	t.Helper()
	options.SpecFile = "spec.json"
	dir, err := statedir.Open[spec](options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return dir
}

func wantSpecs(t *testing.T, dir *statedir.Dir[spec], want ...spec) {
	t.Helper()
	got, err := dir.Load()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
}

func TestInstancesPersist(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]statedir.Options{"in the directory": {}, "in a folder, durably": {Instances: "machines", Sync: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options.Path = filepath.Join(t.TempDir(), "new", "state")
			dir := open(t, options)
			a, b := spec{ID: "a"}, spec{ID: "b"}
			for _, s := range []spec{a, b} {
				if err := dir.Create(s.ID, s, []byte("data of "+s.ID)); err != nil {
					t.Fatal(err)
				}
			}
			a.Tag = "changed"
			if err := errors.Join(dir.Save("a", a), dir.Delete("b"), dir.Delete("b"), dir.Close()); err != nil {
				t.Fatal(err)
			}
			dir = open(t, options)
			wantSpecs(t, dir, a)
			if data, err := os.ReadFile(dir.UserData("a")); err != nil || string(data) != "data of a" {
				t.Errorf("user data is %q, %v", data, err)
			}
			if info, err := os.Stat(dir.Path("a", "spec.json")); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the specification has mode %v, %v", info.Mode(), err)
			}
		})
	}
}

func TestCreateFailsForAnExistingInstance(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	dir := open(t, statedir.Options{Path: path})
	first := spec{ID: "a", Tag: "first"}
	if err := dir.Create("a", first, nil); err != nil {
		t.Fatal(err)
	}
	if err := dir.Create("a", spec{ID: "a"}, nil); err == nil {
		t.Error("the second creation succeeded")
	}
	wantSpecs(t, dir, first)
	entries, err := os.ReadDir(path)
	if err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }) {
		t.Errorf("the failed creation left %v, %v", entries, err)
	}
}

func TestLoadDeletesUnfinishedFolders(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	dir := open(t, statedir.Options{Path: path})
	unfinished := filepath.Join(path, ".unfinished-1")
	if err := os.MkdirAll(filepath.Join(unfinished, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	wantSpecs(t, dir)
	if _, err := os.Stat(unfinished); !os.IsNotExist(err) {
		t.Errorf("the folder still exists: %v", err)
	}
}

func TestLoadFailsForADamagedInstance(t *testing.T) {
	t.Parallel()
	dir := open(t, statedir.Options{Path: t.TempDir()})
	if err := errors.Join(dir.Create("a", spec{}, nil), os.WriteFile(dir.Path("a", "spec.json"), []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Load(); err == nil || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("got %v, want an error of instance a", err)
	}
}

func TestFilesOfADeletedInstanceAreNotWritten(t *testing.T) {
	t.Parallel()
	dir := open(t, statedir.Options{Path: t.TempDir()})
	if err := errors.Join(dir.Create("a", spec{}, nil), dir.Replace("a", "key", []byte("1")), dir.Replace("a", "key", []byte("2"))); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(dir.Path("a", "key")); err != nil || string(content) != "2" {
		t.Errorf("got %q, %v", content, err)
	}
	if err := dir.Delete("a"); err != nil {
		t.Fatal(err)
	}
	if err := dir.Replace("a", "key", nil); err == nil {
		t.Error("a file of a deleted instance was written")
	}
	if err := dir.Save("a", spec{}); err == nil {
		t.Error("a deleted instance was saved")
	}
}

func TestDirectoryIDIsUniqueAndStable(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	var names []string
	for range 2 {
		dir := open(t, statedir.Options{Path: path})
		name, err := dir.Name()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
		_ = dir.Close()
	}
	other, err := open(t, statedir.Options{Path: t.TempDir()}).Name()
	if err != nil || names[0] != names[1] || other == names[0] {
		t.Errorf("got names %q, and %q of another directory, %v", names, other, err)
	}
	// A partial name, as after a power failure, is replaced.
	if err := os.WriteFile(filepath.Join(path, "lock"), []byte(names[0][:7]), 0o600); err != nil {
		t.Fatal(err)
	}
	if name, err := open(t, statedir.Options{Path: path}).Name(); err != nil || len(name) != 36 {
		t.Errorf("got name %q, %v", name, err)
	}
}

func TestLockIsExclusive(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	first, err := statedir.Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := statedir.Lock(path); !errors.Is(err, statedir.ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := statedir.Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = second.Close()
}

func TestOpenFailsWhileTheDirectoryIsLocked(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	open(t, statedir.Options{Path: path})
	if _, err := statedir.Open[spec](statedir.Options{Path: path}); !errors.Is(err, statedir.ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
}

// TestReadEnd: the end of a file may be in its older part.
func TestReadEnd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	read := func(limit int64) string {
		t.Helper()
		content, err := statedir.ReadEnd(path, limit)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	if got := read(10); got != "" {
		t.Errorf("where there is no file: %q", got)
	}
	for _, part := range []string{"first\n", "second\n", "third\n"} {
		if err := statedir.AppendBounded(path, []byte(part), 13); err != nil {
			t.Fatal(err)
		}
	}
	for limit, want := range map[int64]string{3: "rd\n", 6: "third\n", 8: "d\nthird\n", 100: "first\nsecond\nthird\n"} {
		if got := read(limit); got != want {
			t.Errorf("the last %d bytes are %q, want %q", limit, got, want)
		}
	}
}

func TestAppendBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "console.log")
	for _, line := range []string{"one\n", "two\n", "three\n", "four\n"} {
		if err := statedir.AppendBounded(path, []byte(line), 12); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{path: "three\nfour\n", path + ".1": "one\ntwo\n"} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v, want %q", name, got, err, want)
		}
	}
	if err := statedir.AppendBounded(filepath.Join(path, "none"), nil, 12); err == nil {
		t.Error("a file in a folder that does not exist was written")
	}
}
