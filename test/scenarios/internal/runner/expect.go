// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"drover.io/test/scenarios/internal/parser"
)

// expect waits until all documents are true at one look, and then checks the conditions of all objects.
func (r *Runner) expect(ctx context.Context, documents []parser.Document) error {
	if err := r.expectDocuments(ctx, documents); err != nil {
		return err
	}
	return r.await(ctx, r.undocumented)
}

func (r *Runner) expectDocuments(ctx context.Context, documents []parser.Document) error {
	documents = slices.Clone(documents)
	// What is asked comes last, because the answer is written while goldens are updated.
	slices.SortStableFunc(documents, func(a, b parser.Document) int { return strings.Compare(a.Why, b.Why) })
	return r.await(ctx, func(ctx context.Context) (string, error) {
		for i, d := range documents {
			lacking, err := r.difference(ctx, d)
			if err != nil {
				return "", fmt.Errorf("document %d: %w", i+1, err)
			}
			if lacking != "" {
				return fmt.Sprintf("document %d: %s", i+1, lacking), nil
			}
		}
		return "", nil
	})
}

// difference describes why a document is not true.
func (r *Runner) difference(ctx context.Context, d parser.Document) (string, error) {
	if d.Why != "" {
		return r.ask(ctx, d)
	}
	found, err := r.find(ctx, d)
	if err != nil {
		return "", err
	}
	want := d.Object.DeepCopy()
	if want.GetName() == "" {
		found = slices.DeleteFunc(found, func(o unstructured.Unstructured) bool { return d.Count != nil && diff(want, &o) != "" })
	}
	if d.Count != nil {
		if len(found) != *d.Count {
			return fmt.Sprintf("there are %d of %s like this, want %d%s", len(found), want.GetKind(), *d.Count, show(found)), nil
		}
		if want.GetName() == "" || *d.Count == 0 {
			return "", nil
		}
	}
	if len(found) == 0 {
		return fmt.Sprintf("%s is not there", subject(d)), nil
	}
	unequal := ""
	for i := range found {
		if unequal = diff(want, &found[i]); unequal == "" {
			return "", nil
		}
	}
	return fmt.Sprintf("%s%s%s", subject(d), unequal, show(found)), nil
}

// diff compares without what find has compared already.
func diff(want, got *unstructured.Unstructured) string {
	fields := want.DeepCopy().Object
	delete(fields, "apiVersion")
	delete(fields, "kind")
	return parser.Diff(fields, got.Object)
}

// maxShown is how many objects a message carries.
const maxShown = 3

// show prints what was found.
func show(found []unstructured.Unstructured) string {
	var all strings.Builder
	for _, object := range found[:min(len(found), maxShown)] {
		object.SetManagedFields(nil)
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			text = []byte(err.Error())
		}
		fmt.Fprintf(&all, "\n---\n%s", text)
	}
	return all.String()
}
