// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/test/workflow"
)

// TestManagementAPIServerNotReady makes the management API server report that it is not ready, while all other requests
// still succeed: a MachineDeployment does not scale up, and a new template replaces no Machine,
// until it is ready again.
func TestManagementAPIServerNotReady(t *testing.T) {
	w := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*runTimeout)
	defer cancel()
	s := &workflow.Workflow{Stack: w.stack, Namespace: "default", Cluster: "notready", Server: w.work.URL}
	md := s.MachineDeployment()
	for _, step := range []struct {
		title string
		do    func() error
	}{
		{"one machine runs", func() error { return s.Create(ctx, 1) }},
		{"one machine runs", func() error { return s.AwaitRunning(ctx, 1) }},
		{"the API server is not ready", func() error { w.manage.unready.Store(true); return nil }},
		{"the manager notices", func() error { return w.manage.awaitNoticed(ctx) }},
		{"scaling up", func() error { return s.Scale(ctx, 2) }},
		{"waiting", func() error {
			return s.AwaitCondition(ctx, md, clusterv1.MachineDeploymentScalingUpCondition, metav1.ConditionTrue, "management cluster does not answer")
		}},
		{"rolling out", func() error { return s.Roll(ctx, "medium") }},
		{"waiting", func() error {
			return s.AwaitCondition(ctx, md, clusterv1.MachineDeploymentRollingOutCondition, metav1.ConditionTrue, "management cluster does not answer")
		}},
		{"nothing was created", func() error { return checkOneMachine(ctx, t, s) }},
		{"the API server is ready", func() error { w.manage.unready.Store(false); return nil }},
		{"both run", func() error { return s.AwaitRunning(ctx, 2) }},
		{"deleting", func() error { return s.Delete(ctx) }},
		{"nothing is left", func() error { return s.AwaitNothingLeft(ctx) }},
	} {
		t.Log(step.title)
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.title, err)
		}
	}
}

// awaitNoticed waits until the manager has probed twice whether the API server is ready: before the second probe it has
// the answer to the first.
func (g *writeProxy) awaitNoticed(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		return g.notReadyAnswers.Load() >= 2, nil
	})
}

// checkOneMachine fails unless there is still the one Machine.
func checkOneMachine(ctx context.Context, t *testing.T, s *workflow.Workflow) error {
	t.Helper()
	machines, err := s.Machines(ctx)
	if err == nil && len(machines) != 1 {
		t.Errorf("there are %d Machines, want 1", len(machines))
	}
	return err
}
