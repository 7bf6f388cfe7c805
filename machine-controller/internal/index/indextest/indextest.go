// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package indextest has a client for tests that reads from a real API server what package index reads from a cache, and
// functions that create objects there. Reads include what was just written. It is never part of a binary.
package indextest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/index"
)

// NewClient returns a client that evaluates the index fields of package index on lists of the API server.
func NewClient(t testing.TB, api client.WithWatch) client.WithWatch {
	t.Helper()
	known := indexes{}
	if err := index.Register(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	return interceptor.NewClient(api, interceptor.Funcs{List: known.list})
}

// indexes are those of package index, by kind and field.
type indexes map[string]client.IndexerFunc

func (i indexes) IndexField(_ context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	i[key(object, field)] = extract
	return nil
}

func key(object runtime.Object, field string) string { return fmt.Sprintf("%T by %s", object, field) }

// list lists without the indexed fields, which the API server does not support.
func (i indexes) list(ctx context.Context, api client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
	unindexed := (&client.ListOptions{}).ApplyOptions(options)
	selector := unindexed.FieldSelector
	unindexed.FieldSelector = nil
	if err := api.List(ctx, list, unindexed); err != nil || selector == nil {
		return err
	}
	found, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	var kept []runtime.Object
	for _, object := range found {
		matches, err := i.match(object, selector)
		if err != nil {
			return err
		}
		if matches {
			kept = append(kept, object)
		}
	}
	return meta.SetList(list, kept)
}

func (i indexes) match(object runtime.Object, selector fields.Selector) (bool, error) {
	for _, each := range selector.Requirements() {
		extract, known := i[key(object, each.Field)]
		if !known {
			return false, fmt.Errorf("no index of %s", key(object, each.Field))
		}
		if !slices.Contains(extract(object.(client.Object)), each.Value) {
			return false, nil
		}
	}
	return true, nil
}

// Create creates the objects in a namespace, each with its status. API servers give UIDs of their own: an object that
// is owned by an earlier one gets an owner reference to that.
func Create(t testing.TB, api client.Client, namespace string, objects ...client.Object) {
	t.Helper()
	given := map[types.UID]types.UID{}
	for _, object := range objects {
		object.SetNamespace(namespace)
		owners := object.GetOwnerReferences()
		for i, owner := range owners {
			if uid, known := given[owner.UID]; known {
				owners[i].UID = uid
			}
		}
		object.SetOwnerReferences(owners)
		made := object.GetUID()
		if err := create(t.Context(), api, object); err != nil {
			t.Fatalf("creating %T %q: %v", object, object.GetName(), err)
		}
		given[made] = object.GetUID()
	}
}

// create creates an object, and then patches its status. That cannot conflict with what others write of it.
func create(ctx context.Context, api client.Client, object client.Object) error {
	content, err := json.Marshal(object)
	if err != nil {
		return err
	}
	var patch struct {
		Status map[string]any `json:"status,omitempty"`
	}
	if err := json.Unmarshal(content, &patch); err != nil {
		return err
	}
	if err := api.Create(ctx, object); err != nil || len(patch.Status) == 0 {
		return err
	}
	if content, err = json.Marshal(patch); err != nil {
		return err
	}
	return api.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, content))
}
