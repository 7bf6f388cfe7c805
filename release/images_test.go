// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover.io/release/internal/image"
	"drover.io/release/internal/program"
)

// smallRepository has one program, and returns what makes its image.
func smallRepository(t *testing.T) (imageJob, []program.Program) {
	t.Helper()
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "m", "go.mod"), []byte("module example.org/m\n\ngo 1.24\n"))
	writeFile(t, filepath.Join(root, "m", "main.go"), []byte("package main\n\nfunc main() {}\n"))
	for _, arguments := range [][]string{
		{"init", "--quiet"}, {"add", "."}, {"-c", "user.name=n", "-c", "user.email=e@example.com", "commit", "--quiet", "--message=first"},
	} {
		if out, err := exec.Command("git", append([]string{"-C", root}, arguments...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", arguments, err, out)
		}
	}
	job := imageJob{
		root: root, folder: t.TempDir(), version: "v1.2.3", registry: "registry.example",
		source: program.GitState{Revision: "abc", Time: time.Unix(1, 0)}, progress: io.Discard,
	}
	return job, []program.Program{{Name: "a", Module: "m", Package: ".", Title: "A program"}}
}

func TestTheDigestIsThatOfTheArchive(t *testing.T) {
	t.Parallel()
	job, programs := smallRepository(t)
	digests, err := job.run(t.Context(), programs)
	if err != nil {
		t.Fatal(err)
	}
	archive, err := image.Open(filepath.Join(job.folder, "images", "drover-a.tar"), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a": archive.Digest.String()}, digests); diff != "" {
		t.Error(diff)
	}
}

//nolint:paralleltest // it sets the environment
func TestTheLevelOfTheProcessorIsNotThatOfTheEnvironment(t *testing.T) {
	job, programs := smallRepository(t)
	for architecture, levels := range map[string][]string{"amd64": {"v1", "v3"}, "arm64": {"v8.0", "v9.0"}} {
		var made [][]byte
		for _, level := range levels {
			t.Setenv("GO"+strings.ToUpper(architecture), level)
			path, err := programs[0].Build(t.Context(), job.root, architecture, job.version, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			made = append(made, content)
		}
		if !bytes.Equal(made[0], made[1]) {
			t.Errorf("%s: the level of the environment changes the program", architecture)
		}
	}
}
