// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/drainplan"
)

// executor executes a Plan within its limits and records what is still awaited.
type executor struct {
	req         Request
	view        drainplan.Input
	budgets     budgets
	volumeOrder volumeOrder

	left int // evictions this pass may still do
	// attemptTime bounds one request: a hanging webhook leaves time for other Pods, and client-go's own
	// retries, up to ten times the duration of Retry-After, do not block the worker.
	attemptTime time.Duration
	stopped     bool
	tooMany     int // answers 429 without a PodDisruptionBudget
	retryAfter  time.Duration
	err         error
	progress    Progress
	removed     []Removal
	pass        passSpan
	// before are the refusals of the pass before, refused those of this one.
	before, refused refusals
}

func (d *Drainer) newExecutor(req Request, view drainplan.Input, pods []*corev1.Pod) *executor {
	return &executor{
		req: req, view: view,
		budgets:     budgets{client: req.Client, pageSize: d.pageSize(), byNamespace: map[string][]*budget{}},
		volumeOrder: volumeOrder{volumes: &d.volumes, onNode: pods},
		left:        d.maxEvictions(),
		attemptTime: d.passTime() / 4,
		refused:     refusals{},
	}
}

// run deletes before it evicts, because of the deadline. ctx ends with the pass.
func (p *executor) run(ctx context.Context, plan drainplan.Plan) error {
	for kind, decisions := range map[CauseKind][]drainplan.Decision{
		Terminating: plan.Terminating, Completing: plan.Completing, LaterOrder: plan.Later,
	} {
		for _, d := range decisions {
			p.progress.add(Cause{Kind: kind}, d.Pod)
		}
	}
	for _, d := range plan.Delete {
		p.attempt(ctx, d, p.remove)
	}
	if p.req.SerialVolumes && !p.view.Unreachable && !p.stopped {
		if err := p.volumeOrder.observe(ctx, p.req, plan); err != nil {
			p.stop(err)
		}
	}
	for _, d := range plan.Evict {
		p.attempt(ctx, d, p.evict)
	}
	return p.err
}

// attempt does nothing once the pass has stopped, except recording the Pod for the next pass.
func (p *executor) attempt(ctx context.Context, d drainplan.Decision, do func(context.Context, drainplan.Decision)) {
	if p.stopped || p.left <= 0 && d.Action == drainplan.Evict || ctx.Err() != nil {
		p.progress.add(Cause{Kind: NextPass}, d.Pod)
		if p.before[d.Pod.UID] {
			p.refused.add(d.Pod) // not tried again yet
		}
		return
	}
	do(ctx, d)
}

func (p *executor) remove(ctx context.Context, d drainplan.Decision) {
	ctx, cancel := context.WithTimeout(ctx, p.attemptTime)
	defer cancel()
	p.recordOutcome(ctx, d, remove(ctx, p.req.Client, d), nil)
}

func (p *executor) evict(ctx context.Context, d drainplan.Decision) {
	matching, err := p.budgets.of(ctx, d.Pod)
	if err != nil {
		p.stop(err)
		p.progress.add(Cause{Kind: NextPass}, d.Pod)
		return
	}
	if cause := predict(d.Pod, matching); cause.Kind != 0 {
		evictions.Inc(awaitsBudget)
		p.pass.add(d.Pod, awaitsBudget)
		p.progress.add(cause, d.Pod)
		return
	}
	if cause := p.volumeOrder.hold(d.Pod); cause.Kind != 0 {
		p.progress.add(cause, d.Pod)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.attemptTime)
	defer cancel()
	p.recordOutcome(ctx, d, evict(ctx, p.req.Client, d), matching)
}

// recordOutcome records the answer of the API server. A lost answer does no harm: the next pass reads the Pod again.
func (p *executor) recordOutcome(ctx context.Context, d drainplan.Decision, err error, matching []*budget) {
	if err != nil && ctx.Err() != nil {
		evictions.Inc(unanswered)
		p.pass.add(d.Pod, unanswered)
		p.refused.add(d.Pod)
		p.progress.add(Cause{Kind: Refused, Detail: "no answer in time"}, d.Pod)
		return
	}
	v := outcomeOf(err, matching)
	evictions.Inc(v.label(d.Action))
	p.pass.add(d.Pod, v.label(d.Action))
	switch {
	case v.err != nil:
		p.stop(fmt.Errorf("evicting Pod %q in Namespace %q: %w", d.Pod.Name, d.Pod.Namespace, v.err))
		p.progress.add(Cause{Kind: NextPass}, d.Pod)
		return
	case v.gone:
		return
	case v.tooMany:
		p.pause(v.retryAfter)
		p.refused.add(d.Pod)
	case v.cause.Kind == Refused:
		p.refused.add(d.Pod)
	case err == nil:
		p.recordRemoval(ctx, d)
		countEviction(d.Pod, matching)
	}
	p.progress.add(v.cause, d.Pod)
}

// pause ends the pass at an answer 429 with Retry-After, or at the second one: the API server is then more likely
// to be overloaded than to refuse single Pods.
func (p *executor) pause(retryAfter time.Duration) {
	if p.tooMany++; retryAfter > 0 || p.tooMany > 1 {
		p.stopped, p.retryAfter = true, max(retryAfter, soonest)
	}
}

func (p *executor) recordRemoval(ctx context.Context, d drainplan.Decision) {
	forced := d.Action == drainplan.Delete
	key := client.ObjectKeyFromObject(d.Pod)
	p.removed = append(p.removed, Removal{Pod: key, Forced: forced, Warnings: d.Warnings})
	log := ctrl.LoggerFrom(ctx).WithValues("Node", klog.KObj(p.req.Node), "Pod", klog.KObj(d.Pod))
	if len(d.Warnings) > 0 {
		log = log.WithValues("warnings", d.Warnings)
	}
	if forced {
		log.Info("deleted Pod because of the force deadline", "gracePeriodSeconds", *d.GraceSeconds)
		return
	}
	p.left--
	p.volumeOrder.evicted(d.Pod)
	log.Info("evicted Pod")
}

func (p *executor) stop(err error) {
	p.stopped, p.err = true, err
}

func (p *executor) result(plan drainplan.Plan) Result {
	r := Result{Progress: p.progress, Removed: p.removed, Done: len(p.progress) == 0 && p.err == nil}
	if !r.Done {
		r.RequeueAfter = p.requeueAfter(plan)
	}
	return r
}
