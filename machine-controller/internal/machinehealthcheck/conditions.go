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

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/machinehealthcheck/external"
	"drover.io/runtime/quantity"
)

// Types and reasons are upstream's, and those below; docs/reference/machinehealthcheck.md lists them all.
const (
	// FailureDomainsHealthyCondition is false while all Machines of a failure domain are unhealthy.
	FailureDomainsHealthyCondition = droverpolicyv1.FailureDomainsHealthyCondition
	// FailureDomainsHealthyReason and FailureDomainDownReason are its reasons.
	FailureDomainsHealthyReason = droverpolicyv1.FailureDomainsHealthyReason
	FailureDomainDownReason     = droverpolicyv1.FailureDomainDownReason

	// TargetsExclusiveCondition is false while an older check selects some of the same Machines.
	TargetsExclusiveCondition = droverpolicyv1.TargetsExclusiveCondition
	// TargetsExclusiveReason and TargetsOverlapReason are its reasons.
	TargetsExclusiveReason = droverpolicyv1.TargetsExclusiveReason
	TargetsOverlapReason   = droverpolicyv1.TargetsOverlapReason

	// BudgetUsedReason means that unhealthy Machines wait for the replacement of others.
	BudgetUsedReason = droverpolicyv1.BudgetUsedReason
	// NotConnectedReason means that no Machine is evaluated because there is no connection.
	NotConnectedReason = droverpolicyv1.NotConnectedReason
	// InvalidSpecReason means that a field of the spec cannot be used.
	InvalidSpecReason = droverpolicyv1.InvalidSpecReason
	// ClusterMissingReason means that the Cluster does not exist.
	ClusterMissingReason = droverpolicyv1.ClusterMissingReason
)

// setClusterMissing reports a check that cannot be reconciled for want of its Cluster.
func setClusterMissing(check *clusterv1.MachineHealthCheck) {
	setNotAllowed(check, ClusterMissingReason, fmt.Sprintf("Cluster %q does not exist: create it, or delete this MachineHealthCheck", check.Spec.ClusterName))
}

// setNotAllowed sets the condition RemediationAllowed to False.
func setNotAllowed(check *clusterv1.MachineHealthCheck, reason, message string) {
	conditions.Set(check, metav1.Condition{
		Type: clusterv1.MachineHealthCheckRemediationAllowedCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message,
	})
}

func setRemediationAllowed(s *state) {
	switch {
	case s.specError != nil:
		setNotAllowed(s.check, InvalidSpecReason, s.specError.Error())
	case s.disconnected != "":
		setNotAllowed(s.check, NotConnectedReason, s.disconnected+"; no Machine is evaluated, and timeouts start again with the connection")
	case !s.decided:
	case s.decision.Restricted:
		setNotAllowed(s.check, clusterv1.MachineHealthCheckTooManyUnhealthyReason, fmt.Sprintf(
			"%d of %s %s unhealthy, which is outside %s: find out what they have in common, or annotate single Machines with %s",
			s.decision.Unhealthy, quantity.Of(s.decision.Expected, "Machine"), quantity.Verb(s.decision.Unhealthy, "is", "are"), triggerText(s), clusterv1.MachineSkipRemediationAnnotation))
	case len(s.decision.Full) > 0:
		setNotAllowed(s.check, BudgetUsedReason, "Unhealthy Machines wait because as many as allowed are being replaced: "+fullText(s))
	default:
		conditions.Set(s.check, metav1.Condition{
			Type:   clusterv1.MachineHealthCheckRemediationAllowedCondition,
			Status: metav1.ConditionTrue,
			Reason: clusterv1.MachineHealthCheckRemediationAllowedReason,
		})
	}
}

func triggerText(s *state) string {
	trigger, _ := health.ParseTrigger(s.check.Spec.Remediation.TriggerIf, len(s.targets))
	return "spec.remediation.triggerIf." + trigger.Text
}

func fullText(s *state) string {
	var texts []string
	for _, name := range s.decision.Full {
		texts = append(texts, fmt.Sprintf("%d of %s", s.groups[name].limit, name))
	}
	return strings.Join(texts, ", ")
}

func setFailureDomainsHealthy(s *state) {
	if !s.decided {
		return
	}
	condition := metav1.Condition{Type: FailureDomainsHealthyCondition, Status: metav1.ConditionTrue, Reason: FailureDomainsHealthyReason}
	if zones := s.decision.Zones; len(zones) > 0 {
		condition.Status, condition.Reason = metav1.ConditionFalse, FailureDomainDownReason
		condition.Message = fmt.Sprintf("No Machine in failure domain %s is healthy, so none of them is replaced: check the failure domain first; the annotation %s replaces a Machine nevertheless",
			strings.Join(zones, ", "), clusterv1.RemediateMachineAnnotation)
	}
	conditions.Set(s.check, condition)
}

func setTargetsExclusive(s *state) {
	if s.overlapping == nil {
		return
	}
	condition := metav1.Condition{Type: TargetsExclusiveCondition, Status: metav1.ConditionTrue, Reason: TargetsExclusiveReason}
	if len(s.overlapping) > 0 {
		var texts []string
		for _, olderCheck := range slices.Sorted(maps.Keys(s.overlapping)) {
			texts = append(texts, fmt.Sprintf("%d by %s", len(s.overlapping[olderCheck]), olderCheck))
		}
		condition.Status, condition.Reason = metav1.ConditionFalse, TargetsOverlapReason
		condition.Message = "Some of the selected Machines are also selected by older MachineHealthChecks: " + strings.Join(texts, ", ") + "; narrow one of the selectors"
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

func setUnhealthy(m *clusterv1.Machine, finding health.Finding, held health.WaitReason) {
	message := finding.Message
	if held != "" {
		message += "; it is not replaced now: " + string(held)
	}
	conditions.Set(m, metav1.Condition{
		Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse, Reason: finding.Reason, Message: message,
	})
}

// setWaitingForOwner marks the Machine for replacement by its owner, unless it is marked already.
func setWaitingForOwner(m *clusterv1.Machine) {
	if conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition) {
		return
	}
	conditions.Set(m, metav1.Condition{
		Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason,
	})
}

// setWaitingForExternal marks the Machine for an external controller, whose own reasons are kept.
func setWaitingForExternal(m *clusterv1.Machine) {
	if conditions.IsFalse(m, clusterv1.MachineExternallyRemediatedCondition) {
		return
	}
	conditions.Set(m, metav1.Condition{
		Type: clusterv1.MachineExternallyRemediatedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineExternallyRemediatedWaitingForRemediationReason,
	})
}

// setRequested reports whether the remediation request could be created.
func setRequested(m *clusterv1.Machine, err error) {
	condition := metav1.Condition{
		Type: clusterv1.MachineExternallyRemediatedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineExternallyRemediatedWaitingForRemediationReason,
	}
	switch {
	case external.IsTemplateMissing(err):
		condition.Reason, condition.Message = clusterv1.MachineExternallyRemediatedRemediationTemplateNotFoundReason, err.Error()
	case err != nil:
		condition.Reason, condition.Message = clusterv1.MachineExternallyRemediatedRemediationRequestCreationFailedReason, err.Error()
	case !slices.Contains(failed, conditions.GetReason(m, condition.Type)):
		return // the reason of the external controller is kept
	}
	conditions.Set(m, condition)
}

// failed are the reasons of requests that could not be made.
var failed = []string{
	clusterv1.MachineExternallyRemediatedRemediationTemplateNotFoundReason,
	clusterv1.MachineExternallyRemediatedRemediationRequestCreationFailedReason,
}
