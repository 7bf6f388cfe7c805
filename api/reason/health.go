// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package reason

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
)

const (
	healthCheckKind = "MachineHealthCheck"
	policyKind      = "MachinePolicy"
)

func machineHealthCheck() []Entry {
	return concat(
		condition(healthCheckKind, clusterv1.MachineHealthCheckRemediationAllowedCondition,
			reason{clusterv1.MachineHealthCheckRemediationAllowedReason, "True", "unhealthy Machines are replaced", Nobody, "", ""},
			reason{clusterv1.MachineHealthCheckTooManyUnhealthyReason, "False", "the number of unhealthy Machines is outside spec.remediation.triggerIf", Operator, "find out what they have in common; single Machines are exempt with the annotation " + clusterv1.MachineSkipRemediationAnnotation, ""},
			reason{droverpolicyv1.BudgetUsedReason, "False", "unhealthy Machines wait because as many as allowed are being replaced", Drover, "raise the budget of the MachinePolicy if that takes too long", ""},
			reason{droverpolicyv1.NotConnectedReason, "False", "no Machine is evaluated; the message names what cannot be reached", WorkloadAdmin, "make it answer", ""},
			reason{droverpolicyv1.InvalidSpecReason, "False", "the field that the message names cannot be used", Operator, "correct it", ""},
			reason{droverpolicyv1.ClusterMissingReason, "False", "the Cluster does not exist", Operator, "create the Cluster, or delete the MachineHealthCheck", ""},
		),
		condition(healthCheckKind, droverpolicyv1.FailureDomainsHealthyCondition,
			reason{droverpolicyv1.FailureDomainsHealthyReason, "True", "every failure domain has a healthy Machine", Nobody, "", ""},
			reason{droverpolicyv1.FailureDomainDownReason, "False", "no Machine in the failure domains of the message is healthy, so none of them is replaced", CloudOwner, "check the failure domain; the annotation " + clusterv1.RemediateMachineAnnotation + " replaces a Machine nevertheless", ""},
		),
		condition(healthCheckKind, droverpolicyv1.TargetsExclusiveCondition,
			reason{droverpolicyv1.TargetsExclusiveReason, "True", "no older check selects any of the same Machines", Nobody, "", ""},
			reason{droverpolicyv1.TargetsOverlapReason, "False", "the older checks in the message are responsible for some of the selected Machines", Operator, "narrow one of the selectors", ""},
		),
		paused(healthCheckKind),
	)
}

func machinePolicy() []Entry {
	return concat(
		condition(policyKind, droverpolicyv1.ReadyCondition,
			reason{droverpolicyv1.InForceReason, "True", "every selected object follows the policy", Nobody, "", ""},
			reason{droverpolicyv1.NothingSelectedReason, "True", "the selector selects nothing", Nobody, "label the MachineDeployments that are to follow it: the labels of their templates do not count", ""},
			reason{droverpolicyv1.OverriddenReason, "False", "an older policy selects some of the objects too, and is in force for them", Operator, "narrow one of the selectors, or delete one of the policies", ""},
			reason{droverpolicyv1.InvalidReason, "False", "a field cannot be read; the message names it", Operator, "correct it", ""},
		),
		condition(policyKind, droverpolicyv1.ConflictCondition,
			reason{droverpolicyv1.NoConflictReason, "False", "no other policy selects any of the same objects", Nobody, "", ""},
			reason{droverpolicyv1.SelectedTwiceReason, "True", "the policies in the message select some of the same objects; the oldest is in force for those", Operator, "narrow one of the selectors, or delete one of the policies", ""},
		),
	)
}
