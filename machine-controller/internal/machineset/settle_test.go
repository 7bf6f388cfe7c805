// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/health"
)

// TestReplacementSettlesByAvailabilityOnlyWithoutHealthCheck has a replacement that has been Available for long enough, and
// that no MachineHealthCheck has found healthy: there is none, or the timeout of a condition that it lists is still running.
func TestReplacementSettlesByAvailabilityOnlyWithoutHealthCheck(t *testing.T) {
	t.Parallel()
	for name, checked := range map[string]bool{"it settles without a check": false, "it waits for a check that selects it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store(t, 1, nil, "a")
			s.reconcileOnce(t) // it has the labels of the set now
			m := &clusterv1.Machine{}
			if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: s.set.Namespace, Name: "a"}, m); err != nil {
				t.Fatal(err)
			}
			if checked {
				if err := s.client.Create(t.Context(), checkOf(s.set)); err != nil {
					t.Fatal(err)
				}
			}
			before := m.DeepCopy()
			health.SetReplacement(m, health.Replacement{Machine: "gone", Attempt: 1})
			if err := s.client.Patch(t.Context(), m, client.MergeFrom(before)); err != nil {
				t.Fatal(err)
			}
			before = m.DeepCopy()
			since := metav1.NewTime(epoch.Add(-health.Settle - time.Minute))
			m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: clusterv1.MachineAvailableCondition, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: since})
			if err := s.client.Status().Patch(t.Context(), m, client.MergeFrom(before)); err != nil {
				t.Fatal(err)
			}
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Spec.ClusterName}}
			result, err := s.remediator().updateReplacements(t.Context(), &state{set: s.set, cluster: cluster, machines: []*clusterv1.Machine{m}})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
				t.Fatal(err)
			}
			replacement, _ := health.ReplacementOf(m)
			if replacement.Settled == checked {
				t.Errorf("settled: %t", replacement.Settled)
			}
			if checked && result.RequeueAfter == 0 {
				t.Error("it is not looked at again, and the deletion of the check triggers no reconcile")
			}
		})
	}
}

// checkOf is a MachineHealthCheck that selects the Machines of a set.
func checkOf(set *clusterv1.MachineSet) *clusterv1.MachineHealthCheck {
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: "check"}}
	check.Spec.ClusterName, check.Spec.Selector.MatchLabels = set.Spec.ClusterName, map[string]string{clusterv1.MachineSetNameLabel: set.Name}
	check.Spec.Checks.NodeStartupTimeoutSeconds = new(int32(600))
	return check
}
