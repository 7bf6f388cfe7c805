// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// wire notes every patch, by the subresource it went to, and answers like an API server that took it.
type wire struct {
	sent   map[string][]any
	answer error
}

func (w *wire) client(t *testing.T) client.Client {
	take := func(sub string, o client.Object, patch client.Patch) error {
		data, err := patch.Data(o)
		if err != nil {
			t.Fatal(err)
		}
		var body any
		if err := json.Unmarshal(data, &body); err != nil {
			t.Fatal(err)
		}
		w.sent[sub] = append(w.sent[sub], body)
		if w.answer != nil {
			return w.answer
		}
		if _, ok := o.(*metav1.PartialObjectMetadata); !ok {
			t.Errorf("the answer is to be a %T", o)
		}
		o.SetResourceVersion("2" + sub)
		o.SetGeneration(7)
		return nil
	}
	known := runtime.NewScheme()
	if err := clusterv1.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	return interceptor.NewClient(fake.NewClientBuilder().WithScheme(known).Build(), interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
			return take("", o, patch)
		},
		SubResourcePatch: func(_ context.Context, _ client.Client, sub string, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
			return take(sub, o, patch)
		},
	})
}

func TestRequests(t *testing.T) {
	t.Parallel()
	type body = map[string]any
	condition := func(kind, status string) body {
		return body{"type": kind, "status": status, "reason": "", "message": "", "lastTransitionTime": nil}
	}
	for name, test := range map[string]struct {
		change func(*clusterv1.Machine)
		want   map[string][]any
	}{
		"sends nothing without a change":  {func(*clusterv1.Machine) {}, map[string][]any{}},
		"takes empty for absent":          {func(m *clusterv1.Machine) { m.Annotations = map[string]string{}; m.Finalizers = []string{} }, map[string][]any{}},
		"sends spec alone without a lock": {func(m *clusterv1.Machine) { m.Spec.ProviderID = "id" }, map[string][]any{"": {body{"spec": body{"providerID": "id"}}}}},
		"locks a change of metadata":      {func(m *clusterv1.Machine) { m.Finalizers = []string{"f"} }, map[string][]any{"": {body{"metadata": body{"finalizers": []any{"f"}, "resourceVersion": "1"}}}}},
		"takes a label away":              {func(m *clusterv1.Machine) { m.Labels = nil }, map[string][]any{"": {body{"metadata": body{"labels": nil, "resourceVersion": "1"}}}}},
		"sends a condition that turned, with all others": {
			func(m *clusterv1.Machine) { m.Status.Conditions[1].Status = "False" },
			map[string][]any{"status": {body{"metadata": body{"resourceVersion": "1"}, "status": body{"conditions": []any{condition("A", "True"), condition("B", "False")}}}}},
		},
		"sends a condition whose time moved": {
			func(m *clusterv1.Machine) {
				m.Status.Conditions = m.Status.Conditions[:1]
				m.Status.Conditions[0].LastTransitionTime = metav1.Unix(0, 0)
			},
			map[string][]any{"status": {body{"metadata": body{"resourceVersion": "1"}, "status": body{"conditions": []any{
				body{"type": "A", "status": "True", "reason": "", "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"},
			}}}}},
		},
		"takes a field of status away": {
			func(m *clusterv1.Machine) { m.Status.NodeRef = clusterv1.MachineNodeReference{} },
			map[string][]any{"status": {body{"metadata": body{"resourceVersion": "1"}, "status": body{"nodeRef": nil}}}},
		},
		"sends status alone, locked": {func(m *clusterv1.Machine) { m.Status.Phase = "P" }, map[string][]any{"status": {body{"metadata": body{"resourceVersion": "1"}, "status": body{"phase": "P"}}}}},
		"sends both, the second locked on the first": {
			func(m *clusterv1.Machine) {
				m.Spec.ProviderID = "id"
				m.Finalizers = []string{"f"}
				m.Status.Phase = "P"
			},
			map[string][]any{
				"":       {body{"metadata": body{"finalizers": []any{"f"}, "resourceVersion": "1"}, "spec": body{"providerID": "id"}}},
				"status": {body{"metadata": body{"resourceVersion": "2"}, "status": body{"phase": "P"}}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", ResourceVersion: "1", Labels: map[string]string{"l": "1"}}}
			before.Status.NodeRef = clusterv1.MachineNodeReference{Name: "n"}
			before.Status.Conditions = []metav1.Condition{{Type: "A", Status: "True"}, {Type: "B", Status: "True"}}
			after := before.DeepCopy()
			test.change(after)
			status := after.Status.DeepCopy()
			w := &wire{sent: map[string][]any{}}
			c := w.client(t)
			if err := Main(t.Context(), c, before, after); err != nil {
				t.Fatal(err)
			}
			if err := Status(t.Context(), c, before, after); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, w.sent); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(*status, after.Status); diff != "" {
				t.Errorf("status in memory: %s", diff)
			}
			version := "1"
			if test.want[""] != nil {
				version = "2"
				if after.Generation != 7 {
					t.Errorf("generation is %d, want that of the write", after.Generation)
				}
			}
			if test.want["status"] != nil {
				version = "2status"
			}
			if after.ResourceVersion != version {
				t.Errorf("resource version is %q, want %q", after.ResourceVersion, version)
			}
		})
	}
}

func TestARefusedWriteLeavesTheObjectAlone(t *testing.T) {
	t.Parallel()
	w := &wire{sent: map[string][]any{}, answer: apierrors.NewConflict(corev1.Resource("machines"), "m", nil)}
	before := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", ResourceVersion: "1"}}
	after := before.DeepCopy()
	after.Finalizers, after.Status.Phase = []string{"f"}, "P"
	c := w.client(t)
	if err := Main(t.Context(), c, before, after); !apierrors.IsConflict(err) {
		t.Errorf("error is %v, want the conflict", err)
	}
	if err := Status(t.Context(), c, before, after); !apierrors.IsConflict(err) {
		t.Errorf("error is %v, want the conflict", err)
	}
	if after.ResourceVersion != "1" {
		t.Errorf("resource version is %q, want the old one", after.ResourceVersion)
	}
}
