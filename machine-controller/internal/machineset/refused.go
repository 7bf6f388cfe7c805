// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/health"
	"drover.io/runtime/expiring"
	"drover.io/runtime/results"
)

const (
	// refusedRetry is how often to try again to delete an unhealthy Machine whose deletion the API server refuses.
	refusedRetry = time.Minute
	// refusalTTL is how long after the last attempt a refusal is remembered: another attempt may have to wait for a place in
	// the budget.
	refusalTTL = time.Hour
)

// refusals are when the API server has refused to delete unhealthy Machines. A new process tries all of them again.
type refusals struct {
	at expiring.Map[types.UID, time.Time]
}

func newRefusals(clk clock.PassiveClock) *refusals {
	return &refusals{expiring.Map[types.UID, time.Time]{Clock: clk, TTL: refusalTTL}}
}

// due returns the Machines without those that were refused a moment ago, and when the first of these is due. They are left
// out whatever triggers the reconcile: the refusal changes their conditions, which triggers one.
func (f *refusals) due(machines []*clusterv1.Machine) ([]*clusterv1.Machine, reconcile.Result) {
	var due []*clusterv1.Machine
	var retry reconcile.Result
	for _, m := range machines {
		at, refused := f.at.Get(m.UID)
		if left := refusedRetry - f.at.Clock.Since(at); refused && left > 0 {
			retry = results.Earliest(retry, reconcile.Result{RequeueAfter: left})
			continue
		}
		due = append(due, m)
	}
	return due, retry
}

// has reports whether the condition of the Machine has a refusal of the API server.
func (f *refusals) has(m *clusterv1.Machine) bool { return health.RefusedByOwner(m) && f.at.Has(m.UID) }

// deletionRefused reports that the API server refuses to delete a Machine, which has no place in the budget then.
func (r *remediator) deletionRefused(ctx context.Context, s *state, m *clusterv1.Machine, refusal string) error {
	r.refusals.at.Set(m.UID, r.clock.Now())
	r.guard.ReplacementRefused(m.UID)
	message := "The Machine cannot be replaced: " + refusal
	ctrl.LoggerFrom(ctx).V(1).Info("did not replace unhealthy Machine", "Machine", klog.KObj(m), "message", message)
	if conditions.GetMessage(m, clusterv1.MachineOwnerRemediatedCondition) != message {
		replacementRefused(r.events, s.set, fmt.Sprintf("Machine %s: %s", m.Name, message))
	}
	return results.IgnoreNotFoundOrConflict(r.setOwnerRemediated(ctx, s, m, clusterv1.MachineSetMachineCannotBeRemediatedReason, message))
}

// correctRefused corrects the condition of Machines that are being deleted after the API server had refused that: they are
// replaced, and have a place in the budget.
func (r *remediator) correctRefused(ctx context.Context, s *state) error {
	inFlight := health.InFlightReplacements(s.set)
	for _, m := range slices.Clone(s.machines) {
		if m.DeletionTimestamp.IsZero() || !health.MarkedForOwner(m) || !health.RefusedByOwner(m) ||
			!slices.ContainsFunc(inFlight, func(v health.InFlightReplacement) bool { return v.Machine == m.Name }) {
			continue
		}
		if err := r.setOwnerRemediated(ctx, s, m, clusterv1.MachineSetMachineRemediationMachineDeletingReason, deletingMessage); err != nil {
			return results.IgnoreNotFoundOrConflict(err)
		}
	}
	return nil
}
