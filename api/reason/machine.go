// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package reason

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
)

const machineKind = "Machine"

func machine() []Entry {
	return concat(machineSummary(), machineObjects(), machineNode(), machineDeleting(), machineHealth(), paused(machineKind),
		condition(machineKind, clusterv1.PausedCondition,
			reason{droverpolicyv1.ClaimedElsewhereReason, "True", "another management cluster acts on this Machine, so this one does nothing", Operator,
				"see the condition " + droverpolicyv1.ManagementClaimedCondition + " of the Cluster", "kubectl drover why cluster/{cluster} --namespace {namespace}"}))
}

func machineSummary() []Entry {
	return concat(
		condition(machineKind, clusterv1.MachineAvailableCondition,
			reason{clusterv1.MachineAvailableReason, "True", "the Machine has been ready for spec.minReadySeconds", Nobody, "", ""},
			reason{clusterv1.MachineNotReadyReason, "False", "the Machine is not ready", Operator, "see the condition " + clusterv1.MachineReadyCondition, ""},
			reason{clusterv1.MachineWaitingForMinReadySecondsReason, "False", "the Machine is ready, and not for spec.minReadySeconds yet", Drover, "", ""},
		),
		condition(machineKind, clusterv1.MachineReadyCondition,
			reason{clusterv1.MachineReadyReason, "True", "Node, instance and bootstrap data are as they should be", Nobody, "", ""},
			reason{clusterv1.MachineNotReadyReason, "False", "one of the conditions that the message names is not as it should be, or the Cluster does not exist", Operator, "see that condition; create the Cluster, or " + DeleteMachine, "kubectl drover why machine/{name} --namespace {namespace}"},
			reason{clusterv1.MachineReadyUnknownReason, "Unknown", "one of the conditions that the message names is not known", Operator, "see that condition", "kubectl drover why machine/{name} --namespace {namespace}"},
			reason{clusterv1.MachineReadyInternalErrorReason, "Unknown", "the conditions cannot be summarized; the message has the error", Installer, "report it with the message", ""},
		),
		condition(machineKind, clusterv1.MachineUpToDateCondition,
			reason{clusterv1.MachineUpToDateReason, "True", "its MachineSet has the template of the MachineDeployment", Nobody, "", ""},
			reason{clusterv1.MachineNotUpToDateReason, "False", "its MachineSet has an older template; the message has the difference", Drover, "the rollout replaces it", ""},
		),
		condition(machineKind, clusterv1.MachineUpdatingCondition,
			reason{clusterv1.MachineNotUpdatingReason, "False", "Machines are replaced, never updated in place", Nobody, "", ""},
		),
	)
}

func machineObjects() []Entry {
	shared := func(object string) []reason {
		return []reason{
			{clusterv1.ReadyReason, "True", object + " is done", Nobody, "", ""},
			{clusterv1.NotReadyReason, "False", object + " reports no condition, and is not done", Installer, "see whether the manager of " + object + " runs and reconciles it", "kubectl drover check"},
			{clusterv1.ReadyUnknownReason, "Unknown", object + " reports an unknown state without a reason", Operator, "see " + object, ""},
			{clusterv1.ObjectDoesNotExistReason, "False", object + " does not exist; if it is still needed, the MachineSet creates it again", Operator, "create it, or " + DeleteMachine + " if no MachineSet owns it", ""},
			{clusterv1.InternalErrorReason, "Unknown", object + " cannot be read: the message names the missing CRD, label or permission", Installer, "install the provider, or grant what the message names", "kubectl drover check"},
			{clusterv1.InvalidConditionReportedReason, "Unknown", object + " reports a condition with a status that does not exist", Installer, "report it to the provider", ""},
			{droverpolicyv1.ForeignObjectReason, "False", object + " belongs to another Machine or owner: it is not used, drained or deleted", Operator, "refer to an object of this Machine, or " + DeleteMachine, "kubectl delete machine.cluster.x-k8s.io {name} --namespace {namespace}"},
			{droverpolicyv1.InvalidReferenceReason, "False", "the reference names a template, or a kind of Cluster API itself", Operator, "correct the reference; deleting the Machine does not change that object", ""},
		}
	}
	return concat(
		condition(machineKind, clusterv1.MachineBootstrapConfigReadyCondition, append(shared("the BootstrapConfig"),
			reason{clusterv1.MachineBootstrapDataSecretProvidedReason, "True", "there is no BootstrapConfig, because the user provides the Secret", Nobody, "", ""},
			reason{clusterv1.ObjectDeletedReason, "False", "the BootstrapConfig is gone, as a deletion of the Machine wants it", Drover, "", ""},
		)...),
		condition(machineKind, clusterv1.MachineInfrastructureReadyCondition, append(shared("the InfraMachine"),
			reason{clusterv1.ObjectDeletedReason, "False", "the InfraMachine was deleted, and its instance with it", Operator, DeleteMachine + "; its MachineSet, if it has one, creates another", "kubectl delete machine.cluster.x-k8s.io {name} --namespace {namespace}"},
		)...),
	)
}

