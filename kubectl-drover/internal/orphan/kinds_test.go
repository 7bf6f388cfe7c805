// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/kubectl-drover/internal/object"
)

// TestEachKindOfAProviderIsLookedAt creates one object of every kind of the groups of providers: those of machines and their
// bootstrap count, and templates, remediations and profiles, which have no Machine, do not.
func TestEachKindOfAProviderIsLookedAt(t *testing.T) {
	t.Parallel()
	scheme, err := object.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	var want []string
	for gvk := range scheme.AllKnownTypes() {
		if gvk.GroupVersion() != infrav1.GroupVersion && gvk.GroupVersion() != bootstrapv1.GroupVersion {
			continue
		}
		created, err := scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		o, is := created.(client.Object)
		if !is || o.GetObjectKind() == nil || strings.HasSuffix(gvk.Kind, "List") || strings.HasSuffix(gvk.Kind, "Options") || gvk.Kind == "WatchEvent" {
			continue
		}
		metadata := old("x")
		o.SetNamespace(metadata.Namespace)
		o.SetName(metadata.Name)
		o.SetCreationTimestamp(metadata.CreationTimestamp)
		objects = append(objects, o)
		if strings.HasSuffix(gvk.Kind, "Machine") || gvk.Kind == "BootstrapConfig" {
			want = append(want, gvk.Kind)
		}
	}
	if len(want) < 10 || len(objects) < 2*len(want)-2 {
		t.Fatalf("%d objects, of which %d are of machines", len(objects), len(want))
	}
	found, err := finder(t, interceptor.Funcs{}, objects...).Objects(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, o := range found {
		kinds = append(kinds, o.Kind)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}

// TestOrphansAreSorted by namespace, kind and name, whatever the API server lists first.
func TestOrphansAreSorted(t *testing.T) {
	t.Parallel()
	var objects []client.Object
	for _, name := range []string{"b", "a"} {
		for _, namespace := range []string{"o", "n"} {
			sim, config := &infrav1.SimMachine{ObjectMeta: old(name)}, &bootstrapv1.BootstrapConfig{ObjectMeta: old(name)}
			sim.Namespace, config.Namespace = namespace, namespace
			objects = append(objects, sim, config)
		}
	}
	found, err := finder(t, interceptor.Funcs{}, objects...).Objects(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range found {
		got = append(got, o.Namespace+" "+o.Kind+" "+o.Name)
	}
	want := []string{
		"n BootstrapConfig a", "n BootstrapConfig b", "n SimMachine a", "n SimMachine b", "o BootstrapConfig a", "o BootstrapConfig b", "o SimMachine a", "o SimMachine b",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("orphans (-want +got):\n%s", diff)
	}
}

// TestConfirmNeedsAnAnswer has an API server that fails after the question: nothing is confirmed then.
func TestConfirmNeedsAnAnswer(t *testing.T) {
	t.Parallel()
	fails := false
	f := finder(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if fails {
			return apierrors.NewServiceUnavailable("etcd")
		}
		return c.List(ctx, list, options...)
	}}, &infrav1.SimMachine{ObjectMeta: old("x")})
	found, err := f.Objects(t.Context(), "n")
	if err != nil || len(found) != 1 {
		t.Fatalf("got %+v, error %v", found, err)
	}
	fails = true
	if still, err := f.Confirm(t.Context(), "n", found); err == nil || len(still) != 0 {
		t.Errorf("got %+v, error %v", still, err)
	}
}

// TestRefusedDeletionIsAnError of each kind but that the object is gone.
func TestRefusedDeletionIsAnError(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		answer error
		fails  bool
	}{
		{nil, false},
		{apierrors.NewNotFound(schema.GroupResource{}, "x"), false},
		{apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("no rule")), true},
		{apierrors.NewConflict(schema.GroupResource{}, "x", errors.New("the UID")), true},
		{errors.New("broken"), true},
	} {
		f := finder(t, interceptor.Funcs{Delete: func(_ context.Context, _ client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			given := &client.DeleteOptions{}
			given.ApplyOptions(options)
			if given.Preconditions == nil || *given.Preconditions.UID != "uid-of-x" || *given.Preconditions.ResourceVersion == "" || o.GetName() != "x" {
				t.Errorf("deleted %s with %+v", o.GetName(), given.Preconditions)
			}
			return test.answer
		}}, &infrav1.SimMachine{ObjectMeta: old("x")})
		found, err := f.Objects(t.Context(), "n")
		if err != nil || len(found) != 1 {
			t.Fatalf("got %+v, error %v", found, err)
		}
		if err := f.Delete(t.Context(), found[0]); (err != nil) != test.fails {
			t.Errorf("%v: error %v", test.answer, err)
		}
	}
}

// TestReportsNeedTheEvents has a user without the permission.
func TestReportsNeedTheEvents(t *testing.T) {
	t.Parallel()
	f := finder(t, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", nil)
	}})
	if found, err := f.Reports(t.Context(), "n"); !object.IsForbidden(err) || len(found) != 0 || !strings.Contains(err.Error(), `you may not read events in namespace "n"`) {
		t.Errorf("got %+v, error %v", found, err)
	}
	if found, err := finder(t, interceptor.Funcs{}).Reports(t.Context(), "n"); err != nil || found == nil || len(found) != 0 {
		t.Errorf("without events: %+v, error %v", found, err)
	}
}
