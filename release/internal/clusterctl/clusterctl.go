// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package clusterctl writes the repository that clusterctl installs from: one folder for each provider and version, with
// its components, its metadata and the templates of clusters.
package clusterctl

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"drover.io/release/internal/chart"
	"drover.io/release/internal/program"
)

// contract is the contract of Cluster API that all our providers keep.
const contract = "v1beta2"

// providerLabel is on every object of a provider, so that clusterctl finds what to upgrade and delete.
const providerLabel = "cluster.x-k8s.io/provider"

// Provider is one entry of the repository.
type Provider struct {
	// Label is how clusterctl names it: its folder and the value of the label, such as infrastructure-aws.
	Label string
	// components is the name of the file with its objects.
	components string
	// cloud is that of an infrastructure provider.
	cloud string
	// settings are those of the chart that render it.
	settings map[string]any
	// namespace is where its pods are, and standard the Pod Security Standard that they keep.
	namespace, standard string
}

// Providers lists what a release has for clusterctl. Ours takes the place of upstream's core provider, which clusterctl
// supports by the name cluster-api alone.
func Providers(programs []program.Program) []Provider {
	providers := make([]Provider, len(programs))
	for i, p := range programs {
		provider := Provider{settings: chart.Only(p), namespace: chart.Namespace, standard: "restricted"}
		switch cloud, isProvider := p.Cloud(); {
		case isProvider:
			provider.cloud = cloud
			provider.Label, provider.components = "infrastructure-drover-"+cloud, "infrastructure-components.yaml"
			provider.namespace, provider.standard = Namespace(cloud), Standard(cloud)
		case p.Name == "bootstrap":
			provider.Label, provider.components = "bootstrap-drover", "bootstrap-components.yaml"
		default:
			provider.Label, provider.components = "cluster-api", "core-components.yaml"
		}
		providers[i] = provider
	}
	return providers
}

// Standard is the Pod Security Standard that the provider of a cloud keeps: that of machines which are processes of its
// own host needs the host.
func Standard(cloud string) string {
	if cloud == "qemu" {
		return "privileged"
	}
	return "restricted"
}

// Namespace is where the provider of a cloud is installed. One that needs the host has a namespace of its own: the others
// keep the restricted standard, and the removal of one provider must not remove their namespace.
func Namespace(cloud string) string {
	if Standard(cloud) != "restricted" {
		return "drover-" + cloud + "-system"
	}
	return chart.Namespace
}

// Write writes the provider of a release below a folder.
func (p Provider) Write(folder string, c *chart.Chart) error {
	objects, err := c.Render(p.namespace, p.settings)
	if err != nil {
		return fmt.Errorf("rendering %s: %w", p.Label, err)
	}
	objects = append([]*unstructured.Unstructured{chart.NewNamespace(p.namespace, p.standard)}, objects...)
	for _, object := range objects {
		labels := maps.Clone(object.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		labels[providerLabel] = p.Label
		object.SetLabels(labels)
	}
	components, err := chart.Write(objects)
	if err != nil {
		return err
	}
	metadata, err := Metadata(c.Version)
	if err != nil {
		return err
	}
	target := filepath.Join(folder, p.Label, c.Version)
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	files, err := clusterTemplates(p.cloud)
	if err != nil {
		return err
	}
	if files == nil {
		files = map[string][]byte{}
	}
	files[p.components], files["metadata.yaml"] = components, metadata
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(target, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// lastMinor is the last minor version of each earlier major version, from 0 on. The first release of a new major version
// needs the entry of the one before it.
var lastMinor = []int{}

// Metadata is the metadata.yaml of clusterctl. It lists every minor version up to this one, as an upgrade looks up the
// version that is installed in the metadata of the one that follows. They all have the same contract.
func Metadata(version string) ([]byte, error) { return metadata(version, lastMinor) }

func metadata(version string, lastMinor []int) ([]byte, error) {
	var newest, minor int
	if _, err := fmt.Sscanf(version, "v%d.%d.", &newest, &minor); err != nil {
		return nil, fmt.Errorf("--version must be a semantic version, not %q", version)
	}
	if newest > len(lastMinor) {
		return nil, fmt.Errorf("--version %s is of a new major version: append the last minor version of major version %d to lastMinor in release/internal/clusterctl/clusterctl.go, so that clusterctl can upgrade from it",
			version, len(lastMinor))
	}
	content := []byte("apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries:\n")
	for major, last := range append(slices.Clone(lastMinor[:newest]), minor) {
		for minor := range last + 1 {
			content = fmt.Appendf(content, "- major: %d\n  minor: %d\n  contract: %s\n", major, minor, contract)
		}
	}
	return content, nil
}

// FindConfig returns a configuration file of clusterctl that names every provider of the repository in a folder, by what
// is there.
func FindConfig(folder string) ([]byte, error) {
	files, err := fs.Glob(os.DirFS(folder), "*/*/*-components.yaml")
	if err != nil || len(files) == 0 {
		return nil, errors.Join(fmt.Errorf("%s has no providers", folder), err)
	}
	type entry struct {
		Name string `json:"name"`
		Type string `json:"type"`
		URL  string `json:"url"`
	}
	var config struct {
		Providers []entry `json:"providers"`
	}
	for _, file := range files {
		label := filepath.Base(filepath.Dir(filepath.Dir(file)))
		e := entry{Name: label, Type: "CoreProvider", URL: filepath.Join(folder, file)}
		if name, ok := strings.CutPrefix(label, "bootstrap-"); ok {
			e.Name, e.Type = name, "BootstrapProvider"
		} else if name, ok := strings.CutPrefix(label, "infrastructure-"); ok {
			e.Name, e.Type = name, "InfrastructureProvider"
		}
		config.Providers = append(config.Providers, e)
	}
	return yaml.Marshal(config)
}
