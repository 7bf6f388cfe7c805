// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/testenv"
)

const finalizer = "drover.test/hold"

// wire notes every patch, by the subresource it went to, on its way to a real API server. Resource versions are
// noted by their order: 1 is the object as it was read.
type wire struct {
	api      client.WithWatch
	sent     map[string][]any
	versions []string
}

func (w *wire) client(t *testing.T) client.Client {
	note := func(sub string, o client.Object, patch client.Patch) {
		data, err := patch.Data(o)
		if err != nil {
			t.Fatal(err)
		}
		var body map[string]any
		if err := json.Unmarshal(data, &body); err != nil {
			t.Fatal(err)
		}
		if metadata, ok := body["metadata"].(map[string]any); ok {
			if version, ok := metadata["resourceVersion"].(string); ok {
				metadata["resourceVersion"] = 1 + slices.Index(w.versions, version)
			}
		}
		w.sent[sub] = append(w.sent[sub], body)
		if _, ok := o.(*metav1.PartialObjectMetadata); !ok {
			t.Errorf("the answer is to be a %T", o)
		}
	}
	took := func(o client.Object, err error) error {
		w.versions = append(w.versions, o.GetResourceVersion())
		return err
	}
	return interceptor.NewClient(w.api, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			note("", o, patch)
			return took(o, c.Patch(ctx, o, patch, options...))
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			note(sub, o, patch)
			return took(o, c.SubResource(sub).Patch(ctx, o, patch, options...))
		},
	})
}

// made is a Machine with a label, a Node and two conditions, and the wire to its API server.
func made(t *testing.T) (*clusterv1.Machine, *wire) {
	t.Helper()
	api := server.Client(t)
	m := testenv.Machine(server.Namespace(t), "m")
	m.Labels = map[string]string{"l": "1"}
	if err := api.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	m.Status.NodeRef = clusterv1.MachineNodeReference{Name: "n"}
	for _, kind := range []string{"A", "B"} {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: kind, Status: "True", Reason: "R", LastTransitionTime: metav1.Unix(1, 0)})
	}
	if err := api.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	return m, &wire{api: api, sent: map[string][]any{}, versions: []string{m.ResourceVersion}}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	type body = map[string]any
	condition := func(kind, status string) body {
		return body{"type": kind, "status": status, "reason": "R", "message": "", "lastTransitionTime": "1970-01-01T00:00:01Z"}
	}
	for name, test := range map[string]struct {
		change func(*clusterv1.Machine)
		want   map[string][]any
	}{
		"sends nothing without a change": {func(*clusterv1.Machine) {}, map[string][]any{}},
		"takes empty for absent":         {func(m *clusterv1.Machine) { m.Annotations = map[string]string{}; m.Finalizers = []string{} }, map[string][]any{}},
		"locks a change of spec":         {func(m *clusterv1.Machine) { m.Spec.ProviderID = "id" }, map[string][]any{"": {body{"metadata": body{"resourceVersion": 1}, "spec": body{"providerID": "id"}}}}},
		"locks a change of metadata":     {func(m *clusterv1.Machine) { m.Finalizers = []string{finalizer} }, map[string][]any{"": {body{"metadata": body{"finalizers": []any{finalizer}, "resourceVersion": 1}}}}},
		"takes a label away":             {func(m *clusterv1.Machine) { m.Labels = nil }, map[string][]any{"": {body{"metadata": body{"labels": nil, "resourceVersion": 1}}}}},
		"sends a condition that turned, with all others": {
			func(m *clusterv1.Machine) { m.Status.Conditions[1].Status = "False" },
			map[string][]any{"status": {body{"metadata": body{"resourceVersion": 1}, "status": body{"conditions": []any{condition("A", "True"), condition("B", "False")}}}}},
		},
		"sends a condition whose time moved": {
			func(m *clusterv1.Machine) {
				m.Status.Conditions = m.Status.Conditions[:1]
				m.Status.Conditions[0].LastTransitionTime = metav1.Unix(0, 0)
			},
			map[string][]any{"status": {body{"metadata": body{"resourceVersion": 1}, "status": body{"conditions": []any{
				body{"type": "A", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"},
			}}}}},
		},
		"takes a field of status away": {
			func(m *clusterv1.Machine) { m.Status.NodeRef = clusterv1.MachineNodeReference{} },
			map[string][]any{"status": {body{"metadata": body{"resourceVersion": 1}, "status": body{"nodeRef": nil}}}},
		},
		"sends status alone, locked": {func(m *clusterv1.Machine) { m.Status.Phase = "Running" }, map[string][]any{"status": {body{"metadata": body{"resourceVersion": 1}, "status": body{"phase": "Running"}}}}},
		"sends both, the second locked on the first": {
			func(m *clusterv1.Machine) {
				m.Spec.ProviderID = "id"
				m.Finalizers = []string{finalizer}
				m.Status.Phase = "Running"
			},
			map[string][]any{
				"":       {body{"metadata": body{"finalizers": []any{finalizer}, "resourceVersion": 1}, "spec": body{"providerID": "id"}}},
				"status": {body{"metadata": body{"resourceVersion": 2}, "status": body{"phase": "Running"}}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, w := made(t)
			after := before.DeepCopy()
			test.change(after)
			status := after.Status.DeepCopy()
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
			live := &clusterv1.Machine{}
			if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(before), live); err != nil {
				t.Fatal(err)
			}
			// What a status write changes about managed fields is not compared.
			after.ManagedFields, live.ManagedFields = nil, nil
			if diff := cmp.Diff(live, after, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("in memory (-API server +got):\n%s", diff)
			}
		})
	}
}

