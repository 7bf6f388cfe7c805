// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/annotation"
	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/machineset/creation"
	"drover.io/machine-controller/internal/machineset/deletion"
	"drover.io/machine-controller/internal/machineset/remediation"
	"drover.io/machine-controller/internal/metrics"
	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/rollout/revision"
	"drover.io/machine-controller/internal/safety"
	"drover.io/runtime/predicates"
	"drover.io/runtime/quantity"
	"drover.io/runtime/results"
)

// deletingMessage is the message of OwnerRemediated of a Machine that is being replaced.
const deletingMessage = "The Machine is being deleted"

// remediator deletes Machines that a health check has marked, no more at once than the budget allows, and records which
// Machine replaces which.
type remediator struct {
	client    client.Client
	live      client.Reader
	guard     *safety.Guard
	creator   *creation.Creator
	preflight *preflighter
	deleter   *deletion.Deleter
	events    events.EventRecorder
	clock     clock.PassiveClock
	refusals  *refusals
	selectors *health.Selectors
	watch     predicates.WatchFilter
}

// remediationPlan splits the marked Machines of a set into those to be deleted now and those that wait, with the reason and
// message for the OwnerRemediated condition of the latter.
type remediationPlan struct {
	now, wait       []*clusterv1.Machine
	reason, message string
}

func (r *remediator) run(ctx context.Context, s *state) (reconcile.Result, error) {
	if !s.cacheCurrent {
		return reconcile.Result{}, nil
	}
	return r.remediate(ctx, s)
}

func (r *remediator) remediate(ctx context.Context, s *state) (reconcile.Result, error) {
	result, err := r.updateReplacements(ctx, s)
	if err != nil {
		return result, results.IgnoreNotFoundOrConflict(err)
	}
	if err := r.correctRefused(ctx, s); err != nil {
		return result, err
	}
	candidates, err := r.checked(ctx, s, remediation.Candidates(s.machines))
	if err != nil || countNotDeleting(s.machines) > desiredReplicas(s.set) {
		return result, err // a scale-down deletes the unhealthy first
	}
	candidates, retry := r.refusals.due(candidates)
	if result = results.Earliest(result, retry); len(candidates) == 0 {
		return result, nil
	}
	plan, err := r.plan(ctx, s, candidates)
	if err != nil {
		return result, err
	}
	if err := r.recordReplacements(ctx, s, plan.now); err != nil {
		return result, results.IgnoreNotFoundOrConflict(fmt.Errorf("patching MachineSet: %w", err))
	}
	var errs []error
	for _, m := range plan.wait {
		if plan.reason == clusterv1.MachineSetMachineRemediationDeferredReason && r.refusals.has(m) {
			continue // it would have a place in the budget, and come before others again
		}
		errs = append(errs, results.IgnoreNotFoundOrConflict(r.setOwnerRemediated(ctx, s, m, plan.reason, plan.message)))
	}
	for _, m := range plan.now {
		refused, err := r.replaceMachine(ctx, s, m)
		if errs = append(errs, err); refused {
			result = results.Earliest(result, reconcile.Result{RequeueAfter: refusedRetry})
		}
		s.remediated = s.remediated || !refused
	}
	if len(plan.wait) > 0 {
		ctrl.LoggerFrom(ctx).V(1).Info("did not replace unhealthy Machines", "count", len(plan.wait), "reason", plan.reason, "message", plan.message)
		result = results.Earliest(result, reconcile.Result{RequeueAfter: safety.RetryPeriod})
	}
	return result, kerrors.NewAggregate(errs)
}

// checked returns the Machines that a health check selects. The mark of one that was deleted while the Cluster was paused, or
// while no manager ran, may not have been removed yet.
func (r *remediator) checked(ctx context.Context, s *state, marked []*clusterv1.Machine) ([]*clusterv1.Machine, error) {
	var kept []*clusterv1.Machine
	for _, m := range marked {
		selected, err := r.selected(ctx, s, m)
		if err != nil {
			return nil, err
		}
		if selected {
			kept = append(kept, m)
		}
	}
	return kept, nil
}

// countNotDeleting counts the Machines that are not being deleted; the others are no surplus any more, however long their
// deletion takes.
func countNotDeleting(machines []*clusterv1.Machine) int {
	n := 0
	for _, m := range machines {
		if m.DeletionTimestamp.IsZero() {
			n++
		}
	}
	return n
}

