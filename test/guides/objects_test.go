// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package guides

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// validate has the API server check, without storing them, the objects of Drover and Cluster API that a page has in blocks of
// YAML: unknown fields, types and rules. Parts of objects have no kind and are only parsed.
func (r *runner) validate(t *testing.T, name string) {
	t.Helper()
	strict := client.WithFieldValidation(r.management, "Strict")
	for _, b := range blocks(text(t, filepath.Join(r.root, "docs", name+".md"))) {
		if b.commands() || b.info[0] != "yaml" {
			continue
		}
		decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(b.text), 4096)
		for {
			object := &unstructured.Unstructured{}
			err := decoder.Decode(&object.Object)
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Errorf("docs/%s.md: %v\n%s", name, err, b.text)
				break
			}
			group := object.GroupVersionKind().Group
			if !strings.HasSuffix(group, ".drover.io") && group != "cluster.x-k8s.io" {
				continue
			}
			object.SetNamespace("default")
			if err := strict.Create(t.Context(), object, client.DryRunAll); err != nil {
				t.Errorf("docs/%s.md: %v\n%s", name, err, b.text)
			}
		}
	}
}
