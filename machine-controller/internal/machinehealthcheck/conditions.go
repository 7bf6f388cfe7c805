// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"drover.io/machine-controller/internal/health"
)

// Types and reasons are upstream's, and those below; docs/reference/machinehealthcheck.md lists them all.
const (
	// FailureDomainsHealthyCondition is false while all Machines of a failure domain are unwell.
	FailureDomainsHealthyCondition = "FailureDomainsHealthy"
	// FailureDomainsHealthyReason and FailureDomainDownReason are its reasons.
	FailureDomainsHealthyReason = "FailureDomainsHealthy"
	FailureDomainDownReason     = "FailureDomainDown"

	// TargetsExclusiveCondition is false while an older check looks after some of the selected Machines.
	TargetsExclusiveCondition = "TargetsExclusive"
	// TargetsExclusiveReason and TargetsOverlapReason are its reasons.
	TargetsExclusiveReason = "TargetsExclusive"
	TargetsOverlapReason   = "TargetsOverlap"

	// BudgetUsedReason says that unhealthy Machines wait for the replacement of others.
	BudgetUsedReason = "ReplacementBudgetUsed"
	// NotConnectedReason says that nothing is judged for want of a connection.
	NotConnectedReason = "NotConnected"
	// InvalidSpecReason says that a field of the spec cannot be used.
	InvalidSpecReason = "InvalidSpec"
	// ClusterMissingReason says that the Cluster does not exist.
	ClusterMissingReason = "ClusterDoesNotExist"
)

// setClusterMissing reports a check that cannot be reconciled for want of its Cluster.
func setClusterMissing(check *clusterv1.MachineHealthCheck) {
	forbid(check, ClusterMissingReason, fmt.Sprintf("Cluster %q does not exist: create it, or delete this MachineHealthCheck", check.Spec.ClusterName))
}

func forbid(check *clusterv1.MachineHealthCheck, reason, message string) {
	conditions.Set(check, metav1.Condition{
		Type: clusterv1.MachineHealthCheckRemediationAllowedCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message,
	})
}

func setRemediationAllowed(s *ward) {
	switch {
	case s.trouble != nil:
		forbid(s.check, InvalidSpecReason, s.trouble.Error())
	case s.blind != "":
		forbid(s.check, NotConnectedReason, s.blind+"; nothing is judged, and timers start anew with the connection")
	case !s.decided:
	case s.decision.Restricted:
		forbid(s.check, clusterv1.MachineHealthCheckTooManyUnhealthyReason, fmt.Sprintf(
			"%d of %d Machines are unhealthy, which is outside %s: find out what they have in common, or annotate single Machines with %s",
			s.decision.Unhealthy, s.decision.Expected, triggerText(s), clusterv1.MachineSkipRemediationAnnotation))
	case len(s.decision.Full) > 0:
		forbid(s.check, BudgetUsedReason, "Unhealthy Machines wait because as many as allowed are being replaced: "+fullText(s))
	default:
		conditions.Set(s.check, metav1.Condition{
			Type:   clusterv1.MachineHealthCheckRemediationAllowedCondition,
			Status: metav1.ConditionTrue,
			Reason: clusterv1.MachineHealthCheckRemediationAllowedReason,
		})
	}
}

func triggerText(s *ward) string {
	trigger, _ := health.ParseTrigger(s.check.Spec.Remediation.TriggerIf, len(s.targets))
	return "spec.remediation.triggerIf." + trigger.Text
}

func fullText(s *ward) string {
	var texts []string
	for _, name := range s.decision.Full {
		texts = append(texts, fmt.Sprintf("%d of %s", s.groups[name].limit, name))
	}
	return strings.Join(texts, ", ")
}

func setFailureDomainsHealthy(s *ward) {
	if !s.decided {
		return
	}
	condition := metav1.Condition{Type: FailureDomainsHealthyCondition, Status: metav1.ConditionTrue, Reason: FailureDomainsHealthyReason}
	if zones := s.decision.Zones; len(zones) > 0 {
		condition.Status, condition.Reason = metav1.ConditionFalse, FailureDomainDownReason
		condition.Message = fmt.Sprintf("No Machine in failure domain %s is well, so none of them is replaced: look there first; the annotation %s replaces a Machine all the same",
			strings.Join(zones, ", "), clusterv1.RemediateMachineAnnotation)
	}
	conditions.Set(s.check, condition)
}

