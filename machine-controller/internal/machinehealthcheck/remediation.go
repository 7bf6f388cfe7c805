// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/machinehealthcheck/external"
	"drover.io/machine-controller/internal/patch"
	"drover.io/runtime/results"
)

// remediation writes the findings to the Machines and marks those to be remediated. The marked ones come last: their
// owner counts how many Machines are unhealthy, so the conditions of the others must be written by then. After a
// conflict no Machine is marked; other errors do not stop the phase.
type remediation struct{ machineWriter }

func (p remediation) run(ctx context.Context, s *state) (reconcile.Result, error) {
	requests := external.NewRequests(p.client, p.live, s.check)
	var result reconcile.Result
	var errs []error
	for _, replaced := range []bool{false, true} {
		for _, m := range s.targets {
			if s.decision.Remediate[m.Name] == replaced {
				next, err := p.writeFinding(ctx, s, m, requests)
				result, errs = results.Earliest(result, next), append(errs, err)
			}
		}
		if result.RequeueAfter > 0 {
			break
		}
	}
	return result, kerrors.NewAggregate(errs)
}

// exemption removes the conditions and requests of Machines that are exempt: nothing would keep them up to date.
type exemption struct{ machineWriter }

func (p exemption) run(ctx context.Context, s *state) (reconcile.Result, error) {
	requests := external.NewRequests(p.client, p.live, s.check)
	var result reconcile.Result
	var errs []error
	for _, m := range s.exempt {
		wanted := m.DeepCopy()
		health.Unmark(wanted)
		if equality.Semantic.DeepEqual(m.Status.Conditions, wanted.Status.Conditions) {
			continue
		}
		if err := requests.Delete(ctx, m); err != nil {
			errs = append(errs, err)
			continue
		}
		next, err := results.RequeueOnConflict(p.write(ctx, m, wanted))
		result, errs = results.Earliest(result, next), append(errs, err)
	}
	return result, kerrors.NewAggregate(errs)
}

func (p remediation) writeFinding(ctx context.Context, s *state, m *clusterv1.Machine, requests *external.Requests) (reconcile.Result, error) {
	finding, isExternal := s.findings[m.Name], s.check.Spec.Remediation.TemplateRef.IsDefined()
	wanted := m.DeepCopy()
	if err := deleteEarlier(ctx, requests, m, finding); err != nil {
		return reconcile.Result{}, err
	}
	switch finding.State {
	case health.Healthy:
		if err := requests.Delete(ctx, m); err != nil {
			return reconcile.Result{}, err
		}
		setHealthy(wanted)
	case health.Starting, health.Suspect:
		health.RemoveMark(wanted)
	case health.Unhealthy:
		setUnhealthy(wanted, finding, s.decision.Held[m.Name])
		switch {
		case s.decision.Remediate[m.Name] && isExternal:
			setWaitingForExternal(wanted)
		case s.decision.Remediate[m.Name]:
			setWaitingForOwner(wanted)
		default:
			health.RemoveMark(wanted)
		}
	case health.Deleting, health.Unevaluated:
		return reconcile.Result{}, nil
	}
	if err := p.write(ctx, m, wanted); err != nil {
		return results.RequeueOnConflict(err)
	}
	if !isExternal || !s.decision.Remediate[m.Name] {
		return reconcile.Result{}, nil
	}
	return p.request(ctx, requests, wanted)
}

// deleteEarlier deletes the request that an earlier check has left, before the first finding about the Machine. Ensure reports
// a kind of requests that may not be read.
func deleteEarlier(ctx context.Context, requests *external.Requests, m *clusterv1.Machine, finding health.Finding) error {
	if conditions.Has(m, clusterv1.MachineHealthCheckSucceededCondition) || (finding.State != health.Healthy && finding.State != health.Unhealthy) {
		return nil
	}
	if err := requests.DeleteEarlier(ctx, m); !apierrors.IsForbidden(err) {
		return err
	}
	return nil
}

// machineWriter writes the conditions of Machines.
type machineWriter struct {
	client client.Client
	// live reads remediation templates and requests.
	live   client.Reader
	events events.EventRecorder
	writes *expectation.Writes
}

// write writes the conditions of a Machine and emits an event when it has been marked. A concurrent write by another
// client is a conflict.
func (p machineWriter) write(ctx context.Context, before, after *clusterv1.Machine) error {
	if err := patch.Status(ctx, p.client, before, after); err != nil {
		return fmt.Errorf("patching the status of Machine %q: %w", before.Name, err)
	}
	if after.ResourceVersion == before.ResourceVersion {
		return nil
	}
	p.writes.Note(after)
	logWritten(ctx, before, after)
	if !health.Marked(before) && health.Marked(after) {
		markedUnhealthy(p.events, after)
	}
	return nil
}

// request creates the remediation request unless it exists, and reports why it could not.
func (p remediation) request(ctx context.Context, requests *external.Requests, m *clusterv1.Machine) (reconcile.Result, error) {
	after := m.DeepCopy()
	err := requests.Ensure(ctx, m)
	setRequested(after, err)
	result, writeErr := results.RequeueOnConflict(p.write(ctx, m, after))
	if external.NeedsCorrection(err) {
		return results.Earliest(result, reconcile.Result{RequeueAfter: templateRetry}), writeErr
	}
	return result, kerrors.NewAggregate([]error{err, writeErr})
}
