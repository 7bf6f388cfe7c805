// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/scenarios/internal/parser"
)

// write writes the objects of a document.
func (r *Runner) write(ctx context.Context, d parser.Document) error {
	if _, err := r.resolveReferences(ctx, d.Object.Object); err != nil {
		return err
	}
	switch d.Do {
	case parser.Apply:
		return r.apply(ctx, d)
	case parser.Refuse:
		return r.refused(ctx, d)
	}
	selected, err := r.find(ctx, d)
	if err != nil {
		return err
	}
	if len(selected) == 0 {
		return errors.New("there is none")
	}
	if d.Do == parser.PatchOne || d.Do == parser.DeleteOne {
		selected = selected[:1]
	}
	for i := range selected {
		if err := r.change(ctx, d, &selected[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *Runner) change(ctx context.Context, d parser.Document, object *unstructured.Unstructured) error {
	if d.Do == parser.Delete || d.Do == parser.DeleteOne {
		return client.IgnoreNotFound(r.client(d.In).Delete(ctx, object))
	}
	return r.merge(ctx, d, object)
}

// apply merges the document into the object that is there, or creates it. It waits for
// kinds that were applied a moment ago to be served.
func (r *Runner) apply(ctx context.Context, d parser.Document) error {
	var final error
	err := r.await(ctx, func(ctx context.Context) (string, error) {
		final = r.applyOnce(ctx, d)
		if meta.IsNoMatchError(final) || apierrors.IsNotFound(final) {
			return "", final
		}
		return "", nil
	})
	return cmp.Or(final, err)
}

func (r *Runner) applyOnce(ctx context.Context, d parser.Document) error {
	object := d.Object.DeepCopy()
	if err := r.place(d, object); err != nil {
		return err
	}
	err := r.merge(ctx, d, object.DeepCopy())
	if apierrors.IsNotFound(err) && d.Write == "" {
		return r.client(d.In).Create(ctx, object)
	}
	return err
}

// merge merges the document into the object, or into what d.Write names of it.
func (r *Runner) merge(ctx context.Context, d parser.Document, object *unstructured.Unstructured) error {
	change, err := json.Marshal(d.Object)
	if err != nil {
		return err
	}
	patch := client.RawPatch(types.MergePatchType, change)
	if d.Write != "" {
		return r.client(d.In).SubResource(d.Write).Patch(ctx, object, patch)
	}
	return r.client(d.In).Patch(ctx, object, patch)
}

// refused expects that the object cannot be applied. What is accepted is applied again: an admission policy takes effect
// a while after it was written.
func (r *Runner) refused(ctx context.Context, d parser.Document) error {
	var refusal error
	err := r.await(ctx, func(ctx context.Context) (string, error) {
		if refusal = r.applyOnce(ctx, d); refusal == nil {
			return "", errors.New("the API server has accepted it")
		}
		return "", nil
	})
	if err != nil {
		return err
	}
	if diff := parser.Diff(d.Contains, refusal.Error()); diff != "" {
		return errors.New("the API server's message" + diff)
	}
	return nil
}

// place puts the object into the scenario's namespace, if it belongs into one and names none.
func (r *Runner) place(d parser.Document, object *unstructured.Unstructured) error {
	namespaced, err := r.client(d.In).IsObjectNamespaced(object)
	if err == nil && namespaced && object.GetNamespace() == "" {
		object.SetNamespace(r.Namespace)
	}
	return err
}

// find reads the objects that a document is about, by name or else by labels and fields, in
// the order of their names. What does not exist is not found, kinds included.
func (r *Runner) find(ctx context.Context, d parser.Document) ([]unstructured.Unstructured, error) {
	wanted := d.Object.DeepCopy()
	err := r.place(d, wanted)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if wanted.GetName() != "" {
		err := r.client(d.In).Get(ctx, client.ObjectKeyFromObject(wanted), wanted)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return []unstructured.Unstructured{*wanted}, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(wanted.GroupVersionKind())
	err = r.client(d.In).List(ctx, list, client.InNamespace(wanted.GetNamespace()), client.MatchingLabels(wanted.GetLabels()))
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return list.Items, err
}
