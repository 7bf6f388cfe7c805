// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/safety/policy"
)

func TestForceDeadline(t *testing.T) {
	t.Parallel()
	started := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	tests := map[string]struct {
		after   time.Duration
		started metav1.Time
		want    *time.Time
	}{
		"is never by default":                 {started: started},
		"is never before the drain has begun": {after: time.Minute},
		"counts from when the drain began":    {after: time.Minute, started: started, want: new(started.Add(time.Minute))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &clusterv1.Machine{}
			deletionStatus(m).NodeDrainStartTime = test.started
			if diff := cmp.Diff(test.want, forceDeadline(policy.Settings{ForceDrainAfter: test.after}, m)); diff != "" {
				t.Errorf("deadline (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFleet(t *testing.T) {
	t.Parallel()
	md, set := &clusterv1.MachineDeployment{}, &clusterv1.MachineSet{}
	tests := map[string]struct {
		subject state
		want    client.Object
	}{
		"is the MachineDeployment":                      {state{deployment: md, set: set}, md},
		"is the MachineSet without a MachineDeployment": {state{set: set}, set},
		"is nothing for a Machine that stands alone":    {state{}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := test.subject.owner(); got != test.want {
				t.Errorf("fleet is %T, want %T", got, test.want)
			}
		})
	}
}
