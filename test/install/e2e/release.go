// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	chart "helm.sh/helm/v4/pkg/chart/v2"

	"drover.io/test/install/helm"
)

// programs are those that the scenarios run.
var programs = []string{"machine-controller", "bootstrap", "infra-sim"}

// release is what the release module wrote.
type release struct {
	version string
	// folder has manifests and chart, images the folder with the archives.
	folder, images string
	chart          *chart.Chart
}

// makeReleases makes the release that is tested and the one before it. A revision of the latter is checked out into a
// clone, so that the repository stays as it is.
func makeReleases(ctx context.Context, root, dir, revision string) (before, now *release, err error) {
	source, origin := root, "the same commit"
	if revision != "" {
		source, origin = filepath.Join(dir, "before"), revision
		for _, arguments := range [][]string{
			{"clone", "--quiet", "--shared", "--no-checkout", root, source},
			{"-C", source, "checkout", "--quiet", "--detach", revision},
		} {
			if err := command(ctx, root, "git", arguments...); err != nil {
				return nil, nil, err
			}
		}
	}
	if before, err = makeRelease(ctx, source, dir, "v0.0.1"); err != nil {
		return nil, nil, err
	}
	step("made release %s of %s", before.version, origin)
	if now, err = makeRelease(ctx, root, dir, "v0.1.0"); err != nil {
		return nil, nil, err
	}
	step("made release %s", now.version)
	return before, now, nil
}

// makeRelease makes manifests, chart and the images of the programs.
func makeRelease(ctx context.Context, source, dir, version string) (*release, error) {
	r := &release{version: version, folder: filepath.Join(dir, version), images: filepath.Join(dir, version+"-images", "images")}
	arguments := []string{"run", ".", "images", "--only", strings.Join(programs, ","), "--version", version, "--out", filepath.Dir(r.images)}
	if err := command(ctx, filepath.Join(source, "release"), "go", arguments...); err != nil {
		return nil, fmt.Errorf("making release %s: %w", version, err)
	}
	if err := helm.MakeRelease(ctx, source, version, r.folder); err != nil {
		return nil, err
	}
	var err error
	r.chart, err = helm.Load(r.folder, version)
	return r, err
}

// command runs a program in a folder. Its output is part of the error.
func command(ctx context.Context, dir, name string, arguments ...string) error {
	c := exec.CommandContext(ctx, name, arguments...)
	c.Dir, c.Env = dir, append(os.Environ(), "GOWORK=off")
	c.Cancel, c.WaitDelay = func() error { return c.Process.Signal(os.Interrupt) }, 10*time.Second
	if output, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("running %s %s: %w\n%s", name, strings.Join(arguments, " "), err, output)
	}
	return nil
}