const syncPermission = "permit what the message has: a role or an admission policy of the workload cluster refuses it, or the Machine has a label, annotation or taint that is not valid there"

func machineNode() []Entry {
	both := []reason{
		{clusterv1.MachineNodeInspectionFailedReason, "Unknown", "the Machine waits for the providerID, for a Node that has it, or for the first connection to the workload cluster", Drover,
			"a host boots and joins within minutes; after that see what its console says", "kubectl drover logs machine/{name} --namespace {namespace}"},
		{clusterv1.MachineNodeDeletedReason, "False", "the Node was deleted while the Machine exists", Operator, DeleteMachine + ", unless its kubelet registers the Node again", "kubectl delete machine.cluster.x-k8s.io {name} --namespace {namespace}"},
		{clusterv1.MachineNodeDoesNotExistReason, "Unknown", "there never was a Node, and the Machine is being deleted", Drover, "", ""},
		{clusterv1.MachineNodeConnectionDownReason, "Unknown", "there is no connection to the workload cluster; the message has the reason", WorkloadAdmin, "make the API server of the workload cluster answer", "kubectl drover why cluster/{cluster} --namespace {namespace}"},
		{clusterv1.MachineNodeInternalErrorReason, "Unknown", "it is not certain which Node is that of the Machine: two have its providerID, or the one that has it belongs to another Machine", Operator, "delete the Node that is wrong; the message names it", ""},
	}
	return concat(
		condition(machineKind, clusterv1.MachineNodeReadyCondition, append([]reason{
			{clusterv1.MachineNodeReadyReason, "True", "the Node is ready", Nobody, "", ""},
			{clusterv1.MachineNodeNotReadyReason, "False", "the kubelet reports that the Node is not ready; the message has why", WorkloadAdmin, "see the message: often the network plugin or the container runtime; " + HealthCheckReplaces, ""},
			{clusterv1.MachineNodeReadyUnknownReason, "Unknown", "the kubelet does not report", CloudOwner, "see whether the instance runs and reaches the API server; " + HealthCheckReplaces, ""},
		}, both...)...),
		condition(machineKind, clusterv1.MachineNodeHealthyCondition, append([]reason{
			{clusterv1.MachineNodeHealthyReason, "True", "the Node is ready, and has no pressure of memory, disk or PIDs", Nobody, "", ""},
			{clusterv1.MachineNodeNotHealthyReason, "False", "the Node is not ready, or under pressure of memory, disk or PIDs; the message has why", WorkloadAdmin, "see the message; " + HealthCheckReplaces, ""},
			{clusterv1.MachineNodeHealthUnknownReason, "Unknown", "the kubelet does not report", CloudOwner, "see whether the instance runs and reaches the API server; " + HealthCheckReplaces, ""},
		}, both...)...),
		condition(machineKind, droverpolicyv1.NodeSyncedCondition,
			reason{droverpolicyv1.NodeInitializationRefusedReason, "False", "the workload cluster does not accept the first labels, annotations and taints of the Node, which keeps the taint " + clusterv1.NodeUninitializedTaint.Key + " until then, so that no pod is scheduled to it", WorkloadAdmin, syncPermission + "; where a webhook or the API server fails, repair that", ""},
			reason{droverpolicyv1.NodeSyncRefusedReason, "False", "the workload cluster refuses the labels, annotations and taints that the Machine has for its Node, so that those of the Node are outdated", WorkloadAdmin, syncPermission, ""},
		),
	)
}

