// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/machineset/remediation"
	"drover.io/machine-controller/internal/patch"
	"drover.io/runtime/results"
)

// recordReplacements records a replacement in flight for each Machine before it is deleted: a crash in between must not
// lose how often it has been replaced in a row.
func (r *remediator) recordReplacements(ctx context.Context, s *state, leaving []*clusterv1.Machine) error {
	inFlight := health.InFlightReplacements(s.set)
	var newest metav1.Time
	for _, m := range s.machines {
		if newest.Before(&m.CreationTimestamp) {
			newest = m.CreationTimestamp
		}
	}
	for _, m := range leaving {
		inFlight = slices.DeleteFunc(inFlight, func(v health.InFlightReplacement) bool { return v.Machine == m.Name })
		inFlight = append(inFlight, health.InFlightReplacement{Machine: m.Name, Attempt: health.NextAttempt(m, r.clock.Now()), Newest: newest})
	}
	return r.setInFlightReplacements(ctx, s, inFlight)
}

func (r *remediator) setInFlightReplacements(ctx context.Context, s *state, inFlight []health.InFlightReplacement) error {
	before := s.set.DeepCopy()
	health.SetInFlightReplacements(s.set, inFlight)
	return patch.Main(ctx, r.client, before, s.set)
}

// updateReplacements records which Machines replace remediated ones and which of these have been healthy for long enough,
// and removes the replacements in flight that are complete.
func (r *remediator) updateReplacements(ctx context.Context, s *state) (reconcile.Result, error) {
	var result reconcile.Result
	for m, replacement := range remediation.Replacements(s.machines, health.InFlightReplacements(s.set)) {
		if err := r.setReplacement(ctx, s, m, replacement); err != nil {
			return result, err
		}
	}
	now := r.clock.Now()
	for _, m := range s.machines {
		at := health.SettlesAt(m)
		if at.IsZero() || !m.DeletionTimestamp.IsZero() {
			continue
		}
		if left := at.Sub(now); left > 0 {
			result = results.Earliest(result, reconcile.Result{RequeueAfter: left})
			continue
		}
		pending, err := r.awaitsHealthCheck(ctx, s, m)
		if err != nil {
			return result, err
		}
		if pending { // the deletion of a check that has written nothing to the Machine triggers no reconcile
			result = results.Earliest(result, reconcile.Result{RequeueAfter: health.Settle})
			continue
		}
		replacement, _ := health.ReplacementOf(m)
		replacement.Settled = true
		if err := r.setReplacement(ctx, s, m, replacement); err != nil {
			return result, err
		}
	}
	if inFlight := health.InFlightReplacements(s.set); len(inFlight) > 0 {
		if kept := remediation.StillNeeded(inFlight, s.machines, desiredReplicas(s.set)); len(kept) < len(inFlight) {
			if err := r.setInFlightReplacements(ctx, s, kept); err != nil {
				return result, fmt.Errorf("patching MachineSet: %w", err)
			}
		}
	}
	return result, nil
}

// awaitsHealthCheck reports whether a health check selects the Machine and has not found it healthy or unhealthy yet.
func (r *remediator) awaitsHealthCheck(ctx context.Context, s *state, m *clusterv1.Machine) (bool, error) {
	if conditions.Has(m, clusterv1.MachineHealthCheckSucceededCondition) {
		return false, nil
	}
	return r.selected(ctx, s, m)
}

// selected reports whether a health check of this manager selects the Machine: nothing updates what one of another manager
// has found, or of none.
func (r *remediator) selected(ctx context.Context, s *state, m *clusterv1.Machine) (bool, error) {
	if s.checkSelectors == nil {
		checks, err := index.MachineHealthChecksOfCluster(ctx, r.client, client.ObjectKeyFromObject(s.cluster))
		if err != nil {
			return false, err
		}
		s.checkSelectors = []labels.Selector{}
		for _, check := range checks {
			if selector, err := r.selectors.Of(check); err == nil && check.DeletionTimestamp.IsZero() && r.watch.Matches(check) {
				s.checkSelectors = append(s.checkSelectors, selector)
			}
		}
	}
	return m.Spec.ClusterName == s.cluster.Name && slices.ContainsFunc(s.checkSelectors, func(selector labels.Selector) bool {
		return selector.Matches(labels.Set(m.Labels))
	}), nil
}

func (r *remediator) setReplacement(ctx context.Context, s *state, before *clusterv1.Machine, replacement health.Replacement) error {
	m := s.mutable(before)
	health.SetReplacement(m, replacement)
	if err := patch.Main(ctx, r.client, before, m); err != nil {
		return fmt.Errorf("patching Machine %q: %w", m.Name, err)
	}
	return nil
}
