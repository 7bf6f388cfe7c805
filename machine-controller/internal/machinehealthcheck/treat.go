// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"fmt"

	kerrors "k8s.io/apimachinery/pkg/util/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/outcome"
	"drover.io/machine-controller/internal/patch"
)

// treat writes the verdicts into the Machines and hands over those to be replaced. One that
// cannot be written does not stop the others.
func (r *Reconciler) treat(ctx context.Context, w *ward) (reconcile.Result, error) {
	requests := &requester{client: r.Client, live: r.Live, check: w.check}
	var result reconcile.Result
	var errs []error
	for _, m := range w.targets {
		wake, err := r.treatOne(ctx, w, m, requests)
		result, errs = outcome.Sooner(result, wake), append(errs, err)
	}
	return result, kerrors.NewAggregate(errs)
}

func (r *Reconciler) treatOne(ctx context.Context, w *ward, m *clusterv1.Machine, requests *requester) (reconcile.Result, error) {
	finding, external := w.findings[m.Name], w.check.Spec.Remediation.TemplateRef.IsDefined()
	wanted := m.DeepCopy()
	switch finding.State {
	case health.Healthy:
		if err := requests.withdraw(ctx, m); err != nil {
			return reconcile.Result{}, err
		}
		setHealthy(wanted)
	case health.Starting, health.Suspect:
		dropMark(wanted)
	case health.Unhealthy:
		setUnhealthy(wanted, finding, w.decision.Held[m.Name])
		switch {
		case w.decision.Remediate[m.Name] && external:
			setWaitingForOthers(wanted)
		case w.decision.Remediate[m.Name]:
			setWaitingForOwner(wanted)
		default:
			dropMark(wanted)
		}
	case health.Leaving, health.Unjudged:
		return reconcile.Result{}, nil
	}
	if err := r.write(ctx, m, wanted); err != nil {
		return reconcile.Result{}, err
	}
	if !external || !w.decision.Remediate[m.Name] {
		return reconcile.Result{}, nil
	}
	return r.request(ctx, requests, wanted)
}

// write persists the conditions of a Machine and tells once that it has been marked. A
// Machine that somebody else has just written is looked at again when the cache shows that.
func (r *Reconciler) write(ctx context.Context, before, after *clusterv1.Machine) error {
	if err := patch.Status(ctx, r.Client, before, after); err != nil {
		return outcome.Settled(fmt.Errorf("patching the status of Machine %q: %w", before.Name, err))
	}
	if after.ResourceVersion == before.ResourceVersion {
		return nil
	}
	r.writes.Note(after)
	if !health.Marked(before) && health.Marked(after) {
		markedUnhealthy(r.Events, after)
	}
	return nil
}

// request sees to it that the request to the controller outside exists, or says why not.
func (r *Reconciler) request(ctx context.Context, requests *requester, m *clusterv1.Machine) (reconcile.Result, error) {
	after := m.DeepCopy()
	err := requests.ensure(ctx, m)
	setRequested(after, err)
	writeErr := r.write(ctx, m, after)
	if isTemplateMissing(err) {
		return reconcile.Result{RequeueAfter: templateRetry}, writeErr
	}
	return reconcile.Result{}, kerrors.NewAggregate([]error{err, writeErr})
}
