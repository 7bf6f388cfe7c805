// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/annotation"
	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/metrics"
	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/rollout/revision"
	"drover.io/machine-controller/internal/safety"
	"drover.io/runtime/results"
)

// remediationPlan are the marked Machines of a set: those to be deleted now and those that wait,
// with the reason and message that each kind gets in its OwnerRemediated condition.
type remediationPlan struct {
	now, wait       []*clusterv1.Machine
	reason, message string
}

// remediate deletes Machines that a health check has marked, no more at once than the budget
// allows, and keeps the memory of what replaced what. It reports whether it deleted any: the
// count of Machines is then to be looked at again first.
func (r *Reconciler) remediate(ctx context.Context, s *state) (acted bool, result reconcile.Result, err error) {
	result, err = r.updateReplacements(ctx, s)
	if err != nil {
		return false, result, results.IgnoreNotFoundOrConflict(err)
	}
	waiting := remediationCandidates(s.machines)
	if len(waiting) == 0 || countNotDeleting(s.machines) > desiredReplicas(s.set) {
		return false, result, nil // a surplus takes the unhealthy first
	}
	chosen, err := r.planRemediation(ctx, s, waiting)
	if err != nil {
		return false, result, err
	}
	if err := r.openVacancies(ctx, s, chosen.now); err != nil {
		return false, result, results.IgnoreNotFoundOrConflict(fmt.Errorf("patching MachineSet: %w", err))
	}
	var errs []error
	for _, m := range chosen.wait {
		errs = append(errs, results.IgnoreNotFoundOrConflict(r.setOwnerRemediated(ctx, s, m, chosen.reason, chosen.message)))
	}
	for _, m := range chosen.now {
		errs = append(errs, r.replaceMachine(ctx, s, m))
	}
	if len(chosen.wait) > 0 {
		result = results.Earliest(result, reconcile.Result{RequeueAfter: safety.RetryPeriod})
	}
	return len(chosen.now) > 0, result, kerrors.NewAggregate(errs)
}

// countNotDeleting counts the Machines that are not being deleted; however long the others take, they
// are no surplus any more.
func countNotDeleting(machines []*clusterv1.Machine) int {
	n := 0
	for _, m := range machines {
		if m.DeletionTimestamp.IsZero() {
			n++
		}
	}
	return n
}