// plan decides which of the candidates are replaced now.
func (r *remediator) plan(ctx context.Context, s *state, candidates []*clusterv1.Machine) (remediationPlan, error) {
	plan := remediationPlan{wait: candidates, reason: clusterv1.MachineSetMachineRemediationDeferredReason}
	md, err := deploymentOf(ctx, r.client, s.set)
	if err != nil {
		return plan, err
	}
	replicas, maxInFlight := desiredReplicas(s.set), (*intstr.IntOrString)(nil)
	if md != nil {
		current, err := r.isCurrent(ctx, md, s.set)
		if err != nil {
			return plan, err
		}
		if !current {
			plan.reason = clusterv1.MachineSetMachineCannotBeRemediatedReason
			plan.message = fmt.Sprintf("MachineSet %s is superseded: the rollout of MachineDeployment %s replaces the Machine", s.set.Name, md.Name)
			return plan, nil
		}
		maxInFlight = md.Spec.Remediation.MaxInFlight
		if md.Spec.Replicas != nil {
			replicas = int(*md.Spec.Replicas)
		}
	}
	if _, err := health.Limit(maxInFlight, replicas); err != nil { // the policy ignores it
		plan.message = fmt.Sprintf("MachineDeployment %s: %v", md.Name, err)
		return plan, nil
	}
	limit, err := r.budget(ctx, s.set, md, replicas)
	if err != nil {
		return plan, err
	}
	if plan.message, err = r.replacementBlocked(ctx, s); err != nil || plan.message != "" {
		return plan, err
	}
	plan.message = fmt.Sprintf("Waiting because at most %s replaced at once", quantity.Are(limit, "Machine"))
	plan.now, plan.wait = remediation.WithinBudget(candidates, s.machines, health.InFlightReplacements(s.set), limit)
	err = r.checkGuard(ctx, s, &plan)
	return plan, err
}

// isCurrent reports whether the set is the one whose Machines the MachineDeployment keeps: the set with its template or, while
// there is none, the newest one. That lasts as long as spec.paused or the annotation of a pause is set, a template that it
// refers to does not exist, or the API server refuses the new MachineSet.
func (r *remediator) isCurrent(ctx context.Context, md *clusterv1.MachineDeployment, set *clusterv1.MachineSet) (bool, error) {
	sets, err := index.MachineSetsOf(ctx, r.client, md.Namespace, md.UID)
	if err != nil {
		return false, err
	}
	if current, _ := revision.FindNewMachineSet(md, sets, r.clock.Now()); current != nil {
		return current.UID == set.UID, nil
	}
	if md.Status.ObservedGeneration != md.Generation && !annotation.Present(md, clusterv1.PausedAnnotation) {
		return false, nil // it may create one now
	}
	newest := revision.Newest(sets)
	return newest != nil && newest.UID == set.UID, nil
}

// deploymentOf reads the MachineDeployment that controls the set; nil for a set without one.
func deploymentOf(ctx context.Context, c client.Reader, set *clusterv1.MachineSet) (*clusterv1.MachineDeployment, error) {
	owner := metav1.GetControllerOfNoCopy(set)
	if owner == nil || owner.Kind != "MachineDeployment" {
		return nil, nil //nolint:nilnil // a set need not have an owner
	}
	md := &clusterv1.MachineDeployment{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: owner.Name}, md); err != nil {
		return nil, fmt.Errorf("reading MachineDeployment %q: %w", owner.Name, err)
	}
	if md.UID != owner.UID {
		return nil, fmt.Errorf("MachineDeployment %q is another one than the owner of MachineSet %q: its UID is %s, not %s", owner.Name, set.Name, md.UID, owner.UID)
	}
	return md, nil
}

// replacementBlocked returns why the replacement of a Machine could not be created now; empty if it could.
func (r *remediator) replacementBlocked(ctx context.Context, s *state) (string, error) {
	if annotation.IsTrue(s.set, clusterv1.DisableMachineCreateAnnotation) {
		return "Waiting because the annotation " + clusterv1.DisableMachineCreateAnnotation + " forbids to create its replacement", nil
	}
	if !s.cluster.DeletionTimestamp.IsZero() {
		return "Waiting because the Cluster is being deleted", nil
	}
	if _, err := r.creator.ReadTemplates(ctx, s.set); err != nil {
		return "Waiting because its replacement could not be created: " + err.Error(), ignoreMisconfigured(err)
	}
	problem, err := r.preflight.check(ctx, s)
	if err != nil {
		problem.Message = err.Error()
	}
	if problem.Message != "" {
		return "Waiting because its replacement could not be created: " + problem.Message, ignoreMisconfigured(err)
	}
	return "", nil
}