func machineDeleting() []Entry {
	return condition(machineKind, clusterv1.MachineDeletingCondition,
		reason{clusterv1.MachineNotDeletingReason, "False", "the Machine is not being deleted", Nobody, "", ""},
		reason{clusterv1.MachineDeletingReason, "True", "the deletion is about to start", Drover, "", ""},
		reason{clusterv1.MachineDeletingWaitingForPreDrainHookReason, "True", "the drain waits until the owners of the annotations in the message remove them", HookOwner, "remove the annotation once the Node may be drained", ""},
		reason{clusterv1.MachineDeletingDrainingNodeReason, "True", "pods are being evicted from the Node; the message has which are awaited and why", WorkloadAdmin,
			"make the workload disruptable; to go on without, set " + OnMachine(clusterv1.ExcludeNodeDrainingAnnotation), "kubectl drover drain --dry-run machine/{name} --namespace {namespace}"},
		reason{clusterv1.MachineDeletingWaitingForVolumeDetachReason, "True", "volumes are still attached to the Node; the message names them, or the Pods that still use them", Drover,
			"where that takes more than minutes, delete the Pods that were not evicted, and see what keeps those that are being deleted, or see the CSI driver of the workload cluster; to go on without, " + DiskCaution + ", set " + OnMachine(clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation), ""},
		reason{clusterv1.MachineDeletingWaitingForPreTerminateHookReason, "True", "the deletion of the instance waits until the owners of the annotations in the message remove them", HookOwner, "remove the annotation once the instance may be deleted", ""},
		reason{clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason, "True", "the provider is deleting the instance, or its object cannot be read", Drover, "see the condition Ready of the InfraMachine, and whether the provider runs", "kubectl drover check"},
		reason{clusterv1.MachineDeletingWaitingForBootstrapDeletionReason, "True", "the BootstrapConfig is being deleted, or cannot be read", Drover, "see whether the bootstrap provider runs", "kubectl drover check"},
		reason{clusterv1.MachineDeletingDeletingNodeReason, "True", "the workload cluster refuses the deletion of the Node", WorkloadAdmin, "permit it, or wait for spec.deletion.nodeDeletionTimeoutSeconds", ""},
		reason{clusterv1.MachineDeletingDeletionCompletedReason, "True", "the deletion is about to end", Drover, "", ""},
	)
}

func machineHealth() []Entry {
	unhealthy := "the MachineHealthCheck has it replaced, or the message has what blocks that"
	return concat(
		condition(machineKind, clusterv1.MachineHealthCheckSucceededCondition,
			reason{clusterv1.MachineHealthCheckSucceededReason, "True", "a MachineHealthCheck finds the Machine healthy", Nobody, "", ""},
			reason{clusterv1.MachineHealthCheckNodeStartupTimeoutReason, "False", "no Node has joined within the time that the MachineHealthCheck permits", Drover, unhealthy, "kubectl drover logs machine/{name} --namespace {namespace}"},
			reason{clusterv1.MachineHealthCheckNodeDeletedReason, "False", "the Node was deleted", Drover, unhealthy, ""},
			reason{clusterv1.MachineHealthCheckUnhealthyNodeReason, "False", "a condition of the Node has been bad for longer than the MachineHealthCheck permits", Drover, unhealthy, ""},
			reason{clusterv1.MachineHealthCheckUnhealthyMachineReason, "False", "a condition of the Machine has been bad for longer than the MachineHealthCheck permits", Drover, unhealthy, ""},
			reason{clusterv1.MachineHealthCheckHasRemediateAnnotationReason, "False", "the annotation " + clusterv1.RemediateMachineAnnotation + " asks for a replacement", Drover, unhealthy, ""},
		),
		condition(machineKind, clusterv1.MachineOwnerRemediatedCondition,
			reason{clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, "False", "the Machine is marked for replacement by its owner", Drover, "", ""},
			reason{clusterv1.MachineSetMachineRemediationDeferredReason, "False", "the MachineSet waits before it replaces the Machine; the message has the limit or freeze", Operator, "find out what makes the Machines unhealthy; this one is replaced once the limit of the message permits it, and at once if it is deleted", "kubectl drover describe cluster/{cluster} --namespace {namespace}"},
			reason{clusterv1.MachineSetMachineCannotBeRemediatedReason, "False", "its MachineSet is superseded, and the rollout replaces the Machine; or the API server refuses to delete it, and the message has why", Drover, "where the message has a refusal: change the admission policy or permission that it names", ""},
			reason{clusterv1.MachineSetMachineRemediationMachineDeletingReason, "False", "the Machine is being replaced", Drover, "", ""},
		),
		condition(machineKind, clusterv1.MachineExternallyRemediatedCondition,
			reason{clusterv1.MachineExternallyRemediatedWaitingForRemediationReason, "False", "the request for an external remediation exists", Drover, "see the object of the same name and of the kind of the template", ""},
			reason{clusterv1.MachineExternallyRemediatedRemediationTemplateNotFoundReason, "False", "the template of the external remediation does not exist", Operator, "create the template, or correct spec.remediation.templateRef of the MachineHealthCheck", ""},
			reason{clusterv1.MachineExternallyRemediatedRemediationRequestCreationFailedReason, "False", "the request for an external remediation could not be created; the message has why", Operator, "correct what the message names", ""},
		),
	)
}
