// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/rollout"
	"drover.io/machine-controller/internal/rollout/revision"
)

// RolledBackCondition is False after a requested rollback has failed, until the spec changes or another attempt succeeds.
// All other types and reasons are upstream's; those that MachineSets and MachineDeployments share are in package
// machineowner.
const RolledBackCondition = droverpolicyv1.RolledBackCondition

// Reasons of the RolledBack condition.
const (
	// RevisionNotKeptReason means that there is no such revision; the message lists those that exist.
	RevisionNotKeptReason = droverpolicyv1.RevisionNotKeptReason
	// RollbackRefusedReason means that the API server refuses the template of that revision.
	RollbackRefusedReason = droverpolicyv1.RollbackRefusedReason
)

func setNotRolledBack(md *clusterv1.MachineDeployment, reason string, failure error) {
	conditions.Set(md, metav1.Condition{Type: RolledBackCondition, Status: metav1.ConditionFalse, Reason: reason, Message: failure.Error()})
}

// clearRolledBack removes the condition of an attempt on an earlier spec.
func clearRolledBack(md *clusterv1.MachineDeployment) {
	if c := conditions.Get(md, RolledBackCondition); c != nil && c.ObservedGeneration != md.Generation {
		conditions.Delete(md, RolledBackCondition)
	}
}

// setAvailable compares the number of available Machines with the minimum that the strategy allows.
func setAvailable(s *state) {
	md := s.deployment
	condition := metav1.Condition{Type: clusterv1.MachineDeploymentAvailableCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineDeploymentAvailableReason}
	desired, available := desiredReplicas(md), *md.Status.AvailableReplicas
	limits, err := rollout.ResolveLimits(md.Spec.Rollout.Strategy, desired)
	least := max(0, desired-limits.Unavailable)
	switch {
	case s.blocked != nil || s.notPropagated != nil || err != nil:
		condition.Status, condition.Reason = metav1.ConditionFalse, clusterv1.MachineDeploymentNotAvailableReason
		condition.Message = fmt.Sprint(cmp.Or(s.blocked, s.notPropagated, err))
	case available < least:
		condition.Status, condition.Reason = metav1.ConditionFalse, clusterv1.MachineDeploymentNotAvailableReason
		condition.Message = fmt.Sprintf("%d available replicas, at least %d required", available, least)
		if limits.Unavailable > 0 {
			condition.Message += fmt.Sprintf(" (spec.rollout.strategy.rollingUpdate.maxUnavailable allows %d of %d to be unavailable)", limits.Unavailable, desired)
		}
		if s.notApplied != nil {
			condition.Message += "; " + s.notApplied.Error()
		}
	}
	conditions.Set(md, condition)
}

// setRollingOut reports whether Machines of an older template are left, and what the rollout waits for. Without any, an action on
// a superseded MachineSet may be left that is refused.
func setRollingOut(s *state) {
	condition := metav1.Condition{
		Type: clusterv1.MachineDeploymentRollingOutCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineDeploymentNotRollingOutReason, Message: text(s.notApplied),
	}
	if old := superseded(s); old > 0 {
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.MachineDeploymentRollingOutReason
		condition.Message = fmt.Sprintf("Rolling out %d not up-to-date replicas", old)
		why := ""
		if wait := s.decision.Wait; wait.On != rollout.WaitingForCache && wait.On != rollout.WaitingForMachineSet {
			why = wait.Message
		}
		if blocked := blockedRollout(s); blocked != "" {
			condition.Reason, why = droverpolicyv1.BlockedReason, blocked
		}
		condition.Message = joined(condition.Message, why, refusedBesides(s))
		for _, difference := range differences(s) {
			condition.Message += "\n* " + difference
		}
	}
	conditions.Set(s.deployment, condition)
}

// blockedRollout is why a rollout with nothing to do does not continue by itself; empty if it does.
func blockedRollout(s *state) string {
	switch wait := s.decision.Wait; {
	case s.blocked != nil || s.stalled != nil:
		return cmp.Or(s.blocked, s.stalled).Error()
	case wait.On == rollout.WaitBlocked:
		return wait.Message
	case wait.On == rollout.WaitingForNewMachines:
		current := slices.DeleteFunc(slices.Clone(s.sets), func(set *clusterv1.MachineSet) bool { return supersededSet(s, set) })
		return blockedSet(current, clusterv1.MachineSetScalingUpCondition)
	case wait.On == rollout.WaitingForMachineSet:
		return blockedDeletion(s.sets)
	}
	return ""
}

// refusedBesides is why an action cannot be applied without which the rollout continues; empty if none is refused.
func refusedBesides(s *state) string {
	if s.stalled != nil {
		return ""
	}
	return text(s.notApplied)
}

// blockedDeletion is why the first MachineSet that cannot, by name, does not delete Machines, be it scaled down or deleted itself.
func blockedDeletion(sets []*clusterv1.MachineSet) string {
	return cmp.Or(blockedSet(sets, clusterv1.MachineSetScalingDownCondition), blockedSet(sets, clusterv1.DeletingCondition))
}