// The API server would refuse the whole status, with all that it reports.
func TestMessagesThatAreTooLongAreTruncated(t *testing.T) {
	t.Parallel()
	before, w := made(t)
	after := before.DeepCopy()
	after.Status.Phase, after.Status.Conditions[1].Message = "Running", strings.Repeat("ä", 20_000)
	if changed, err := StatusChanged(before, after); !changed || err != nil {
		t.Errorf("changed %t, error %v", changed, err)
	}
	if err := Status(t.Context(), w.client(t), before, after); err != nil {
		t.Fatal(err)
	}
	live := &clusterv1.Machine{}
	if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(before), live); err != nil {
		t.Fatal(err)
	}
	if got := live.Status.Conditions[1].Message; got != strings.Repeat("ä", maxMessage/2) || live.Status.Phase != "Running" {
		t.Errorf("phase %q, and a message of %d bytes", live.Status.Phase, len(got))
	}
	again := live.DeepCopy()
	again.Status.Conditions[1].Message = strings.Repeat("ä", 20_000)
	if changed, err := StatusChanged(live, again); changed || err != nil {
		t.Errorf("the same message again: changed %t, error %v", changed, err)
	}
}

func TestARefusedWriteLeavesTheObjectAlone(t *testing.T) {
	t.Parallel()
	before, w := made(t)
	other := before.DeepCopy()
	other.Labels["l"] = "2"
	if err := w.api.Update(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	after := before.DeepCopy()
	after.Finalizers, after.Status.Phase = []string{finalizer}, "Running"
	c := w.client(t)
	if err := Main(t.Context(), c, before, after); !apierrors.IsConflict(err) {
		t.Errorf("error is %v, want the conflict", err)
	}
	if err := Status(t.Context(), c, before, after); !apierrors.IsConflict(err) {
		t.Errorf("error is %v, want the conflict", err)
	}
	if after.ResourceVersion != before.ResourceVersion {
		t.Errorf("resource version is %q, want the old one", after.ResourceVersion)
	}
}

// TestConditionsOfOthersAreNeverLost has a condition written between the read and the writes.
func TestConditionsOfOthersAreNeverLost(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*clusterv1.Machine){
		"by a change of spec":     func(m *clusterv1.Machine) { m.Spec.ProviderID = "id" },
		"by a change of metadata": func(m *clusterv1.Machine) { m.Finalizers = []string{finalizer} },
		"by a change of neither":  func(*clusterv1.Machine) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, w := made(t)
			other := before.DeepCopy()
			other.Status.Conditions = append(other.Status.Conditions, metav1.Condition{Type: "Others", Status: "True", Reason: "R", LastTransitionTime: metav1.Unix(1, 0)})
			if err := w.api.Status().Update(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			after := before.DeepCopy()
			change(after)
			after.Status.Conditions[0].Status = "False"
			c := w.client(t)
			err := Main(t.Context(), c, before, after)
			if err == nil {
				err = Status(t.Context(), c, before, after)
			}
			if !apierrors.IsConflict(err) {
				t.Errorf("error is %v, want the conflict", err)
			}
			live := &clusterv1.Machine{}
			if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(before), live); err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(live.Status.Conditions, func(c metav1.Condition) bool { return c.Type == "Others" }) {
				t.Errorf("conditions are %v", live.Status.Conditions)
			}
		})
	}
}
