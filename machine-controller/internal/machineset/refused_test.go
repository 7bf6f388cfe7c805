// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// protect refuses the deletion of Machines, as an admission policy does.
func (s *stored) protect(t *testing.T, names ...string) {
	t.Helper()
	inner, ok := s.client.(client.WithWatch)
	if !ok {
		t.Fatalf("%T cannot be wrapped", s.client)
	}
	s.deleter.Client = interceptor.NewClient(inner, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if slices.Contains(names, o.GetName()) {
				return apierrors.NewForbidden(clusterv1.GroupVersion.WithResource("machines").GroupResource(), o.GetName(), errors.New("it is protected"))
			}
			return c.Delete(ctx, o, options...)
		},
	})
}

// machine reads a Machine of the set.
func (s *stored) machine(t *testing.T, name string) *clusterv1.Machine {
	t.Helper()
	m := &clusterv1.Machine{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: s.set.Namespace, Name: name}, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestProtectedUnhealthyMachineStopsNoScaling has an unhealthy Machine that no one may delete, in a set that lacks another.
func TestProtectedUnhealthyMachineStopsNoScaling(t *testing.T) {
	t.Parallel()
	s := store(t, 4, nil, "failed", "a", "b")
	s.protect(t, "failed")
	s.reconcileOnce(t)
	want := map[string]bool{"failed": false, "a": false, "b": false, "new": false}
	if diff := cmp.Diff(want, s.machines(t, "failed", "a", "b")); diff != "" {
		t.Errorf("Machines, and whether they are being deleted (-want +got):\n%s", diff)
	}
	failed := s.machine(t, "failed")
	remediated := conditions.Get(failed, clusterv1.MachineOwnerRemediatedCondition)
	if remediated.Reason != clusterv1.MachineSetMachineCannotBeRemediatedReason || !strings.Contains(remediated.Message, "it is protected") {
		t.Errorf("condition %+v", remediated)
	}
	s.reconcileOnce(t)
	if again := s.machine(t, "failed"); again.ResourceVersion != failed.ResourceVersion {
		t.Errorf("a second attempt has changed the Machine to %+v", again.Status.Conditions)
	}
}

// TestProtectedUnhealthyMachineLeavesItsPlaceToAnother has a budget of one, and an unhealthy Machine that no one may delete.
func TestProtectedUnhealthyMachineLeavesItsPlaceToAnother(t *testing.T) {
	t.Parallel()
	names := []string{"failed-1", "failed-2", "a", "b", "c", "e"}
	s := store(t, int32(len(names)), nil, names...)
	s.protect(t, "failed-1")
	for range 2 { // the first finds that out
		s.reconcileOnce(t)
	}
	want := map[string]bool{"failed-1": false, "failed-2": true, "a": false, "b": false, "c": false, "e": false}
	if diff := cmp.Diff(want, s.machines(t, names...)); diff != "" {
		t.Errorf("Machines, and whether they are being deleted (-want +got):\n%s", diff)
	}
}

// TestRefusedDeletionsAreReported scales a set down, and deletes it, whose Machines no one may delete.
func TestRefusedDeletionsAreReported(t *testing.T) {
	t.Parallel()
	s := store(t, 1, nil, "a", "b")
	s.protect(t, "a", "b")
	reported := func(kind string) string {
		t.Helper()
		if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(s.set), s.set); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Reconcile(t.Context(), s.set); err == nil {
			t.Error("the reconcile is not repeated")
		}
		if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(s.set), s.set); err != nil {
			t.Fatal(err)
		}
		return conditions.GetMessage(s.set, kind)
	}
	if message := reported(clusterv1.MachineSetScalingDownCondition); !strings.Contains(message, "it is protected") {
		t.Errorf("ScalingDown: %q", message)
	}
	if err := s.client.Delete(t.Context(), s.set, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	if message := reported(clusterv1.MachineSetDeletingCondition); !strings.Contains(message, "it is protected") {
		t.Errorf("Deleting: %q", message)
	}
}
