// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/drain"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/safety/policy"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/requesterror"
	"drover.io/runtime/results"
)

// drained cordons the Node and evicts its pods, one bounded pass per reconcile, until none
// that has to go is left, spec.deletion.nodeDrainTimeoutSeconds is over, or the annotation
// machine.cluster.x-k8s.io/exclude-node-draining says not to.
type drained struct {
	client    client.Client
	workloads *workload.Connections
	drainer   *drain.Drainer
	events    *recorder
	clock     clock.PassiveClock
	guard     *safety.Guard
}

func (d drained) run(ctx context.Context, s *state) (bool, reconcile.Result, error) {
	m := s.machine
	if _, excluded := m.Annotations[clusterv1.ExcludeNodeDrainingAnnotation]; excluded || !guardsNode(s) || preTerminateBegan(m) {
		return true, reconcile.Result{}, nil
	}
	started := &deletionStatus(m).NodeDrainStartTime
	startClock(started, d.clock.Now())
	timeout := m.Spec.Deletion.NodeDrainTimeoutSeconds
	if expired(*started, timeout, d.clock.Now()) {
		if wasAt(m, clusterv1.MachineDeletingDrainingNodeReason) {
			d.events.drainTimedOut(m, m.Status.NodeRef.Name)
		}
		return true, reconcile.Result{}, nil
	}
	rest := untilExpiry(*started, timeout, d.clock.Now())
	connection, err := d.workloads.Get(s.clusterKey())
	if err != nil {
		s.deletion = progress{clusterv1.MachineDeletingDrainingNodeReason, unreachable(s, "drain", "nodeDrainTimeoutSeconds", clusterv1.ExcludeNodeDrainingAnnotation)}
		return false, rest, nil //nolint:nilerr // the condition says so, and the connection wakes us
	}
	if s.node.object == nil {
		s.deletion = progress{clusterv1.MachineDeletingDrainingNodeReason, unseen(s)}
		return false, rest, nil // whatever makes the Node seen wakes us
	}
	request, err := d.request(ctx, connection, s)
	if requesterror.IsUnanswered(err) {
		return unanswered(s, clusterv1.MachineDeletingDrainingNodeReason, rest)
	}
	if err != nil {
		return false, rest, results.IgnoreNotFoundOrConflict(err)
	}
	result, err := d.drainer.Node(ctx, request)
	if requesterror.IsUnanswered(err) {
		return unanswered(s, clusterv1.MachineDeletingDrainingNodeReason, rest)
	}
	if result.Done && err == nil {
		if wasAt(m, clusterv1.MachineDeletingDrainingNodeReason) {
			d.events.drained(m, request.Node.Name)
		}
		return true, reconcile.Result{}, nil
	}
	s.deletion = progress{clusterv1.MachineDeletingDrainingNodeReason, result.Progress.Message()}
	return d.later(s, result, rest, err)
}

// later says when to look again. A rule that somebody has to correct is no reason to try
// again soon; the rule's own event does not reach us, so it is looked at now and then.
func (d drained) later(s *state, result drain.Result, rest reconcile.Result, err error) (bool, reconcile.Result, error) {
	next := results.Earliest(rest, reconcile.Result{RequeueAfter: result.RequeueAfter})
	var invalid *drain.InvalidRuleError
	if errors.As(err, &invalid) {
		s.deletion.message = err.Error()
		return false, results.Earliest(rest, reconcile.Result{RequeueAfter: absentRetry}), nil
	}
	if err != nil {
		d.events.drainFailed(s.machine, s.machine.Status.NodeRef.Name, err)
		return false, next, fmt.Errorf("draining Node: %w", err)
	}
	return false, next, nil
}

// request cordons the Node and gathers what the drain needs to know.
func (d drained) request(ctx context.Context, connection *workload.Connection, s *state) (drain.Request, error) {
	node := s.node.object
	if err := drain.Cordon(ctx, connection.Client(), node); err != nil {
		return drain.Request{}, fmt.Errorf("cordoning Node %q: %w", node.Name, err)
	}
	rules := &clusterv1.MachineDrainRuleList{}
	if err := d.client.List(ctx, rules, client.InNamespace(s.machine.Namespace)); err != nil {
		return drain.Request{}, fmt.Errorf("listing MachineDrainRules: %w", err)
	}
	policy, err := d.guard.PolicyFor(ctx, s.owner())
	if err != nil {
		return drain.Request{}, err
	}
	return drain.Request{
		Cluster:       s.clusterKey(),
		Client:        connection.Client(),
		Node:          node,
		Subject:       drain.Subject{MachineLabels: s.machine.Labels, ClusterLabels: s.cluster.Labels},
		Rules:         rules.Items,
		Now:           d.clock.Now(),
		ForceDeadline: forceDeadline(policy, s.machine),
		SerialVolumes: policy.SerialVolumes,
	}, nil
}

// forceDeadline is when the last pod must have ended; nil is never.
func forceDeadline(policy policy.Settings, m *clusterv1.Machine) *time.Time {
	started := deletionStatus(m).NodeDrainStartTime
	if policy.ForceDrainAfter == 0 || started.IsZero() {
		return nil
	}
	return new(started.Add(policy.ForceDrainAfter))
}

// unreachable says that a stage of deletion waits for the workload cluster, and how to go on without it.
func unreachable(s *state, stage, field, annotation string) string {
	return fmt.Sprintf("%s; the %s waits for it. To go on without it set spec.deletion.%s or the annotation %s",
		disconnected(s.connection), stage, field, annotation)
}

// unanswered waits until the workload cluster has answered, or the connection to it is given up.
func unanswered(s *state, stage string, rest reconcile.Result) (bool, reconcile.Result, error) {
	s.deletion = progress{stage, "Waiting for the workload cluster to answer"}
	return false, results.Earliest(rest, reconcile.Result{RequeueAfter: answerRetry}), nil
}

// unseen says why a Node that is there to be drained is not seen now.
func unseen(s *state) string {
	if s.node.err == nil || workload.IsNotConnected(s.node.err) {
		return fmt.Sprintf("Waiting for the Nodes of the workload cluster to be read, to find Node %s", s.machine.Status.NodeRef.Name)
	}
	return fmt.Sprintf("Waiting to find Node %s: %v", s.machine.Status.NodeRef.Name, s.node.err)
}

// wasAt reports whether the machine's last status was at that stage of its deletion.
func wasAt(m *clusterv1.Machine, reason string) bool {
	return conditions.GetReason(m, clusterv1.MachineDeletingCondition) == reason
}

// untilExpiry is when a timeout will be over; no requeue where there is none.
func untilExpiry(started metav1.Time, seconds *int32, now time.Time) reconcile.Result {
	if seconds == nil || *seconds == 0 {
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: max(time.Second, started.Add(time.Duration(*seconds)*time.Second).Sub(now))}
}
