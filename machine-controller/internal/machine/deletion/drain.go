// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/api/reason"
	"drover.io/machine-controller/internal/drain"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/safety/policy"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/drainplan"
	"drover.io/runtime/requesterror"
	"drover.io/runtime/results"
)

// drainStep cordons the Node and evicts its Pods, one bounded pass per reconcile, until no Pod that has to go is
// left, spec.deletion.nodeDrainTimeoutSeconds is over, or the annotation
// machine.cluster.x-k8s.io/exclude-node-draining is set.
type drainStep struct {
	client    client.Client
	workloads *workload.Connections
	drainer   *drain.Drainer
	events    *recorder
	clock     clock.PassiveClock
	guard     *safety.Guard
}

func (d drainStep) run(ctx context.Context, s *State) (Progress, error) {
	m := s.Machine
	if _, excluded := m.Annotations[clusterv1.ExcludeNodeDrainingAnnotation]; excluded || !s.needsDrain() || preTerminateStarted(m) {
		return done, nil
	}
	started := &deletionStatus(m).NodeDrainStartTime
	setStartTime(started, d.clock.Now())
	timeout := m.Spec.Deletion.NodeDrainTimeoutSeconds
	if timedOut(*started, timeout, d.clock.Now()) {
		if wasAt(m, clusterv1.MachineDeletingDrainingNodeReason) {
			ctrl.LoggerFrom(ctx).Info("gave up draining Node", "Node", klog.KRef("", m.Status.NodeRef.Name), "after", time.Duration(*timeout)*time.Second)
			d.events.drainTimedOut(m, m.Status.NodeRef.Name)
		}
		return done, nil
	}
	waiting := Progress{Reason: clusterv1.MachineDeletingDrainingNodeReason, RequeueAfter: untilTimeout(*started, timeout, d.clock.Now())}
	connection, err := d.workloads.Get(s.clusterKey())
	if err != nil {
		waiting.Message = disconnected(s, "drain", skipDrain)
		return waiting, nil //nolint:nilerr // the condition reports it, and the connection triggers a reconcile
	}
	if s.Node == nil {
		waiting.Message = nodeUnknown(s)
		return waiting, nil // the event that makes the Node known triggers a reconcile
	}
	request, err := d.request(ctx, connection, s)
	if requesterror.IsUnanswered(err) {
		return unanswered(waiting), nil
	}
	if err != nil {
		if err = results.IgnoreNotFoundOrConflict(err); err != nil {
			waiting.Message = requesterror.Truncate(err.Error())
		}
		return waiting, err
	}
	return d.pass(ctx, s, request, waiting)
}

// pass evicts some of the Pods. An invalid MachineDrainRule has to be corrected by its author and is no reason to
// try again soon; the events of the rule trigger no reconcile, so the drain is repeated from time to time.
func (d drainStep) pass(ctx context.Context, s *State, request drain.Request, waiting Progress) (Progress, error) {
	result, err := d.drainer.DrainNode(ctx, request)
	if requesterror.IsUnanswered(err) {
		return unanswered(waiting), nil
	}
	if result.Done && err == nil {
		if wasAt(s.Machine, clusterv1.MachineDeletingDrainingNodeReason) {
			ctrl.LoggerFrom(ctx).Info("drained Node", "Node", klog.KObj(request.Node))
			d.events.drained(s.Machine, request.Node.Name)
		}
		return done, nil
	}
	waiting.Message = result.Progress.Message()
	if _, invalid := errors.AsType[*drainplan.InvalidRuleError](err); invalid {
		waiting.Message = err.Error()
		waiting.RequeueAfter = earliest(waiting.RequeueAfter, objectRetry)
		return waiting, nil
	}
	waiting.RequeueAfter = earliest(waiting.RequeueAfter, result.RequeueAfter)
	if err != nil {
		d.events.drainFailed(s.Machine, s.Machine.Status.NodeRef.Name, err)
		return waiting, fmt.Errorf("draining Node: %w", err)
	}
	return waiting, nil
}

// request cordons the Node and reads what the drain depends on.
func (d drainStep) request(ctx context.Context, connection *workload.Connection, s *State) (drain.Request, error) {
	start := d.clock.Now()
	err := drain.Cordon(ctx, connection.Client(), s.Node)
	if !s.Node.Spec.Unschedulable {
		emitCall(ctx, "node.cordon", s.Node.Name, start, d.clock.Now(), err)
	}
	if err != nil {
		return drain.Request{}, fmt.Errorf("cordoning Node %q: %w", s.Node.Name, err)
	}
	rules := &clusterv1.MachineDrainRuleList{}
	if err := d.client.List(ctx, rules, client.InNamespace(s.Machine.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return drain.Request{}, fmt.Errorf("listing MachineDrainRules: %w", err)
	}
	policy, err := d.guard.PolicyFor(ctx, s.owner())
	if err != nil {
		return drain.Request{}, err
	}
	return drain.Request{
		Cluster:       s.clusterKey(),
		Machine:       s.Machine.UID,
		Client:        connection.Client(),
		Node:          s.Node,
		Subject:       drainplan.RuleInput{MachineLabels: s.Machine.Labels, ClusterLabels: s.Cluster.Labels},
		Rules:         rules.Items,
		Now:           d.clock.Now(),
		ForceDeadline: forceDrainDeadline(policy, s.Machine),
		SerialVolumes: policy.SerialVolumes,
	}, nil
}

// forceDrainDeadline is when the last Pod must have ended; nil is never.
func forceDrainDeadline(policy policy.Settings, m *clusterv1.Machine) *time.Time {
	started := deletionStatus(m).NodeDrainStartTime
	if policy.ForceDrainAfter == 0 || started.IsZero() {
		return nil
	}
	return new(started.Add(policy.ForceDrainAfter))
}

// skip is how a stage of the deletion is left out: by its timeout, a field of spec.deletion, or by an annotation.
type skip struct {
	field, annotation string
	// caution is what is to be considered before; empty if nothing is.
	caution string
}

var (
	skipDrain  = skip{field: "nodeDrainTimeoutSeconds", annotation: clusterv1.ExcludeNodeDrainingAnnotation}
	skipDetach = skip{
		field: "nodeVolumeDetachTimeoutSeconds", annotation: clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation,
		caution: reason.DiskCaution + ", ",
	}
)

// goOn completes the message of a stage with both ways, each where it has an effect.
func (k skip) goOn(s *State) string {
	return fmt.Sprintf("go on without, %sset %s, or the annotation %s on the Machine", k.caution, s.field(k.field), k.annotation)
}

// disconnected is the message of a stage that waits for the workload cluster, with the ways to skip the stage.
func disconnected(s *State, stage string, by skip) string {
	return fmt.Sprintf("%s; the %s waits for it. To %s", s.Disconnected, stage, by.goOn(s))
}

// unanswered waits until the workload cluster has answered, or the connection to it is given up.
func unanswered(waiting Progress) Progress {
	waiting.Message = "Waiting for the workload cluster to answer"
	waiting.RequeueAfter = earliest(waiting.RequeueAfter, answerRetry)
	return waiting
}

// nodeUnknown is the message for a Node that exists, as far as is known, and cannot be read now.
func nodeUnknown(s *State) string {
	name := cmp.Or(s.Machine.Status.NodeRef.Name, "with providerID "+s.Machine.Spec.ProviderID)
	if s.NodeErr == nil || workload.IsNotConnected(s.NodeErr) {
		return fmt.Sprintf("Waiting for the Nodes of the workload cluster to be read, to find Node %s", name)
	}
	return fmt.Sprintf("Waiting to find Node %s: %v", name, s.NodeErr)
}
