// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Architectures are those that every image has. The operating system is always Linux.
func Architectures() []string {
	return []string{"amd64", "arm64"}
}

// Build compiles the program for an architecture into a file and returns its path. The bytes depend on the commit, the
// version and the release of Go alone: paths are trimmed, nothing of the host is linked, and the level of the processor is
// the lowest, whatever the environment has.
func (p Program) Build(ctx context.Context, root, architecture, version, folder string) (string, error) {
	return p.BuildFor(ctx, root, "linux", architecture, version, folder)
}

// BuildFor does the same for an operating system, by Go's name.
func (p Program) BuildFor(ctx context.Context, root, system, architecture, version, folder string) (string, error) {
	path := filepath.Join(folder, p.Name+"-"+system+"-"+architecture)
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true",
		"-ldflags", "-s -w -buildid= -X drover.io/runtime/version.version="+version, "-o", path, p.Package)
	command.Dir = filepath.Join(root, p.Module)
	command.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+architecture, "GOFLAGS=-mod=readonly",
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off")
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling %s for %s/%s: %w\n%s", p.Name, system, architecture, err, out)
	}
	return path, nil
}

// GitState is the state of the repository that a release is made from.
type GitState struct {
	// Revision is the commit.
	Revision string
	// Time is when it was committed. It is the time of every file of a release.
	Time time.Time
	// Dirty is true where files differ from the commit.
	Dirty bool
}

// ReadGitState reads the state of the repository.
func ReadGitState(ctx context.Context, root string) (GitState, error) {
	commit, err := git(ctx, root, "show", "--no-patch", "--format=%H %cI", "HEAD")
	if err != nil {
		return GitState{}, err
	}
	revision, committed, _ := strings.Cut(commit, " ")
	at, err := time.Parse(time.RFC3339, committed)
	if err != nil {
		return GitState{}, fmt.Errorf("reading the time of commit %s: %w", revision, err)
	}
	changed, err := git(ctx, root, "status", "--porcelain")
	if err != nil {
		return GitState{}, err
	}
	return GitState{Revision: revision, Time: at.UTC(), Dirty: changed != ""}, nil
}

func git(ctx context.Context, root string, arguments ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, arguments...)...).Output()
	if err != nil {
		return "", fmt.Errorf("running git %s: %w", arguments[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
