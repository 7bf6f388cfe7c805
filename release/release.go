// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drover.io/release/internal/chart"
	"drover.io/release/internal/checksum"
	"drover.io/release/internal/clusterctl"
	"drover.io/release/internal/notes"
	"drover.io/release/internal/program"
)

// clusterctlFolder is where the repository for clusterctl is in a release.
const clusterctlFolder = "clusterctl"

// monitoringFolder is where alerts and dashboards are in a release.
const monitoringFolder = "monitoring"

// versionFile has the version of a release. The signed checksums cover it, so that an old release does not pass as a new one.
const versionFile = "VERSION"

// parts are what a release has beside manifests and chart.
type parts struct {
	// binaries are images and the plugin.
	binaries bool
	// pluginURL is where krew finds the archives of the plugin.
	pluginURL string
}

// releaseAll writes everything that a release consists of below the folder of the job, which must be new: what is left of
// another release would be signed with this one.
func releaseAll(ctx context.Context, j imageJob, programs []program.Program, with parts) error {
	if entries, err := os.ReadDir(j.folder); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty: remove it, or name another folder with --out", j.folder)
	}
	var digests map[string]string
	if with.binaries {
		var err error
		if digests, err = j.run(ctx, programs); err != nil {
			return err
		}
	}
	if j.registry == localRegistry {
		digests = nil // images that are imported on each node have a name there, and no digest
	}
	c, err := chart.Assemble(j.root, programs, chart.Release{Version: j.version, Registry: j.registry, Digests: digests})
	if err != nil {
		return fmt.Errorf("assembling the chart: %w", err)
	}
	for _, step := range []struct {
		title string
		write func() error
	}{
		{"chart", func() error { return writeChart(j, c) }},
		{"manifests", func() error { return writeManifests(j, c, programs) }},
		{"clusterctl repository", func() error { return writeRepository(j, c, programs) }},
		{"alerts and dashboards", func() error { return writeMonitoring(j) }},
		{"plugin", func() error {
			if !with.binaries {
				return nil
			}
			return writePlugin(ctx, j, with.pluginURL)
		}},
		{"release notes", func() error { return writeNotes(j) }},
		{"version", func() error { return j.write(versionFile, []byte(j.version+"\n")) }},
		{"checksums", func() error { return checksum.Write(j.folder) }},
	} {
		if err := step.write(); err != nil {
			return fmt.Errorf("writing the %s: %w", step.title, err)
		}
		fmt.Fprintln(j.progress, "wrote the", step.title)
	}
	fmt.Fprintln(j.progress, "the release is in", j.folder)
	return nil
}

func (j imageJob) write(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(filepath.Join(j.folder, name)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(j.folder, name), content, 0o644)
}

func (j imageJob) writeObjects(name string, objects []*unstructured.Unstructured) error {
	content, err := chart.Write(objects)
	if err != nil {
		return err
	}
	return j.write(name, content)
}

func writeChart(j imageJob, c *chart.Chart) error {
	packed, err := c.Package(j.source.Time)
	if err != nil {
		return err
	}
	return j.write(chart.Name+"-"+strings.TrimPrefix(j.version, "v")+".tgz", packed)
}

// writeManifests writes drover.yaml, which has the core and bootstrap, drover-infra-<cloud>.yaml for each provider, and
// drover-deletion-protection.yaml, which must outlive the others: with it the kinds stay however often those are deleted.
func writeManifests(j imageJob, c *chart.Chart, programs []program.Program) error {
	core, err := c.Render(chart.Namespace, nil)
	if err != nil {
		return err
	}
	protection := slices.DeleteFunc(slices.Clone(core), func(o *unstructured.Unstructured) bool { return !chart.KeepsKinds(o) })
	if err := j.writeObjects("drover-deletion-protection.yaml", protection); err != nil {
		return err
	}
	core = append([]*unstructured.Unstructured{chart.NewNamespace(chart.Namespace, "restricted")}, slices.DeleteFunc(core, chart.KeepsKinds)...)
	if err := j.writeObjects("drover.yaml", core); err != nil {
		return err
	}
	for _, p := range programs {
		cloud, isProvider := p.Cloud()
		if !isProvider {
			continue
		}
		namespace := clusterctl.Namespace(cloud)
		objects, err := c.Render(namespace, chart.Only(p))
		if err != nil {
			return err
		}
		if namespace != chart.Namespace {
			objects = append([]*unstructured.Unstructured{chart.NewNamespace(namespace, clusterctl.Standard(cloud))}, objects...)
		}
		if err := j.writeObjects("drover-infra-"+cloud+".yaml", slices.DeleteFunc(objects, chart.KeepsKinds)); err != nil {
			return err
		}
	}
	return nil
}

func writeRepository(j imageJob, c *chart.Chart, programs []program.Program) error {
	for _, provider := range clusterctl.Providers(programs) {
		if err := provider.Write(filepath.Join(j.folder, clusterctlFolder), c); err != nil {
			return err
		}
	}
	return nil
}

// writeMonitoring writes what operators watch Drover with: alerts with their runbooks, dashboards, and the configuration of
// kube-state-metrics. The tests of the alerts stay in the repository.
func writeMonitoring(j imageJob) error {
	for from, to := range map[string]string{"monitoring": monitoringFolder, filepath.Join("docs", "runbooks"): filepath.Join(monitoringFolder, "docs", "runbooks")} {
		source := os.DirFS(filepath.Join(j.root, from))
		err := fs.WalkDir(source, ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(name, "_test.yaml") {
				return err
			}
			content, err := fs.ReadFile(source, name)
			if err != nil {
				return err
			}
			return j.write(filepath.Join(to, name), content)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func writeNotes(j imageJob) error {
	changelog, err := os.ReadFile(filepath.Join(j.root, "CHANGELOG.md"))
	if err != nil {
		return fmt.Errorf("reading the changelog: %w", err)
	}
	section, err := notes.For(string(changelog), j.version)
	if err != nil {
		return err
	}
	return j.write("release-notes.md", []byte(section))
}
