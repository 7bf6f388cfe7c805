// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/machineset/creation"
)

// TestReplaceMachineReadsLive changes a Machine after the cache was read: before the last read, or between that and the
// deletion. A status with the reason for the deletion is not written again.
func TestReplaceMachineReadsLive(t *testing.T) {
	t.Parallel()
	exempt := func(t *testing.T, c client.Client, m *clusterv1.Machine) {
		t.Helper()
		now := &clusterv1.Machine{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(m), now); err != nil {
			t.Fatal(err)
		}
		before := now.DeepCopy()
		metav1.SetMetaDataAnnotation(&now.ObjectMeta, clusterv1.MachineSkipRemediationAnnotation, "")
		if err := c.Patch(t.Context(), now, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		before, during bool
		stays          bool
	}{
		"it deletes a Machine that nothing has changed":        {},
		"it keeps a Machine that was exempted before the read": {before: true, stays: true},
		"it keeps one that is exempted before the deletion":    {during: true, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, set := clusterAndSet()
			m := creation.NewMachine(set, "m")
			m.Finalizers = nil
			healthCheckFailed(m)
			var inner client.WithWatch
			var r *Reconciler
			r, inner = reconcilerWith(t, interceptor.Funcs{
				Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
					if test.during {
						exempt(t, inner, m)
					}
					return c.Delete(ctx, o, options...)
				},
			}, cluster, set, m)
			cached := &clusterv1.Machine{}
			if err := inner.Get(t.Context(), client.ObjectKeyFromObject(m), cached); err != nil {
				t.Fatal(err)
			}
			if test.before {
				exempt(t, inner, m)
			}
			s := &state{set: set, cluster: cluster, machines: []*clusterv1.Machine{cached}}
			if _, err := r.remediator().replaceMachine(t.Context(), s, cached); err != nil {
				t.Fatal(err)
			}
			err := inner.Get(t.Context(), client.ObjectKeyFromObject(m), m)
			if there := err == nil; there != test.stays || (err != nil && !apierrors.IsNotFound(err)) {
				t.Errorf("the Machine is there: %t, error %v", there, err)
			}
		})
	}
}

// remediator returns the phase that replaces Machines.
func (r *Reconciler) remediator() *remediator {
	for _, phase := range r.phases {
		if found, is := phase.(*remediator); is {
			return found
		}
	}
	return nil
}

// A drain that is stuck after a decrease of replicas does not keep unhealthy Machines.
func TestDeletingMachinesAreNoSurplus(t *testing.T) {
	t.Parallel()
	machines := []*clusterv1.Machine{unhealthyMachine("stuck-1", 1, beingDeleted), unhealthyMachine("stuck-2", 2, beingDeleted), unhealthyMachine("a", 3), unhealthyMachine("b", 4, healthCheckFailed), unhealthyMachine("c", 5)}
	if n := countNotDeleting(machines); n != 3 {
		t.Errorf("%d Machines stay, want 3", n)
	}
}

// unhealthyMachine is a Machine created that many minutes after the hour.
func unhealthyMachine(name string, minute int, changes ...func(*clusterv1.Machine)) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(epoch.Add(time.Duration(minute) * time.Minute))}}
	for _, change := range changes {
		change(m)
	}
	return m
}

func healthCheckFailed(m *clusterv1.Machine) {
	for _, kind := range []string{clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition} {
		conditions.Set(m, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: "Test"})
	}
}

func beingDeleted(m *clusterv1.Machine) { m.DeletionTimestamp = &m.CreationTimestamp }
