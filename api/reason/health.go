// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package reason

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	policyv1 "drover.io/api/policy/v1alpha1"
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
			reason{policyv1.BudgetUsedReason, "False", "unhealthy Machines wait because as many as allowed are being replaced", Drover, "raise the budget of the MachinePolicy if that takes too long", ""},
			reason{policyv1.NotConnectedReason, "False", "no Machine is evaluated; the message names what cannot be reached", WorkloadAdmin, "make it answer", ""},
			reason{policyv1.InvalidSpecReason, "False", "the field that the message names cannot be used", Operator, "correct it", ""},
			reason{policyv1.ClusterMissingReason, "False", "the Cluster does not exist", Operator, "create the Cluster, or delete the MachineHealthCheck", ""},
		),
		condition(healthCheckKind, policyv1.FailureDomainsHealthyCondition,
			reason{policyv1.FailureDomainsHealthyReason, "True", "every failure domain has a healthy Machine", Nobody, "", ""},
			reason{policyv1.FailureDomainDownReason, "False", "no Machine in the failure domains of the message is healthy, so none of them is replaced", CloudOwner, "check the failure domain; the annotation " + clusterv1.RemediateMachineAnnotation + " replaces a Machine nevertheless", ""},
		),
		condition(healthCheckKind, policyv1.TargetsExclusiveCondition,
			reason{policyv1.TargetsExclusiveReason, "True", "no older check selects any of the same Machines", Nobody, "", ""},
			reason{policyv1.TargetsOverlapReason, "False", "the older checks in the message are responsible for some of the selected Machines", Operator, "narrow one of the selectors", ""},
		),
		paused(healthCheckKind),
	)
}

func machinePolicy() []Entry {
	return concat(
		condition(policyKind, policyv1.ReadyCondition,
			reason{policyv1.InForceReason, "True", "every selected object follows the policy", Nobody, "", ""},
			reason{policyv1.NothingSelectedReason, "True", "the selector selects nothing", Nobody, "label the MachineDeployments that are to follow it: the labels of their templates do not count", ""},
			reason{policyv1.OverriddenReason, "False", "an older policy selects some of the objects too, and is in force for them", Operator, "narrow one of the selectors, or delete one of the policies", ""},
			reason{policyv1.InvalidReason, "False", "a field cannot be read; the message names it", Operator, "correct it", ""},
		),
		condition(policyKind, policyv1.ConflictCondition,
			reason{policyv1.NoConflictReason, "False", "no other policy selects any of the same objects", Nobody, "", ""},
			reason{policyv1.SelectedTwiceReason, "True", "the policies in the message select some of the same objects; the oldest is in force for those", Operator, "narrow one of the selectors, or delete one of the policies", ""},
		),
	)
}