// remediationCandidates are the marked Machines, in the order in which they are to be replaced:
// those that a person annotated first, then the newest.
func remediationCandidates(machines []*clusterv1.Machine) []*clusterv1.Machine {
	var marked []*clusterv1.Machine
	for _, m := range machines {
		if needsRemediation(m) {
			marked = append(marked, m)
		}
	}
	ordered := func(m *clusterv1.Machine) int {
		if annotation.Present(m, clusterv1.RemediateMachineAnnotation) {
			return 0
		}
		return 1
	}
	slices.SortFunc(marked, func(a, b *clusterv1.Machine) int {
		return cmp.Or(
			cmp.Compare(ordered(a), ordered(b)),
			b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return marked
}

// needsRemediation reports whether the Machine is to be deleted because it is unhealthy.
func needsRemediation(m *clusterv1.Machine) bool {
	return m.DeletionTimestamp.IsZero() && health.MarkedForOwner(m) && !health.Exempt(m)
}

// withinBudget are as many of the waiting Machines as there are places left.
func withinBudget(waiting, machines []*clusterv1.Machine, vacancies []health.Vacancy, limit int) (now, wait []*clusterv1.Machine) {
	places := min(max(0, limit-health.Busy(machines, vacancies)), len(waiting))
	return waiting[:places], waiting[places:]
}

// planRemediation decides which of the waiting Machines go now.
func (r *Reconciler) planRemediation(ctx context.Context, s *state, waiting []*clusterv1.Machine) (remediationPlan, error) {
	chosen := remediationPlan{wait: waiting, reason: clusterv1.MachineSetMachineRemediationDeferredReason}
	md, err := r.deployment(ctx, s)
	if err != nil {
		return chosen, err
	}
	replicas, maxInFlight := desiredReplicas(s.set), (*intstr.IntOrString)(nil)
	if md != nil {
		sets, err := index.MachineSetsOf(ctx, r.Client, md.Namespace, md.UID)
		if err != nil {
			return chosen, err
		}
		if current, _ := revision.FindCurrent(md, sets, r.Clock.Now()); current == nil || current.UID != s.set.UID {
			chosen.reason = clusterv1.MachineSetMachineCannotBeRemediatedReason
			chosen.message = fmt.Sprintf("MachineSet %s is superseded: the rollout of MachineDeployment %s replaces the Machine", s.set.Name, md.Name)
			return chosen, nil
		}
		maxInFlight = md.Spec.Remediation.MaxInFlight
		if md.Spec.Replicas != nil {
			replicas = int(*md.Spec.Replicas)
		}
	}
	if _, err := health.Limit(maxInFlight, replicas); err != nil { // the budget takes it for absent
		chosen.message = fmt.Sprintf("MachineDeployment %s: %v", md.Name, err)
		return chosen, nil
	}
	limit, err := r.replacementBudget(ctx, s.set, md, replicas)
	if err != nil {
		return chosen, err
	}
	if chosen.message, err = r.replacementBlocked(ctx, s); err != nil || chosen.message != "" {
		return chosen, err
	}
	chosen.message = fmt.Sprintf("Waiting because at most %d Machines are replaced at once", limit)
	chosen.now, chosen.wait = withinBudget(waiting, s.machines, health.Vacancies(s.set), limit)
	err = r.checkGuard(ctx, s, &chosen)
	return chosen, err
}

// deployment is the MachineDeployment that controls the set; nil for a set that stands alone.
func (r *Reconciler) deployment(ctx context.Context, s *state) (*clusterv1.MachineDeployment, error) {
	owner := metav1.GetControllerOfNoCopy(s.set)
	if owner == nil || owner.Kind != "MachineDeployment" {
		return nil, nil //nolint:nilnil // a set need not have an owner
	}
	md := &clusterv1.MachineDeployment{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.set.Namespace, Name: owner.Name}, md); err != nil {
		return nil, fmt.Errorf("reading MachineDeployment %q: %w", owner.Name, err)
	}
	if md.UID != owner.UID {
		return nil, fmt.Errorf("MachineDeployment %q is another one than the owner of MachineSet %q: its UID is %s, not %s", owner.Name, s.set.Name, md.UID, owner.UID)
	}
	return md, nil
}

// replacementBlocked says why a Machine that is deleted now could not be replaced.
func (r *Reconciler) replacementBlocked(ctx context.Context, s *state) (string, error) {
	if annotation.IsTrue(s.set, clusterv1.DisableMachineCreateAnnotation) {
		return "Waiting because the annotation " + clusterv1.DisableMachineCreateAnnotation + " forbids to create its replacement", nil
	}
	if !s.cluster.DeletionTimestamp.IsZero() {
		return "Waiting because the Cluster is being deleted", nil
	}
	if _, err := r.creator.readTemplates(ctx, s); err != nil {
		return "Waiting because its replacement could not be created: " + err.Error(), ignoreMisconfigured(err)
	}
	complaint, err := r.preflight(ctx, s)
	if complaint = cmp.Or(complaint, errorText(err)); complaint != "" {
		return "Waiting because its replacement could not be created: " + complaint, ignoreMisconfigured(err)
	}
	return "", nil
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// setOwnerRemediated tells in the Machine's OwnerRemediated condition what becomes of it.
func (r *Reconciler) setOwnerRemediated(ctx context.Context, s *state, before *clusterv1.Machine, reason, message string) error {
	m := s.mutable(before)
	conditions.Set(m, metav1.Condition{
		Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message,
	})
	if err := patch.Status(ctx, r.Client, before, m); err != nil {
		return fmt.Errorf("patching the status of Machine %q: %w", m.Name, err)
	}
	return nil
}

// replaceMachine deletes one marked Machine, if the API server shows it as the cache did: the mark may
// have been taken back, or an operator have exempted the Machine, a moment ago. The deletion
// itself insists on what was seen last.
func (r *Reconciler) replaceMachine(ctx context.Context, s *state, m *clusterv1.Machine) error {
	now := &clusterv1.Machine{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(m), now); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("reading Machine %q: %w", m.Name, err))
	}
	if now.UID != m.UID || r.watch.Foreign(now) || !needsRemediation(now) || !metav1.IsControlledBy(now, s.set) {
		return nil // the event that shows it brings the next decision
	}
	deleting := now.DeepCopy()
	if i := slices.Index(s.machines, m); i >= 0 {
		s.machines[i] = deleting
	}
	conditions.Set(deleting, metav1.Condition{
		Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
		Reason: clusterv1.MachineSetMachineRemediationMachineDeletingReason, Message: "The Machine is being deleted",
	})
	if err := patch.Status(ctx, r.Client, now, deleting); err != nil {
		return results.IgnoreNotFoundOrConflict(fmt.Errorf("patching the status of Machine %q: %w", m.Name, err))
	}
	deleted, err := r.deleteIfUnchanged(ctx, s.set, deleting)
	if err != nil || !deleted {
		return err
	}
	replacing(r.Events, s.set, m)
	metrics.Replaced(client.ObjectKey{Namespace: s.set.Namespace, Name: s.set.Spec.ClusterName})
	return nil
}

// openVacancies records whose places are about to be empty, before they are: a crash in
// between must not lose how often a place has been filled in a row.
func (r *Reconciler) openVacancies(ctx context.Context, s *state, leaving []*clusterv1.Machine) error {
	vacancies := health.Vacancies(s.set)
	var newest metav1.Time
	for _, m := range s.machines {
		if newest.Before(&m.CreationTimestamp) {
			newest = m.CreationTimestamp
		}
	}
	for _, m := range leaving {
		vacancies = slices.DeleteFunc(vacancies, func(v health.Vacancy) bool { return v.Machine == m.Name })
		vacancies = append(vacancies, health.Vacancy{Machine: m.Name, Attempt: health.NextAttempt(m, r.Clock.Now()), Newest: newest})
	}
	return r.setVacancies(ctx, s, vacancies)
}

func (r *Reconciler) setVacancies(ctx context.Context, s *state, vacancies []health.Vacancy) error {
	before := s.set.DeepCopy()
	health.SetVacancies(s.set, vacancies)
	return patch.Main(ctx, r.Client, before, s.set)
}

// updateReplacements writes down which Machines have taken the places of remediated ones, which have
// proved themselves, and which vacancies are over.
func (r *Reconciler) updateReplacements(ctx context.Context, s *state) (reconcile.Result, error) {
	var result reconcile.Result
	for m, replacement := range matchReplacements(s.machines, health.Vacancies(s.set)) {
		if err := r.setReplacement(ctx, s, m, replacement); err != nil {
			return result, err
		}
	}
	now := r.Clock.Now()
	for _, m := range s.machines {
		at := health.SettlesAt(m)
		if at.IsZero() || !m.DeletionTimestamp.IsZero() {
			continue
		}
		if left := at.Sub(now); left > 0 {
			result = results.Earliest(result, reconcile.Result{RequeueAfter: left})
			continue
		}
		replacement, _ := health.ReplacementOf(m)
		replacement.Settled = true
		if err := r.setReplacement(ctx, s, m, replacement); err != nil {
			return result, err
		}
	}
	if vacancies := health.Vacancies(s.set); len(vacancies) > 0 {
		if kept := relevantVacancies(vacancies, s.machines, desiredReplicas(s.set)); len(kept) < len(vacancies) {
			if err := r.setVacancies(ctx, s, kept); err != nil {
				return result, fmt.Errorf("patching MachineSet: %w", err)
			}
		}
	}
	return result, nil
}

func (r *Reconciler) setReplacement(ctx context.Context, s *state, before *clusterv1.Machine, replacement health.Replacement) error {
	m := s.mutable(before)
	health.SetReplacement(m, replacement)
	if err := patch.Main(ctx, r.Client, before, m); err != nil {
		return fmt.Errorf("patching Machine %q: %w", m.Name, err)
	}
	return nil
}

// matchReplacements pair each empty place with the oldest Machine that came after it was emptied.
func matchReplacements(machines []*clusterv1.Machine, vacancies []health.Vacancy) map[*clusterv1.Machine]health.Replacement {
	byAge := slices.SortedFunc(slices.Values(machines), func(a, b *clusterv1.Machine) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	pairs := map[*clusterv1.Machine]health.Replacement{}
	for _, v := range health.Empty(machines, vacancies) {
		for _, m := range byAge {
			_, replaces := health.ReplacementOf(m)
			_, taken := pairs[m]
			if !replaces && !taken && m.DeletionTimestamp.IsZero() && v.Newest.Before(&m.CreationTimestamp) {
				pairs[m] = health.Replacement{Machine: v.Machine, Attempt: v.Attempt}
				break
			}
		}
	}
	return pairs
}

// relevantVacancies are the vacancies that still matter: of Machines on their way out, and of places
// that are empty while the set has room. A Machine that goes for another reason takes no
// place from them, however long it goes.
func relevantVacancies(vacancies []health.Vacancy, machines []*clusterv1.Machine, desired int) []health.Vacancy {
	empty := health.Empty(machines, vacancies)
	room := desired
	for _, m := range machines {
		if m.DeletionTimestamp.IsZero() || slices.ContainsFunc(vacancies, func(v health.Vacancy) bool { return v.Machine == m.Name }) {
			room--
		}
	}
	var kept []health.Vacancy
	for _, v := range vacancies {
		leaving := slices.ContainsFunc(machines, func(m *clusterv1.Machine) bool {
			return m.Name == v.Machine && (!m.DeletionTimestamp.IsZero() || health.MarkedForOwner(m))
		})
		if leaving {
			kept = append(kept, v)
		} else if room > 0 && slices.Contains(empty, v) {
			kept = append(kept, v)
			room--
		}
	}
	return kept
}