// budget returns how many Machines of the set, or of its MachineDeployment, may be replaced at once by the policy in force.
func (r *remediator) budget(ctx context.Context, set *clusterv1.MachineSet, md *clusterv1.MachineDeployment, replicas int) (int, error) {
	var owner client.Object = set
	if md != nil {
		owner = md
	}
	settings, err := r.guard.PolicyFor(ctx, owner)
	return settings.PerOwner.Of(replicas), err
}

// checkGuard moves to plan.wait those Machines that the budgets of the Cluster and the failure domain, a freeze or an
// unreachable API server do not allow to be replaced.
func (r *remediator) checkGuard(ctx context.Context, s *state, plan *remediationPlan) error {
	if len(plan.now) == 0 {
		return nil
	}
	choice, err := r.guard.Replace(ctx, s.cluster, s.set, plan.now)
	if err != nil {
		plan.now = nil
		return err
	}
	var now []*clusterv1.Machine
	changed := false
	for _, m := range plan.now {
		if slices.Contains(choice.Allowed, m.Name) {
			now = append(now, m)
			continue
		}
		plan.wait = append(plan.wait, m)
		if refusal := choice.Refused[m.Name]; refusal != nil {
			plan.message = refusal.Message
			changed = changed || !r.refusals.has(m) && conditions.GetMessage(m, clusterv1.MachineOwnerRemediatedCondition) != refusal.Message
		}
	}
	plan.now = now
	if changed {
		replacementRefused(r.events, s.set, plan.message)
	}
	return nil
}

// setOwnerRemediated reports in the Machine's OwnerRemediated condition why it is not replaced.
func (r *remediator) setOwnerRemediated(ctx context.Context, s *state, before *clusterv1.Machine, reason, message string) error {
	m := s.mutable(before)
	conditions.Set(m, metav1.Condition{
		Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message,
	})
	if err := patch.Status(ctx, r.client, before, m); err != nil {
		return fmt.Errorf("patching the status of Machine %q: %w", m.Name, err)
	}
	return nil
}

// replaceMachine deletes one marked Machine, if the API server shows it as the cache did: the mark may have been removed, or
// an operator have exempted the Machine, a moment ago. The deletion has the version that was read last as a precondition. It
// reports whether the API server refuses the deletion.
func (r *remediator) replaceMachine(ctx context.Context, s *state, m *clusterv1.Machine) (refused bool, err error) {
	latest := &clusterv1.Machine{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(m), latest); err != nil {
		return false, client.IgnoreNotFound(fmt.Errorf("reading Machine %q: %w", m.Name, err))
	}
	if latest.UID != m.UID || r.deleter.Watch.Foreign(latest) || !remediation.Needed(latest) || !metav1.IsControlledBy(latest, s.set) {
		return false, nil // the event of the change triggers another reconcile
	}
	deleting := latest.DeepCopy()
	if i := slices.Index(s.machines, m); i >= 0 {
		s.machines[i] = deleting
	}
	if !health.RefusedByOwner(latest) { // or each attempt after a refusal would change the condition twice
		conditions.Set(deleting, metav1.Condition{
			Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
			Reason: clusterv1.MachineSetMachineRemediationMachineDeletingReason, Message: deletingMessage,
		})
	}
	if err := patch.Status(ctx, r.client, latest, deleting); err != nil {
		return false, results.IgnoreNotFoundOrConflict(fmt.Errorf("patching the status of Machine %q: %w", m.Name, err))
	}
	deleted, err := r.deleter.DeleteIfUnchanged(ctx, s.set, deleting, deletion.ReasonRemediation)
	if refusal := results.Refusal(err); refusal != "" {
		return true, r.deletionRefused(ctx, s, deleting, refusal)
	}
	if err != nil || !deleted {
		return false, err
	}
	replacing(r.events, s.set, m)
	metrics.IncRemediations(client.ObjectKey{Namespace: s.set.Namespace, Name: s.set.Spec.ClusterName})
	return false, nil
}
