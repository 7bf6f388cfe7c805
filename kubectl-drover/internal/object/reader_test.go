// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/kubectl-drover/internal/object"
	"drover.io/kubectl-drover/internal/object/objecttest"
)

// TestEachEnds has an API server whose list never ends, and a visitor that gives up.
func TestEachEnds(t *testing.T) {
	t.Parallel()
	pages := 0
	r := objecttest.Reader(t, interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		pages++
		given := &client.ListOptions{}
		given.ApplyOptions(options)
		if given.Limit != 500 || given.Namespace != "n" || (given.Continue == "more") != (pages > 1) {
			t.Errorf("page %d is asked with %+v", pages, given)
		}
		list.SetContinue("more")
		return nil
	}})
	err := r.Machines(t.Context(), "n", "", func([]clusterv1.Machine) error { return nil })
	if err == nil || err.Error() != "the API server has more than 1000000 machines" || pages != 2000 {
		t.Errorf("%d pages, error %v", pages, err)
	}
	pages = 0
	stop := errors.New("stop")
	if err := r.Machines(t.Context(), "n", "", func([]clusterv1.Machine) error { return stop }); !errors.Is(err, stop) || pages != 1 {
		t.Errorf("%d pages, error %v", pages, err)
	}
}

// TestExplain has what an API server answers where Drover is not installed, or is older, or the user has no permission.
func TestExplain(t *testing.T) {
	t.Parallel()
	before := schema.GroupVersion{Group: object.Machine.Group, Version: "v1beta1"}
	older, none := meta.NewDefaultRESTMapper([]schema.GroupVersion{before}), meta.NewDefaultRESTMapper(nil)
	older.Add(before.WithKind("Machine"), meta.RESTScopeNamespace)
	noMatch := &meta.NoKindMatchError{GroupKind: object.Machine.GroupKind()}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "", errors.New("no rule"))
	other := errors.New("other")
	for name, test := range map[string]struct {
		mapper    meta.RESTMapper
		err       error
		namespace string
		want      string
		missing   bool
		forbidden bool
	}{
		"is older":                       {older, noMatch, "", "this cluster serves Machine only as cluster.x-k8s.io/v1beta1: its Cluster API is older than Drover, which needs cluster.x-k8s.io/v1beta2", true, false},
		"is not there":                   {none, noMatch, "", "this cluster has no Machine of cluster.x-k8s.io/v1beta2: Drover is not installed there; --context chooses another cluster", true, false},
		"may not be read in a namespace": {none, forbidden, "n", `you may not read machines in namespace "n": `, false, true},
		"may not be read everywhere":     {none, forbidden, "", "you may not read machines in all namespaces: ", false, true},
		"is something else":              {none, other, "", "other", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := (&object.Reader{Mapper: test.mapper}).Explain(test.err, object.Machine, test.namespace)
			if !strings.HasPrefix(err.Error(), test.want) || object.IsMissingKind(err) != test.missing || object.IsForbidden(err) != test.forbidden {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestArgument has the ways to name an object.
func TestArgument(t *testing.T) {
	t.Parallel()
	for line, test := range map[string]struct{ implied, kind, name, err string }{
		"machine/m":   {"", "machine", "m", ""},
		"machine m":   {"", "machine", "m", ""},
		"m":           {"machine", "machine", "m", ""},
		"md/m":        {"machine", "md", "m", ""},
		"":            {"machine", "", "", "name one object, as machine/NAME"},
		"machine":     {"", "", "", "name one object, as KIND/NAME"},
		"machine/":    {"", "", "", `"machine/" names no object: write KIND/NAME`},
		"/m":          {"machine", "", "", `"/m" names no object: write machine/NAME`},
		"machine/m/n": {"", "", "", `"machine/m/n" names no object: write KIND/NAME`},
		"machine m/n": {"", "", "", `"machine m/n" names no object: write KIND/NAME`},
		"a/b c":       {"", "", "", "name one object, as KIND/NAME"},
		"a b c":       {"machine", "", "", "name one object, as machine/NAME"},
	} {
		kind, name, err := object.Argument(strings.Fields(line), test.implied)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if kind != test.kind || name != test.name || text != test.err {
			t.Errorf("%q: got %q %q, error %q", line, kind, name, text)
		}
	}
}

// TestConditionsOfAnyKind has conditions of a kind that need not have the form of Kubernetes.
func TestConditionsOfAnyKind(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status any
		want   int
	}{
		"has none":                     {nil, 0},
		"has a status of another form": {"ok", 0},
		"has conditions of no form":    {map[string]any{"conditions": "x"}, 0},
		"keeps those that can be read": {map[string]any{"conditions": []any{"x", map[string]any{"type": int64(1)}, map[string]any{"type": "Ready", "status": "False"}, map[string]any{"type": "A", "lastTransitionTime": "yesterday"}}}, 1},
	} {
		got := object.Conditions(&unstructured.Unstructured{Object: map[string]any{"status": test.status}})
		if len(got) != test.want || test.want == 1 && (got[0].Type != "Ready" || got[0].Status != metav1.ConditionFalse) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}
