// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"maps"
	"path"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"drover.io/release/internal/program"
)

// Namespace is where Drover is installed by default.
const Namespace = "drover-system"

// Render returns the objects of the chart for settings that differ from its defaults, in the order in which they are to
// be created.
func (c *Chart) Render(namespace string, settings map[string]any) ([]*unstructured.Unstructured, error) {
	loaded, err := loader.LoadFiles(c.buffered())
	if err != nil {
		return nil, fmt.Errorf("loading the chart: %w", err)
	}
	values, err := util.ToRenderValues(loaded, settings, common.ReleaseOptions{Name: Name, Namespace: namespace, Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, fmt.Errorf("reading settings: %w", err)
	}
	rendered, err := engine.Render(loaded, values)
	if err != nil {
		return nil, fmt.Errorf("rendering the chart: %w", err)
	}
	maps.DeleteFunc(rendered, func(name, _ string) bool { return path.Ext(name) != ".yaml" })
	_, manifests, err := releaseutil.SortManifests(rendered, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, fmt.Errorf("sorting objects: %w", err)
	}
	var objects []*unstructured.Unstructured
	for _, manifest := range manifests {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(manifest.Content), object); err != nil {
			return nil, fmt.Errorf("reading a rendered object: %w", err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// Only returns the settings that install one program and nothing else.
func Only(p program.Program) map[string]any {
	managers := map[string]any{"machine-controller": map[string]any{"enabled": false}, "bootstrap": map[string]any{"enabled": false}}
	if cloud, isProvider := p.Cloud(); isProvider {
		return map[string]any{"managers": managers, "infrastructure": map[string]any{cloud: map[string]any{}}}
	}
	managers[p.Name] = map[string]any{"enabled": true}
	return map[string]any{"managers": managers}
}

// KeepsKinds is true for the objects that refuse to delete kinds. They are to be deleted after everything else.
func KeepsKinds(object *unstructured.Unstructured) bool {
	return strings.HasPrefix(object.GetKind(), "ValidatingAdmissionPolicy") && strings.HasSuffix(object.GetName(), "-kinds-are-kept")
}

// NewNamespace is the Namespace of an installation, which enforces a Pod Security Standard.
func NewNamespace(name, standard string) *unstructured.Unstructured {
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	namespace.SetName(name)
	namespace.SetLabels(map[string]string{"pod-security.kubernetes.io/enforce": standard})
	return namespace
}

// Write returns the objects as one stream of YAML.
func Write(objects []*unstructured.Unstructured) ([]byte, error) {
	var out strings.Builder
	for i, object := range objects {
		content, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, fmt.Errorf("encoding %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(content)
	}
	return []byte(out.String()), nil
}
