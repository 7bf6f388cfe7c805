// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package parser

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"

// folder writes files and returns where they are.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoad(t *testing.T) {
	t.Parallel()
	given := folder(t, map[string]string{"pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: '${name}-${namespace}', labels: {tier: '${tier:-front}'}}\n"})
	story := folder(t, map[string]string{
		"README.md":     "# A scenario",
		"00-given.yaml": "do: kubeconfig\nname: edge\n---\ndo: kubeconfig\nin: management\nname: home\n---\nuse: pod\nname: web\n",
		"01-then.yaml":  "in: workload\ncount: 0\n" + pod,
	})
	steps, err := Load(story, given, Variables{"namespace": "here"})
	if err != nil {
		t.Fatal(err)
	}
	object := func(metadata map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata}}
	}
	want := []Step{
		{File: "00-given.yaml", Documents: []Document{
			{Do: Kubeconfig, In: Workload, Name: "edge"},
			{Do: Kubeconfig, In: Management, Name: "home"},
			{Do: Apply, In: Management, Object: object(map[string]any{"name": "web-here", "labels": map[string]any{"tier": "front"}})},
		}},
		{File: "01-then.yaml", Then: true, Documents: []Document{
			{Do: Apply, In: Workload, Count: new(0), Object: object(map[string]any{"name": "x"})},
		}},
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Error(diff)
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"a scenario without a description": {"00-given.yaml": pod},
		"a scenario without steps":         {"README.md": "# A"},
		"a file that is neither part":      {"README.md": "# A", "00-maybe.yaml": pod},
		"a file without a number":          {"README.md": "# A", "given.yaml": pod},
		"a verb that it does not know":     {"README.md": "# A", "00-when.yaml": "do: dance\n" + pod},
		"a cluster that it does not know":  {"README.md": "# A", "00-when.yaml": "in: somewhere\n" + pod},
		"a count that is none":             {"README.md": "# A", "00-then.yaml": "count: few\n" + pod},
		"an object without a kind":         {"README.md": "# A", "00-when.yaml": "metadata: {name: x}\n"},
		"an act with an object":            {"README.md": "# A", "00-when.yaml": "do: disconnect\n" + pod},
		"a variable without a value":       {"README.md": "# A", "00-when.yaml": pod + "spec: {nodeName: '${node}'}\n"},
		"a file to use that is not there":  {"README.md": "# A", "00-when.yaml": "use: magic\n"},
		"text that is no YAML":             {"README.md": "# A", "00-when.yaml": "a: [\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if steps, err := Load(folder(t, files), t.TempDir(), nil); err == nil {
				t.Errorf("it was taken for %+v", steps)
			}
		})
	}
}
