// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
)

// begun is when the deployments of the test below were made.
var begun = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func at(minutes int) metav1.Time {
	return metav1.NewTime(begun.Add(time.Duration(minutes) * time.Minute))
}

// joinedMachine is a Machine that was made and became available at these minutes; a negative one
// means that it has not.
func joinedMachine(made, available int) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(made)}}
	if available >= 0 {
		m.Status.NodeRef.Name = "n"
		m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineAvailableCondition, Status: metav1.ConditionTrue, LastTransitionTime: at(available)}}
	}
	return m
}

func TestProgressing(t *testing.T) {
	t.Parallel()
	const deadline = 10 * time.Minute
	for name, test := range map[string]struct {
		machines []*clusterv1.Machine
		change   func(*state)
		minutes  int
		reason   string
		again    time.Duration
	}{
		"it is complete once all have joined": {
			machines: []*clusterv1.Machine{joinedMachine(0, 1), joinedMachine(0, 1), joinedMachine(0, 1)}, minutes: 60, reason: droverpolicyv1.CompleteReason,
		},
		"it stays complete if a Machine becomes unhealthy later": {
			machines: []*clusterv1.Machine{joinedMachine(0, 1), joinedMachine(0, 1), {Status: clusterv1.MachineStatus{NodeRef: clusterv1.MachineNodeReference{Name: "n"}}}},
			minutes:  60, reason: droverpolicyv1.CompleteReason,
		},
		"it waits for a Machine to join": {
			machines: []*clusterv1.Machine{joinedMachine(0, 1), joinedMachine(0, 1), joinedMachine(0, -1)}, minutes: 4, reason: droverpolicyv1.ProgressingReason, again: 7 * time.Minute,
		},
		"it takes each Machine that becomes available for progress": {
			machines: []*clusterv1.Machine{joinedMachine(0, 9), joinedMachine(0, 9), joinedMachine(0, -1)}, minutes: 15, reason: droverpolicyv1.ProgressingReason, again: 4 * time.Minute,
		},
		"it is overdue without any": {
			machines: []*clusterv1.Machine{joinedMachine(0, 1), joinedMachine(0, 1), joinedMachine(0, -1)}, minutes: 11, reason: droverpolicyv1.ProgressDeadlineExceededReason, again: -1,
		},
		"it is overdue where no Machine can be made": {minutes: 10, reason: droverpolicyv1.ProgressDeadlineExceededReason, again: -1},
		"it counts anew from a change of size": {
			change: func(s *state) {
				s.deployment.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineDeploymentScalingUpCondition, Status: metav1.ConditionTrue, LastTransitionTime: at(55)}}
			},
			minutes: 60, reason: droverpolicyv1.ProgressingReason, again: 5 * time.Minute,
		},
		"it has all the time without a deadline": {
			change: func(s *state) { s.deadline = 0 }, minutes: 6000, reason: droverpolicyv1.ProgressingReason,
		},
		"it expects nothing while paused": {
			change: func(s *state) { s.deployment.Spec.Paused = new(true) }, minutes: 60, reason: droverpolicyv1.ProgressingReason,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := deployment()
			md.CreationTimestamp = at(0)
			s := &state{deployment: md, deadline: deadline, machines: test.machines}
			if test.change != nil {
				test.change(s)
			}
			now := at(test.minutes).Time
			setProgressing(s, now)
			got := conditions.Get(md, droverpolicyv1.ProgressingCondition)
			if got.Reason != test.reason || (got.Status == metav1.ConditionFalse) != (test.reason == droverpolicyv1.ProgressDeadlineExceededReason) {
				t.Errorf("%s %s: %s", got.Status, got.Reason, got.Message)
			}
			if again := s.untilOverdue(now); again != test.again {
				t.Errorf("looks again in %s, want %s", again, test.again)
			}
		})
	}
}
