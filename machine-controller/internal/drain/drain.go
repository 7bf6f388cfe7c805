// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package drain evicts the Pods from the Node of a Machine before its instance is deleted. Package drainplan decides which
// Pods are evicted, and in what order; this one does it, and says what the blocked ones wait for. The deletion of the Machine
// decides when: it calls Drainer.DrainNode for one bounded pass, and again later, until Done. A pass never waits for a Pod, so
// one worker drains many Nodes. budget.go predicts what PodDisruptionBudgets allow.
//
// k8s.io/kubectl/pkg/drain is not used: it waits inside the call, evicts by name without the UID, reads a
// DaemonSet once per Pod, keeps one warning per Pod, and needs a second, typed client per workload cluster.
package drain

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/volume"
	"drover.io/runtime/drainplan"
	"drover.io/runtime/expiring"
)

// Drainer drains Nodes. The zero value is ready to use, by any number of workers.
type Drainer struct {
	// MaxEvictions is how many Pods one pass may evict; 0 means 20. Deletions by a force deadline are not counted.
	MaxEvictions int
	// PassTime is how long one pass may take; 0 means 10 s.
	PassTime time.Duration
	// PageSize of lists; 0 means 110, as many Pods as a Node has by default.
	PageSize int64

	// refused are the refusals of the last pass over the Node of each Machine. They only affect the order of attempts.
	refused expiring.Map[types.UID, refusals]
	volumes volume.Waiter
}

// Request is one pass over one Node.
type Request struct {
	// Cluster names the workload cluster. Passes over Nodes of the same one share the lists of VolumeAttachments.
	Cluster types.NamespacedName
	// Machine is the UID of the Machine. That of its Node is chosen by the workload cluster.
	Machine types.UID
	// Client reaches the workload cluster and reads Pods, DaemonSets, Namespaces and PodDisruptionBudgets live.
	Client client.Client
	// Node is to be drained; it should be cordoned before. It may come from a cache.
	Node *corev1.Node
	// Subject is the Machine, as MachineDrainRules see it.
	Subject drainplan.RuleInput
	// Rules are all MachineDrainRules in the Machine's namespace.
	Rules []clusterv1.MachineDrainRule
	// Now is the time of this pass.
	Now time.Time
	// ForceDeadline is when the last Pod must have ended. Pods are deleted past their PodDisruptionBudgets, early
	// enough for their grace period; those still there at the deadline are given up. Nil means never.
	ForceDeadline *time.Time
	// SerialVolumes evicts Pods with volumes one after another, with the detachment between.
	SerialVolumes bool
}

// Removal is a Pod that this pass evicted or deleted.
type Removal struct {
	Pod types.NamespacedName
	// Forced means that it was deleted because of the force deadline, not evicted.
	Forced   bool
	Warnings []string
}

// Result is what a pass did and what is still awaited.
type Result struct {
	// Done means that every Pod that has to be evicted is gone.
	Done bool
	// RequeueAfter is when the next pass makes sense, if not Done.
	RequeueAfter time.Duration
	// Progress is what is still awaited, and why.
	Progress Progress
	// Removed are the Pods that this pass evicted or deleted.
	Removed []Removal
}

// DrainNode performs one pass. The Result is valid together with an error, too. An InvalidRuleError needs a correction of
// the rule; any other error is one of the workload cluster and may pass.
func (d *Drainer) DrainNode(ctx context.Context, req Request) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, d.passTime())
	defer cancel()
	pods, view, err := d.observe(ctx, req)
	if err != nil {
		return Result{}, err
	}
	plan := drainplan.Make(drainplan.Classify(pods, view))
	if plan.Done() {
		d.refused.Delete(req.Machine)
		return Result{Done: true}, nil
	}
	p := d.newExecutor(req, view, pods)
	p.pass = newPassSpan(ctx)
	p.before, _ = d.refused.Get(req.Machine)
	tryLast(plan, p.before)
	err = p.run(ctx, plan)
	p.pass.emit(req.Node.Name)
	d.refused.Delete(req.Machine)
	if len(p.refused) > 0 {
		d.refused.SetUntil(req.Machine, p.refused, time.Now().Add(rememberedFor))
	}
	return p.result(plan), err
}

// Remaining returns the Pods on the Node: those that the drain leaves there on purpose, and those that it would evict or waits
// for. It evicts none.
func (d *Drainer) Remaining(ctx context.Context, req Request) (volume.Pods, error) {
	ctx, cancel := context.WithTimeout(ctx, d.passTime())
	defer cancel()
	pods, view, err := d.observe(ctx, req)
	if err != nil {
		return volume.Pods{}, err
	}
	var remaining volume.Pods
	for _, decision := range drainplan.Classify(pods, view) {
		switch {
		case decision.Action != drainplan.Skip:
			remaining.Others = append(remaining.Others, decision.Pod)
		case decision.Reason != drainplan.ReasonCompleted:
			remaining.Skipped = append(remaining.Skipped, decision.Pod)
		}
	}
	return remaining, nil
}

func (d *Drainer) maxEvictions() int       { return orDefault(d.MaxEvictions, 20) }
func (d *Drainer) passTime() time.Duration { return orDefault(d.PassTime, 10*time.Second) }
func (d *Drainer) pageSize() int64         { return orDefault(d.PageSize, 110) }

func orDefault[T int | int64 | time.Duration](value, fallback T) T {
	if value > 0 {
		return value
	}
	return fallback
}
