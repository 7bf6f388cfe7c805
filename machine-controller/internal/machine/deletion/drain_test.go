// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/safety/policy"
	"drover.io/machine-controller/internal/workload"
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
			if diff := cmp.Diff(test.want, forceDrainDeadline(policy.Settings{ForceDrainAfter: test.after}, m)); diff != "" {
				t.Errorf("deadline (-want +got):\n%s", diff)
			}
		})
	}
}

// The steps have no clients here: they would panic if they did any work.
func TestNothingIsDrainedWhilePreTerminateHooksAreAwaited(t *testing.T) {
	t.Parallel()
	s := deleting()
	deletionStatus(s.Machine).WaitForPreTerminateHookStartTime = metav1.NewTime(epoch)
	for name, each := range map[string]step{"drain": drainStep{}, "volumes": detachStep{}} {
		if progress, err := each.run(t.Context(), s); progress != done || err != nil {
			t.Errorf("%s: progress %+v, error %v", name, progress, err)
		}
	}
}

func TestNodeUnknownMessage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"waits for Nodes that were not read yet":    {nil, "Waiting for the Nodes of the workload cluster to be read, to find Node n"},
		"waits for Nodes that are being read again": {workload.ErrNotConnected, "Waiting for the Nodes of the workload cluster to be read, to find Node n"},
		"names why the Node is not known":           {errors.New("more than one Node has this providerID"), "Waiting to find Node n: more than one Node has this providerID"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deleting(func(s *State) { s.Node, s.NodeErr = nil, test.err })
			if got := nodeUnknown(s); got != test.want {
				t.Errorf("message is %q, want %q", got, test.want)
			}
		})
	}
}