// blockedSet is the message of the first MachineSet, by name, whose condition of a type is Blocked, with its name; empty if there
// is none.
func blockedSet(sets []*clusterv1.MachineSet, kind string) string {
	for _, set := range slices.SortedFunc(slices.Values(sets), byName) { // an index returns them in any order
		if c := conditions.Get(set, kind); c != nil && c.Reason == droverpolicyv1.BlockedReason && !isOutdated(set, kind) {
			return fmt.Sprintf("MachineSet %s: %s", set.Name, c.Message)
		}
	}
	return ""
}

// isOutdated reports whether a condition of a MachineSet is about a size that it has reached or that is not wanted any more.
func isOutdated(set *clusterv1.MachineSet, kind string) bool {
	have, want := set.Status.Replicas, set.Spec.Replicas
	switch {
	case kind == clusterv1.DeletingCondition:
		return false
	case have == nil || want == nil:
		return true
	case kind == clusterv1.MachineSetScalingUpCondition:
		return *have >= *want
	}
	return *have <= *want
}

// differences are those between the wanted template and the templates of superseded MachineSets with Machines,
// the version first.
func differences(s *state) []string {
	var all []string
	for _, set := range s.sets {
		if equal, found := revision.EqualTemplate(&set.Spec.Template, &s.deployment.Spec.Template); supersededSet(s, set) && ptr.Deref(set.Status.Replicas, 0) > 0 {
			if equal {
				found = []string{"spec.rollout.after has passed"}
			}
			all = append(all, found...)
		}
	}
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(versionFirst(a), versionFirst(b)), cmp.Compare(a, b))
	})
	return slices.Compact(all)
}

func versionFirst(difference string) int {
	if strings.HasPrefix(difference, "spec.version ") {
		return 0
	}
	return 1
}

// superseded counts the Machines of MachineSets that are not the newest.
func superseded(s *state) int32 {
	var n int32
	for _, set := range s.sets {
		if supersededSet(s, set) && set.Status.Replicas != nil {
			n += *set.Status.Replicas
		}
	}
	return n
}

// supersededSet reports whether a MachineSet is of another template than the deployment, or of an
// earlier revision. A template that waits for its MachineSet has no revision yet.
func supersededSet(s *state, set *clusterv1.MachineSet) bool {
	equal, _ := revision.EqualTemplate(&set.Spec.Template, &s.deployment.Spec.Template)
	return !equal || revision.Of(set) < revision.Of(s.deployment)
}

func setScalingUp(s *state) {
	condition := metav1.Condition{Type: clusterv1.MachineDeploymentScalingUpCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineDeploymentNotScalingUpReason}
	desired, current := desiredReplicas(s.deployment), *s.deployment.Status.Replicas
	switch {
	case current < desired:
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.MachineDeploymentScalingUpReason
		condition.Message = fmt.Sprintf("Scaling up from %d to %d replicas", current, desired)
		if blocked := cmp.Or(s.rolloutBlocked, text(s.blocked), text(s.stalled), s.freeze.Message); blocked != "" {
			condition.Reason = droverpolicyv1.BlockedReason
			condition.Message += " is blocked: " + blocked
		}
	case s.missingTemplate != "" && s.deployment.DeletionTimestamp.IsZero():
		condition.Message = "Scaling up would be blocked: " + s.missingTemplate
	}
	if ofSet, reason := scalingUpOfSet(s); ofSet != "" {
		condition.Message = ofSet
		if condition.Status == metav1.ConditionTrue {
			condition.Reason = reason
		}
	}
	conditions.Set(s.deployment, condition)
}

// scalingUpOfSet is why the first MachineSet that is blocked, or else the first that scales up, has fewer Machines than wanted.
func scalingUpOfSet(s *state) (message, reason string) {
	const kind = clusterv1.MachineSetScalingUpCondition
	if blocked := blockedSet(s.sets, kind); blocked != "" {
		return blocked, droverpolicyv1.BlockedReason
	}
	for _, set := range slices.SortedFunc(slices.Values(s.sets), byName) {
		if c := conditions.Get(set, kind); c != nil && c.Status == metav1.ConditionTrue && !isOutdated(set, kind) {
			return fmt.Sprintf("MachineSet %s: %s", set.Name, c.Message), c.Reason
		}
	}
	return "", ""
}

// joined are the parts that are not empty.
func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "; ")
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func byName(a, b *clusterv1.MachineSet) int { return strings.Compare(a.Name, b.Name) }

// desiredReplicas is 0 for a MachineDeployment that is being deleted. One whose size is not known keeps what it has.
func desiredReplicas(md *clusterv1.MachineDeployment) int32 {
	if !md.DeletionTimestamp.IsZero() {
		return 0
	}
	return ptr.Deref(md.Spec.Replicas, ptr.Deref(md.Status.Replicas, 0))
}
