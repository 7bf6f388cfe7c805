// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/safety"
)

// forbidden is the answer to a write of a Machine that an admission policy refuses.
func forbidden(name string) error {
	return apierrors.NewForbidden(clusterv1.GroupVersion.WithResource("machines").GroupResource(), name, errors.New("it is protected"))
}

// protect refuses the deletion of Machines, as an admission policy does.
func (s *stored) protect(t *testing.T, names ...string) {
	t.Helper()
	s.failDeletion(t, forbidden, names...)
}

// failDeletion answers each deletion of a Machine with an error.
func (s *stored) failDeletion(t *testing.T, answer func(name string) error, names ...string) {
	t.Helper()
	s.deleter.Client = interceptor.NewClient(withWatch(t, s.client), interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if slices.Contains(names, o.GetName()) {
				return answer(o.GetName())
			}
			return c.Delete(ctx, o, options...)
		},
	})
}

// withWatch is a client that can be wrapped.
func withWatch(t *testing.T, c client.Client) client.WithWatch {
	t.Helper()
	wrapped, ok := c.(client.WithWatch)
	if !ok {
		t.Fatalf("%T cannot be wrapped", c)
	}
	return wrapped
}

// reconcileStored reconciles the set, and reads what is stored then.
func (s *stored) reconcileStored(t *testing.T) (reconcile.Result, error) {
	t.Helper()
	get := func() {
		if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(s.set), s.set); err != nil {
			t.Fatal(err)
		}
	}
	get()
	result, err := s.Reconcile(t.Context(), s.set)
	get()
	return result, err
}

// reconcileFailing reconciles the set, which fails.
func (s *stored) reconcileFailing(t *testing.T) {
	t.Helper()
	if _, err := s.reconcileStored(t); err == nil {
		t.Error("the reconcile is not repeated")
	}
}

// reconcileRefused reconciles the set, of which the API server refuses a write: the next attempt does not come later with each one.
func (s *stored) reconcileRefused(t *testing.T) {
	t.Helper()
	if result, err := s.reconcileStored(t); err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > safety.RetryPeriod {
		t.Errorf("it is reconciled again after %s, error %v; want %s at most", result.RequeueAfter, err, safety.RetryPeriod)
	}
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

// TestRefusedDeletionsAreReported scales a set down, and deletes it, whose Machines no one may delete. The first of them is named, in
// whatever order the cache has them.
func TestRefusedDeletionsAreReported(t *testing.T) {
	t.Parallel()
	s := store(t, 1, nil, "a", "b", "c")
	s.protect(t, "a", "b", "c")
	s.Client = interceptor.NewClient(withWatch(t, s.Client), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			if machines, is := list.(*clusterv1.MachineList); is {
				slices.Reverse(machines.Items)
			}
			return err
		},
	})
	s.reconcileRefused(t)
	check := func(kind string, message string) {
		t.Helper()
		got := conditions.Get(s.set, kind)
		if got.Status != metav1.ConditionTrue || got.Reason != droverpolicyv1.BlockedReason || !strings.Contains(got.Message, message) {
			t.Errorf("%s: %+v", kind, got)
		}
	}
	check(clusterv1.MachineSetScalingDownCondition, "it is protected")
	if err := s.client.Delete(t.Context(), s.set, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	s.reconcileRefused(t)
	const first = `deleting Machine "a": machines.cluster.x-k8s.io "a" is forbidden: it is protected`
	check(clusterv1.MachineSetDeletingCondition, first)
	check(clusterv1.MachineSetScalingDownCondition, first)
}

// TestRefusedCreationBacksOff has a quota, which admits no Machine and names the one that it refuses, each time another.
func TestRefusedCreationBacksOff(t *testing.T) {
	t.Parallel()
	s := store(t, 1, nil)
	s.creator.Client = interceptor.NewClient(withWatch(t, s.client), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			return forbidden(o.GetName())
		},
	})
	s.reconcileFailing(t)
	if got := conditions.Get(s.set, clusterv1.MachineSetScalingUpCondition); got.Reason != droverpolicyv1.BlockedReason || !strings.Contains(got.Message, "it is protected") {
		t.Errorf("ScalingUp: %+v", got)
	}
}