func setTargetsExclusive(s *ward) {
	if s.yielded == nil {
		return
	}
	condition := metav1.Condition{Type: TargetsExclusiveCondition, Status: metav1.ConditionTrue, Reason: TargetsExclusiveReason}
	if len(s.yielded) > 0 {
		var texts []string
		for _, elder := range slices.Sorted(maps.Keys(s.yielded)) {
			texts = append(texts, fmt.Sprintf("%d by %s", len(s.yielded[elder]), elder))
		}
		condition.Status, condition.Reason = metav1.ConditionFalse, TargetsOverlapReason
		condition.Message = "Some of the selected Machines are looked after by older MachineHealthChecks: " + strings.Join(texts, ", ") + "; narrow one of the selectors"
	}
	conditions.Set(s.check, condition)
}

// The conditions of Machines.

func setHealthy(m *clusterv1.Machine) {
	conditions.Set(m, metav1.Condition{
		Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineHealthCheckSucceededReason,
	})
	conditions.Delete(m, clusterv1.MachineOwnerRemediatedCondition)
	conditions.Delete(m, clusterv1.MachineExternallyRemediatedCondition)
}

func setUnhealthy(m *clusterv1.Machine, finding health.Finding, held health.Hold) {
	message := finding.Message
	if held != "" {
		message += "; it is not replaced now: " + string(held)
	}
	conditions.Set(m, metav1.Condition{
		Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse, Reason: finding.Reason, Message: message,
	})
}

// setWaitingForOwner asks the owner for replacement, unless it has answered already.
func setWaitingForOwner(m *clusterv1.Machine) {
	if conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition) {
		return
	}
	conditions.Set(m, metav1.Condition{
		Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason,
	})
}

// setWaitingForOthers asks a controller outside, whose own word on success stays.
func setWaitingForOthers(m *clusterv1.Machine) {
	if conditions.IsFalse(m, clusterv1.MachineExternallyRemediatedCondition) {
		return
	}
	conditions.Set(m, metav1.Condition{
		Type: clusterv1.MachineExternallyRemediatedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineExternallyRemediatedWaitingForRemediationReason,
	})
}

// setRequested tells what came of the request to a controller outside.
func setRequested(m *clusterv1.Machine, err error) {
	condition := metav1.Condition{
		Type: clusterv1.MachineExternallyRemediatedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineExternallyRemediatedWaitingForRemediationReason,
	}
	switch {
	case isTemplateMissing(err):
		condition.Reason, condition.Message = clusterv1.MachineExternallyRemediatedRemediationTemplateNotFoundReason, err.Error()
	case err != nil:
		condition.Reason, condition.Message = clusterv1.MachineExternallyRemediatedRemediationRequestCreationFailedReason, err.Error()
	case !slices.Contains(failed, conditions.GetReason(m, condition.Type)):
		return // its own words stay
	}
	conditions.Set(m, condition)
}

// failed are the reasons of requests that could not be made.
var failed = []string{
	clusterv1.MachineExternallyRemediatedRemediationTemplateNotFoundReason,
	clusterv1.MachineExternallyRemediatedRemediationRequestCreationFailedReason,
}

// withdrawable are the reasons with which a request to the owner has had no consequence yet.
var withdrawable = []string{
	clusterv1.MachineOwnerRemediatedWaitingForRemediationReason,
	clusterv1.MachineSetMachineCannotBeRemediatedReason,
	clusterv1.MachineSetMachineRemediationDeferredReason,
}

// dropMark takes a request to the owner back that the owner has not acted upon. Requests to
// controllers outside end only when the Machine is healthy.
func dropMark(m *clusterv1.Machine) {
	external := conditions.Has(m, clusterv1.MachineExternallyRemediatedCondition)
	if !external && slices.Contains(withdrawable, conditions.GetReason(m, clusterv1.MachineOwnerRemediatedCondition)) {
		conditions.Delete(m, clusterv1.MachineOwnerRemediatedCondition)
	}
}

// unmark takes everything back that health checks have said of a Machine: nobody judges it
// any more. Its owner deletes only what it has seen unchanged, so that even a request on
// which it was about to act is taken back in time. Where another kind of owner is at work,
// what it says stays.
func unmark(m *clusterv1.Machine) {
	if !m.DeletionTimestamp.IsZero() {
		return
	}
	conditions.Delete(m, clusterv1.MachineHealthCheckSucceededCondition)
	conditions.Delete(m, clusterv1.MachineExternallyRemediatedCondition)
	reason := conditions.GetReason(m, clusterv1.MachineOwnerRemediatedCondition)
	if reason == clusterv1.MachineSetMachineRemediationMachineDeletingReason || slices.Contains(withdrawable, reason) {
		conditions.Delete(m, clusterv1.MachineOwnerRemediatedCondition)
	}
}
