// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/patch"
	"drover.io/runtime/results"
)

// treat writes the verdicts into the Machines and hands over those to be replaced, which come
// last: whoever replaces them counts how many are unhealthy, and must know of the others by
// then. A verdict that met a newer Machine is waited for; one that cannot be written stops
// nothing.
func (r *Reconciler) treat(ctx context.Context, s *ward) (reconcile.Result, error) {
	requests := &requester{client: r.Client, live: r.Live, check: s.check}
	var result reconcile.Result
	var errs []error
	for _, replaced := range []bool{false, true} {
		for _, m := range s.targets {
			if s.decision.Remediate[m.Name] == replaced {
				wake, err := r.treatOne(ctx, s, m, requests)
				result, errs = results.Earliest(result, wake), append(errs, err)
			}
		}
		if result.RequeueAfter > 0 {
			break
		}
	}
	return result, kerrors.NewAggregate(errs)
}

// spare takes everything back that was asked about the Machines that somebody has exempted:
// the verdict, which nobody keeps up to date any more, and every request.
func (r *Reconciler) spare(ctx context.Context, s *ward) (reconcile.Result, error) {
	requests := &requester{client: r.Client, live: r.Live, check: s.check}
	var result reconcile.Result
	var errs []error
	for _, m := range s.exempt {
		wanted := m.DeepCopy()
		unmark(wanted)
		if equality.Semantic.DeepEqual(m.Status.Conditions, wanted.Status.Conditions) {
			continue
		}
		if err := requests.withdraw(ctx, m); err != nil {
			errs = append(errs, err)
			continue
		}
		wake, err := results.RequeueOnConflict(r.write(ctx, m, wanted))
		result, errs = results.Earliest(result, wake), append(errs, err)
	}
	return result, kerrors.NewAggregate(errs)
}

func (r *Reconciler) treatOne(ctx context.Context, s *ward, m *clusterv1.Machine, requests *requester) (reconcile.Result, error) {
	finding, external := s.findings[m.Name], s.check.Spec.Remediation.TemplateRef.IsDefined()
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
		setUnhealthy(wanted, finding, s.decision.Held[m.Name])
		switch {
		case s.decision.Remediate[m.Name] && external:
			setWaitingForOthers(wanted)
		case s.decision.Remediate[m.Name]:
			setWaitingForOwner(wanted)
		default:
			dropMark(wanted)
		}
	case health.Leaving, health.Unjudged:
		return reconcile.Result{}, nil
	}
	if err := r.write(ctx, m, wanted); err != nil {
		return results.RequeueOnConflict(err)
	}
	if !external || !s.decision.Remediate[m.Name] {
		return reconcile.Result{}, nil
	}
	return r.request(ctx, requests, wanted)
}

// write persists the conditions of a Machine and reports once that it has been marked. A
// Machine that somebody else has just written is a conflict.
func (r *Reconciler) write(ctx context.Context, before, after *clusterv1.Machine) error {
	if err := patch.Status(ctx, r.Client, before, after); err != nil {
		return fmt.Errorf("patching the status of Machine %q: %w", before.Name, err)
	}
	if after.ResourceVersion == before.ResourceVersion {
		return nil
	}
	r.writes.Note(after)
	logWritten(ctx, before, after)
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
	result, writeErr := results.RequeueOnConflict(r.write(ctx, m, after))
	if needsPerson(err) {
		return results.Earliest(result, reconcile.Result{RequeueAfter: templateRetry}), writeErr
	}
	return result, kerrors.NewAggregate([]error{err, writeErr})
}
