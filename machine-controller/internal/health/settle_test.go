// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestReplacementWithoutHealthCheckSettles has replacements whose MachineHealthCheck was deleted, with its condition.
func TestReplacementWithoutHealthCheckSettles(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	condition := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: "Test", LastTransitionTime: metav1.NewTime(since)}
	}
	available := condition(clusterv1.AvailableCondition, metav1.ConditionTrue)
	tests := map[string]struct {
		conditions []metav1.Condition
		want       time.Time
	}{
		"settles once it has been available for long enough": {conditions: []metav1.Condition{available}, want: since.Add(Settle)},
		"does not settle while it is not available": {
			conditions: []metav1.Condition{condition(clusterv1.AvailableCondition, metav1.ConditionFalse)},
		},
		"does not settle before it has conditions": {},
		"does not settle while a health check fails": {
			conditions: []metav1.Condition{available, condition(clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionFalse)},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &clusterv1.Machine{Status: clusterv1.MachineStatus{Conditions: test.conditions}}
			SetReplacement(m, Replacement{Machine: "gone", Attempt: 1})
			if got := SettlesAt(m); !got.Equal(test.want) {
				t.Errorf("settles at %v, want %v", got, test.want)
			}
		})
	}
}