// TestCountersOfASetThatFailsAreCurrent has a set with a surplus Machine whose deletion fails: its reconciles fail, each later than
// the one before, and the last status has just been written when a Machine becomes unavailable.
func TestCountersOfASetThatFailsAreCurrent(t *testing.T) {
	t.Parallel()
	for name, deleted := range map[string]bool{"scaled down": false, "deleted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store(t, 3, nil, "a", "b", "c", "e")
			s.failDeletion(t, func(string) error { return apierrors.NewInternalError(errors.New("a webhook is not available")) }, "a", "b", "c", "e")
			s.reconcileFailing(t) // adds the finalizer
			if deleted {
				if err := s.client.Delete(t.Context(), s.set); err != nil {
					t.Fatal(err)
				}
			}
			for _, step := range []struct {
				machine string
				status  metav1.ConditionStatus
				want    int32
			}{{"a", metav1.ConditionTrue, 1}, {"b", metav1.ConditionTrue, 2}, {"a", metav1.ConditionFalse, 1}} {
				m := s.machine(t, step.machine)
				conditions.Set(m, metav1.Condition{Type: clusterv1.MachineAvailableCondition, Status: step.status, Reason: "Test"})
				if err := s.client.Status().Update(t.Context(), m); err != nil {
					t.Fatal(err)
				}
				s.reconcileFailing(t)
				if got := replicaCounts(s.set).Available; got != step.want {
					t.Errorf("%s is %s: status.availableReplicas is %d, want %d", step.machine, step.status, got, step.want)
				}
			}
		})
	}
}

// TestSeveralProtectedMachinesLeaveTheirPlaceToAnother has a budget of one, and two unhealthy Machines that no one may delete,
// which come before a third.
func TestSeveralProtectedMachinesLeaveTheirPlaceToAnother(t *testing.T) {
	t.Parallel()
	names := []string{"failed-1", "failed-2", "failed-3", "a", "b", "c", "e", "g", "h"}
	s := store(t, int32(len(names)), nil, names...)
	s.protect(t, "failed-1", "failed-2")
	second := s.machine(t, "failed-2")
	before := second.DeepCopy()
	metav1.SetMetaDataAnnotation(&second.ObjectMeta, clusterv1.RemediateMachineAnnotation, "")
	if err := s.client.Patch(t.Context(), second, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	for range 4 { // two find that out
		s.reconcileOnce(t)
	}
	got := s.machines(t, names...)
	if diff := cmp.Diff([]bool{false, false, true}, []bool{got["failed-1"], got["failed-2"], got["failed-3"]}); diff != "" {
		t.Errorf("which unhealthy Machines are being deleted (-want +got):\n%s", diff)
	}
	for _, name := range names[:2] { // while the third has the place
		if reason := conditions.GetReason(s.machine(t, name), clusterv1.MachineOwnerRemediatedCondition); reason != clusterv1.MachineSetMachineCannotBeRemediatedReason {
			t.Errorf("the reason of %s is %q", name, reason)
		}
	}
}

// TestProtectedMachineIsTriedAgainEachMinute has an admission policy whose message changes each time, so that each attempt
// triggers a reconcile, and that permits the deletion in the end.
func TestProtectedMachineIsTriedAgainEachMinute(t *testing.T) {
	t.Parallel()
	s := store(t, 3, nil, "failed", "a", "b")
	attempts, permitted := 0, false
	s.deleter.Client = interceptor.NewClient(withWatch(t, s.client), interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if attempts++; permitted {
				return c.Delete(ctx, o, options...)
			}
			return apierrors.NewForbidden(clusterv1.GroupVersion.WithResource("machines").GroupResource(), o.GetName(), fmt.Errorf("refusal %d", attempts))
		},
	})
	now := testingclock.NewFakePassiveClock(epoch)
	remediator := s.remediator()
	remediator.clock, remediator.refusals = now, newRefusals(now)
	for i, step := range []struct {
		after     time.Duration
		permitted bool
		attempts  int
	}{
		{0, false, 1},
		{refusedRetry - 1, false, 1},
		{refusedRetry, false, 2},
		{refusedRetry + time.Second, true, 2},
		{2 * refusedRetry, true, 3},
	} {
		now.SetTime(epoch.Add(step.after))
		permitted = step.permitted
		s.reconcileOnce(t)
		if attempts != step.attempts {
			t.Errorf("step %d: %d attempts, want %d", i, attempts, step.attempts)
		}
	}
	s.reconcileOnce(t) // it shows the deletion
	failed := s.machine(t, "failed")
	if reason := conditions.GetReason(failed, clusterv1.MachineOwnerRemediatedCondition); failed.DeletionTimestamp.IsZero() || reason != clusterv1.MachineSetMachineRemediationMachineDeletingReason {
		t.Errorf("deleted at %v, the reason is %q", failed.DeletionTimestamp, reason)
	}
}
