// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// root is that of the repository.
const root = "../../.."

func names(programs []Program) []string {
	all := make([]string, len(programs))
	for i, p := range programs {
		all[i] = p.Name
	}
	return all
}

func TestListHasEveryManager(t *testing.T) {
	t.Parallel()
	programs, err := List(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		if _, err := os.Stat(filepath.Join(root, p.Module, p.Package, "main.go")); err != nil {
			t.Errorf("%s has no main package: %v", p.Name, err)
		}
	}
	got := names(programs)
	if diff := cmp.Diff([]string{"machine-controller", "bootstrap"}, got[:2]); diff != "" {
		t.Error(diff)
	}
	mains, err := filepath.Glob(filepath.Join(root, "infra-providers/cmd/*/main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if want := len(mains) + 2; len(got) != want {
		t.Errorf("got %d programs, want %d: %q", len(got), want, got)
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	all := []Program{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	got, err := Select(all, "c", "a")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "c"}, names(got)); diff != "" {
		t.Error(diff)
	}
	if got, err := Select(all); err != nil || len(got) != 3 {
		t.Errorf("no name: got %q, %v, want all of them", names(got), err)
	}
	if _, err := Select(all, "d"); err == nil || !strings.Contains(err.Error(), `"d"`) || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("an unknown name: got %v, want an error with it and the known ones", err)
	}
}

func TestReadSource(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	run := func(arguments ...string) {
		t.Helper()
		command := exec.Command("git", append([]string{"-C", folder, "-c", "user.name=n", "-c", "user.email=e@example.com"}, arguments...)...)
		command.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2026-01-02T03:04:05+02:00", "GIT_CONFIG_GLOBAL=/dev/null")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", arguments, err, out)
		}
	}
	run("init", "--quiet")
	run("commit", "--quiet", "--allow-empty", "--message", "first")
	got, err := ReadGitState(context.Background(), folder)
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 1, 2, 1, 4, 5, 0, time.UTC); !got.Time.Equal(want) || got.Time.Location() != time.UTC {
		t.Errorf("got time %s, want %s in UTC", got.Time, want)
	}
	if got.Dirty || len(got.Revision) != 40 {
		t.Errorf("got %+v, want a clean revision", got)
	}
	if err := os.WriteFile(filepath.Join(folder, "new"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadGitState(context.Background(), folder); err != nil || !got.Dirty {
		t.Errorf("got %+v, %v, want a dirty one", got, err)
	}
	if _, err := ReadGitState(context.Background(), t.TempDir()); err == nil {
		t.Error("a folder without repository is accepted")
	}
}
