// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package chart puts the Helm chart together and renders it. The chart of the repository has templates and settings
// only; the kinds, roles and Deployments that it renders come from api/crds and the config folders of the modules, so that
// they exist once. All other manifests of a release are renderings of the chart.
package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	"sigs.k8s.io/yaml"

	"drover.io/release/internal/program"
)

// Name is the name of the chart, and the folder of its files in a package.
const Name = "drover"

// registryAnnotation is where the templates find the registry that the release was made for.
const registryAnnotation = "drover.io/registry"

// Chart is a chart that was put together.
type Chart struct {
	files map[string][]byte
	// Version is that of the release, such as v0.1.0. The chart's own is the same without the v.
	Version string
}

// Release is what the chart names of a release.
type Release struct {
	// Version is such as v0.1.0.
	Version string
	// Registry is what the names of images begin with.
	Registry string
	// Digests are those of the images, by the names of the programs. A program without one is named by its tag only.
	Digests map[string]string
}

// Assemble reads the chart of the repository and adds the kinds, roles and Deployments of the programs.
func Assemble(root string, programs []program.Program, r Release) (*Chart, error) {
	c := &Chart{files: map[string][]byte{}, Version: r.Version}
	if err := c.addFolder(filepath.Join(root, "charts", Name), ""); err != nil {
		return nil, err
	}
	alerts, err := os.ReadFile(filepath.Join(root, "monitoring", "alerts.yaml"))
	if err != nil {
		return nil, fmt.Errorf("reading the alerts: %w", err)
	}
	c.files["files/alerts.yaml"] = alerts
	if err := c.setVersion(r.Version, r.Registry); err != nil {
		return nil, err
	}
	if err := c.setDigests(r.Digests); err != nil {
		return nil, err
	}
	for _, p := range programs {
		config := filepath.Join(root, p.Module, "config")
		manager, roles := filepath.Join(config, "manager", "manager.yaml"), filepath.Join(config, "rbac")
		if cloud, isProvider := p.Cloud(); isProvider {
			manager, roles = filepath.Join(config, "manager", cloud, "manager.yaml"), filepath.Join(config, "rbac", cloud)
		}
		deployment, err := os.ReadFile(manager)
		if err != nil {
			return nil, fmt.Errorf("reading the Deployment of %s: %w", p.Name, err)
		}
		c.files["files/manager/"+p.Name+".yaml"] = deployment
		if c.files["files/rbac/"+p.Name+".yaml"], err = join(roles); err != nil {
			return nil, fmt.Errorf("reading the roles of %s: %w", p.Name, err)
		}
	}
	return c, c.addCRDs(filepath.Join(root, "api", "crds", "bases"), programs)
}

func (c *Chart) addFolder(folder, prefix string) error {
	return fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		c.files[path.Join(prefix, name)], err = os.ReadFile(filepath.Join(folder, name))
		return err
	})
}

func (c *Chart) setVersion(version, registry string) error {
	var metadata map[string]any
	if err := yaml.Unmarshal(c.files["Chart.yaml"], &metadata); err != nil {
		return fmt.Errorf("reading Chart.yaml: %w", err)
	}
	metadata["version"], metadata["appVersion"] = strings.TrimPrefix(version, "v"), version
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations[registryAnnotation] = registry
	metadata["annotations"] = annotations
	var err error
	c.files["Chart.yaml"], err = yaml.Marshal(metadata)
	return err
}

// setDigests adds the digests as a file of the chart, and not as a default of a setting: helm upgrade --reuse-values keeps
// the defaults of the release before, whose digests are those of its images.
func (c *Chart) setDigests(digests map[string]string) error {
	if len(digests) == 0 {
		return nil
	}
	content, err := yaml.Marshal(digests)
	c.files["files/digests.yaml"] = content
	return err
}

// join reads the objects of a kustomization as one stream.
func join(folder string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
	if err != nil {
		return nil, err
	}
	var kustomization struct{ Resources []string }
	if err := yaml.Unmarshal(content, &kustomization); err != nil {
		return nil, fmt.Errorf("reading kustomization.yaml: %w", err)
	}
	var documents []string
	for _, name := range kustomization.Resources {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		documents = append(documents, strings.TrimPrefix(strings.TrimSpace(string(content)), "---\n"))
	}
	return []byte(strings.Join(documents, "\n---\n") + "\n"), nil
}

// addCRDs sorts the kinds into folders by the program that brings them: Cluster API's and the policies come with
// machine-controller, those of a cloud with its provider, and those that all clouds share with each.
func (c *Chart) addCRDs(folder string, programs []program.Program) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("listing kinds: %w", err)
	}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return err
		}
		c.files[path.Join("files/crds", owner(entry.Name(), programs), entry.Name())] = content
	}
	return nil
}

// owner is the folder of a kind, by the name of its file: group_plural.yaml.
func owner(file string, programs []program.Program) string {
	group, plural, _ := strings.Cut(strings.TrimSuffix(file, ".yaml"), "_")
	switch group {
	case "bootstrap.drover.io":
		return "bootstrap"
	case "infrastructure.drover.io":
		for _, p := range programs {
			if cloud, isProvider := p.Cloud(); isProvider && strings.HasPrefix(plural, cloud+"machine") {
				return p.Name
			}
		}
		return "infra"
	default:
		return "machine-controller"
	}
}

// Package writes the chart as Helm does, with the same bytes each time: sorted, and with one time for all files.
func (c *Chart) Package(at time.Time) ([]byte, error) {
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(compressed)
	for _, file := range c.buffered() {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: Name + "/" + file.Name, Mode: 0o644, Size: int64(len(file.Data)), ModTime: at.UTC().Truncate(time.Second)}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(file.Data); err != nil {
			return nil, err
		}
	}
	err = errors.Join(w.Close(), compressed.Close())
	return out.Bytes(), err
}

// buffered are the files in the order of a package: Chart.yaml first, then by name.
func (c *Chart) buffered() []*archive.BufferedFile {
	var files []*archive.BufferedFile
	for name, content := range c.files {
		files = append(files, &archive.BufferedFile{Name: name, Data: content})
	}
	slices.SortFunc(files, func(a, b *archive.BufferedFile) int {
		if first := "Chart.yaml"; a.Name == first || b.Name == first {
			return map[bool]int{true: -1, false: 1}[a.Name == first]
		}
		return strings.Compare(a.Name, b.Name)
	})
	return files
}
