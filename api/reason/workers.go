// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package reason

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
)

const (
	deploymentKind = "MachineDeployment"
	setKind        = "MachineSet"
)

func machineDeployment() []Entry {
	return concat(
		condition(deploymentKind, clusterv1.MachineDeploymentAvailableCondition,
			reason{clusterv1.MachineDeploymentAvailableReason, "True", "as many Machines are available as the strategy requires", Nobody, "", ""},
			reason{clusterv1.MachineDeploymentNotAvailableReason, "False", "fewer Machines are available than the strategy requires, or its MachineSets cannot be brought in line; the message has which", Operator, "ask what they wait for", "kubectl drover why machinedeployment/{name} --namespace {namespace}"},
			reason{clusterv1.MachineDeploymentAvailableInternalErrorReason, "Unknown", "the Cluster does not exist", Operator, "create the Cluster, or delete the MachineDeployment", ""},
		),
		condition(deploymentKind, clusterv1.MachineDeploymentRollingOutCondition,
			reason{clusterv1.MachineDeploymentNotRollingOutReason, "False", "no Machines of an older template are left; a message has which change of a MachineSet is refused", Nobody, "", ""},
			reason{clusterv1.MachineDeploymentRollingOutReason, "True", "Machines of an older template are being replaced; the message has what the rollout waits for, and why they are replaced", Drover,
				"wait, or roll back if the new template is wrong", "kubectl drover watch machinedeployment/{name} --namespace {namespace}"},
			blocked("Machines of an older template are left, and cannot be replaced"),
		),
		condition(deploymentKind, droverpolicyv1.ProgressingCondition,
			reason{droverpolicyv1.CompleteReason, "True", "there is nothing left to roll out or to scale up", Nobody, "", ""},
			reason{droverpolicyv1.ProgressingReason, "True", "Machines are on their way, or being replaced", Drover, "", ""},
			reason{droverpolicyv1.ProgressDeadlineExceededReason, "False", "there has been no progress for longer than the policy permits; the message has what is awaited", Operator,
				"see what is awaited, then correct it or roll back", "kubectl drover rollout undo machinedeployment/{name} --namespace {namespace}"},
		),
		condition(deploymentKind, droverpolicyv1.RolledBackCondition,
			reason{droverpolicyv1.RevisionNotKeptReason, "False", "the revision to roll back to does not exist", Operator, "choose one of those that the message lists; the annotation drover.io/revision-history-limit sets how many are kept", "kubectl drover rollout history machinedeployment/{name} --namespace {namespace}"},
			reason{droverpolicyv1.RollbackRefusedReason, "False", "the API server refuses the template of that revision", Operator, "choose another revision, or correct the template by hand", "kubectl drover rollout history machinedeployment/{name} --namespace {namespace}"},
		),
		frozen(deploymentKind, "machinedeployment"), workers(deploymentKind), annotationsValid(deploymentKind), paused(deploymentKind),
	)
}

func machineSet() []Entry {
	return concat(frozen(setKind, "machineset"),
		condition(setKind, clusterv1.MachineSetScalingUpCondition,
			reason{clusterv1.MachineSetScalingUpInternalErrorReason, "Unknown", "the Cluster does not exist", Operator, "create the Cluster, or delete the MachineSet", ""}),
		workers(setKind), annotationsValid(setKind), paused(setKind),
	)
}
