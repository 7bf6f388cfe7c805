// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package reason

import (
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
)

// concat joins the entries of several conditions.
func concat(parts ...[]Entry) []Entry { return slices.Concat(parts...) }

const clusterKind = "Cluster"

func cluster() []Entry {
	return concat(clusterItself(), clusterConnection(), clusterControlPlaneMachines(), clusterWorkers(), clusterProgress(), annotationsValid(clusterKind), paused(clusterKind))
}

func clusterItself() []Entry {
	return concat(
		condition(clusterKind, clusterv1.ClusterAvailableCondition,
			reason{clusterv1.ClusterAvailableReason, "True", "the workload cluster can be used, and its workers are available", Nobody, "", ""},
			reason{clusterv1.ClusterNotAvailableReason, "False", "one of the conditions that the message names is not as it should be", Operator, "see that condition", "kubectl drover why cluster/{name} --namespace {namespace}"},
			reason{clusterv1.ClusterAvailableUnknownReason, "Unknown", "one of the conditions that the message names is not known", Operator, "see that condition", "kubectl drover why cluster/{name} --namespace {namespace}"},
			reason{clusterv1.ClusterAvailableInternalErrorReason, "Unknown", "the conditions cannot be summarized; the message has the error", Installer, "report it with the message", ""},
		),
		condition(clusterKind, clusterv1.ClusterInfrastructureReadyCondition, slices.Concat([]reason{
			{clusterv1.ReadyReason, "True", "the infrastructure is ready", Nobody, "", ""},
			{clusterv1.NotReadyReason, "False", "the InfraCluster reports no condition, and is not done", Operator, "see the InfraCluster: its provider reports there what it waits for", ""},
			{clusterv1.ReadyUnknownReason, "Unknown", "the InfraCluster reports an unknown state without a reason", Operator, "see the InfraCluster", ""},
		}, provider("the InfraCluster"), []reason{
			{droverpolicyv1.NoInfrastructureReferenceReason, "True", "the Cluster refers to no infrastructure, which counts as ready", Nobody, "", ""},
		})...),
		condition(clusterKind, clusterv1.ClusterControlPlaneInitializedCondition,
			reason{clusterv1.ClusterControlPlaneInitializedReason, "True", "the workload cluster has answered once", Nobody, "", ""},
			reason{clusterv1.ClusterControlPlaneNotInitializedReason, "False", "the workload cluster has not answered yet", Drover, "see the condition " + clusterv1.ClusterRemoteConnectionProbeCondition, ""},
		),
		condition(clusterKind, clusterv1.ClusterControlPlaneAvailableCondition, append([]reason{
			{clusterv1.ClusterControlPlaneAvailableReason, "True", "the control plane can be used", Nobody, "", ""},
			{clusterv1.ClusterControlPlaneNotAvailableReason, "False", "the control plane is not available, or not initialized yet", Operator,
				"see the control plane object; without one, see the condition " + clusterv1.ClusterRemoteConnectionProbeCondition, ""},
			{clusterv1.AvailableUnknownReason, "Unknown", "the control plane object reports that it is not known whether it is available", Operator, "see the control plane object", ""},
		}, provider("the control plane object")...)...),
		condition(clusterKind, clusterv1.ClusterDeletingCondition,
			reason{clusterv1.ClusterNotDeletingReason, "False", "the Cluster is not being deleted", Nobody, "", ""},
			reason{clusterv1.ClusterDeletingWaitingForWorkersDeletionReason, "True", "the deletion waits for the workers", Drover, "ask why of the Machines that are left", "kubectl drover describe cluster/{name} --namespace {namespace}"},
			reason{clusterv1.ClusterDeletingWaitingForControlPlaneDeletionReason, "True", "the deletion waits for the control plane and its Machines", Operator, "see the control plane object: its provider deletes it", ""},
			reason{clusterv1.ClusterDeletingWaitingForInfrastructureDeletionReason, "True", "the deletion waits for the InfraCluster", Operator, "see the InfraCluster: its provider deletes it", ""},
			blocked("the API server refuses to delete what belongs to the Cluster, or something that belongs to it has the label of another manager"),
		),
	)
}

// provider are the reasons of a condition of a Cluster that mirrors an object of a provider, where there is nothing to mirror.
func provider(object string) []reason {
	return []reason{
		{clusterv1.ObjectDoesNotExistReason, "False", object + " does not exist", Operator, "create it, or correct the reference of the Cluster", ""},
		{clusterv1.ObjectDeletedReason, "False", object + " existed and was deleted", Operator, "restore it, or delete the Cluster", ""},
		{clusterv1.InternalErrorReason, "Unknown", object + " cannot be read: the message names the missing CRD, label or permission, or the label that makes it another installation's", Installer, "install the provider, or change what the message names", ""},
		{clusterv1.InvalidConditionReportedReason, "Unknown", object + " reports a condition with a status that does not exist", Installer, "report it to the provider", ""},
		{droverpolicyv1.ForeignObjectReason, "False", object + " belongs to another owner, and is not used", Operator, "refer to an object of this Cluster", ""},
		{droverpolicyv1.InvalidReferenceReason, "False", "the reference names a kind that is not allowed there", Operator, "correct the reference", ""},
	}
}

func clusterConnection() []Entry {
	return concat(
		condition(clusterKind, clusterv1.ClusterRemoteConnectionProbeCondition,
			reason{clusterv1.ClusterRemoteConnectionProbeSucceededReason, "True", "the API server of the workload cluster answers", Nobody, "", ""},
			reason{clusterv1.ClusterRemoteConnectionProbeFailedReason, "False", "the API server of the workload cluster is not connected; meanwhile nothing is created, replaced or drained for it", WorkloadAdmin,
				"make the API server answer, or renew the Secret {cluster}-kubeconfig, as the message has it", "kubectl get secret {cluster}-kubeconfig --namespace {namespace}"},
		),
		condition(clusterKind, droverpolicyv1.ManagementClaimedCondition,
			reason{droverpolicyv1.ClaimedReason, "True", "this management cluster acts on the workload cluster", Nobody, "", ""},
			reason{droverpolicyv1.NotClaimedYetReason, "Unknown", "the workload cluster has not been reached since the controller started, or its claim could not be written; nothing is created, replaced or deleted until then", Drover, "see the condition " + clusterv1.ClusterRemoteConnectionProbeCondition, ""},
			reason{droverpolicyv1.ClaimedElsewhereReason, "False", "another management cluster acts on the workload cluster, so this one does nothing", Operator,
				"turn off the management cluster that is not to act, or pause the Cluster there, and delete nothing in a copy: its infrastructure machines have the instances of its original; if the other one is lost for good, take the claim over as the message has it", ""},
			reason{droverpolicyv1.ClaimForbiddenReason, "False", "the user of the kubeconfig may not read and write the Lease of the claim", WorkloadAdmin,
				"apply machine-controller/config/workload in the workload cluster", ""},
		),
	)
}

func clusterWorkers() []Entry {
	return concat(
		condition(clusterKind, clusterv1.ClusterWorkersAvailableCondition,
			reason{clusterv1.ClusterWorkersAvailableReason, "True", "all MachineDeployments are available", Nobody, "", ""},
			reason{clusterv1.ClusterWorkersAvailableNoWorkersReason, "True", "there are no MachineDeployments", Nobody, "", ""},
			reason{clusterv1.ClusterWorkersNotAvailableReason, "False", "MachineDeployments are not available; the message names them", Operator, "ask why of one of them", "kubectl drover describe cluster/{name} --namespace {namespace}"},
			reason{clusterv1.ClusterWorkersAvailableUnknownReason, "Unknown", "it is not known whether MachineDeployments are available", Drover, "", ""},
			reason{clusterv1.ClusterWorkersAvailableInternalErrorReason, "Unknown", "the conditions of the MachineDeployments cannot be merged; the message has the error", Installer, "report it with the message", ""},
		),
		condition(clusterKind, clusterv1.ClusterWorkerMachinesReadyCondition,
			reason{clusterv1.ClusterWorkerMachinesReadyReason, "True", "all worker Machines are ready", Nobody, "", ""},
			reason{clusterv1.ClusterWorkerMachinesReadyNoReplicasReason, "True", "there are no worker Machines", Nobody, "", ""},
			reason{clusterv1.ClusterWorkerMachinesNotReadyReason, "False", "worker Machines are not ready; the message names them", Operator, "ask why of one of them", "kubectl drover describe cluster/{name} --namespace {namespace}"},
			reason{clusterv1.ClusterWorkerMachinesReadyUnknownReason, "Unknown", "it is not known whether worker Machines are ready; the message names one", Drover, "", ""},
		),
		condition(clusterKind, clusterv1.ClusterWorkerMachinesUpToDateCondition,
			reason{clusterv1.ClusterWorkerMachinesUpToDateReason, "True", "all worker Machines have the newest template", Nobody, "", ""},
			reason{clusterv1.ClusterWorkerMachinesUpToDateNoReplicasReason, "True", "there are no worker Machines", Nobody, "", ""},
			reason{clusterv1.ClusterWorkerMachinesNotUpToDateReason, "False", "worker Machines have an older template", Drover, "the rollout replaces them", ""},
			reason{clusterv1.ClusterWorkerMachinesUpToDateUnknownReason, "Unknown", "worker Machines have no template that they could be compared with, as those without a MachineDeployment, or were not compared yet", Drover, "", ""},
		),
	)
}

// clusterControlPlaneMachines are about Machines whose provider manages the control plane. UpToDate is written by that provider.
func clusterControlPlaneMachines() []Entry {
	return concat(
		condition(clusterKind, clusterv1.ClusterControlPlaneMachinesReadyCondition,
			reason{clusterv1.ClusterControlPlaneMachinesReadyReason, "True", "all Machines of the control plane are ready", Nobody, "", ""},
			reason{clusterv1.ClusterControlPlaneMachinesReadyNoReplicasReason, "True", "the control plane has no Machines", Nobody, "", ""},
			reason{clusterv1.ClusterControlPlaneMachinesNotReadyReason, "False", "Machines of the control plane are not ready; the message names one", Operator, "ask why of that Machine, and see the control plane object", ""},
			reason{clusterv1.ClusterControlPlaneMachinesReadyUnknownReason, "Unknown", "it is not known whether Machines of the control plane are ready; the message names one", Operator, "ask why of that Machine, and see the control plane object", ""},
		),
		condition(clusterKind, clusterv1.ClusterControlPlaneMachinesUpToDateCondition,
			reason{clusterv1.ClusterControlPlaneMachinesUpToDateReason, "True", "all Machines of the control plane are as its object has it", Nobody, "", ""},
			reason{clusterv1.ClusterControlPlaneMachinesUpToDateNoReplicasReason, "True", "the control plane has no Machines", Nobody, "", ""},
			reason{clusterv1.ClusterControlPlaneMachinesNotUpToDateReason, "False", "Machines of the control plane differ from its object; its provider replaces them", Operator, "see the control plane object", ""},
			reason{clusterv1.ClusterControlPlaneMachinesUpToDateUnknownReason, "Unknown", "the provider of the control plane does not report whether a Machine is up to date", Operator, "see the control plane object, if its provider should report it", ""},
		),
	)
}

// clusterProgress are about the control plane and the workers together.
func clusterProgress() []Entry {
	unknown := func(name string) reason {
		return reason{name, "Unknown", "the control plane object reports that it is not known, or cannot be read; the message has the cause", Operator, "see the control plane object", ""}
	}
	return concat(
		condition(clusterKind, clusterv1.ClusterRollingOutCondition,
			reason{clusterv1.ClusterNotRollingOutReason, "False", "neither the control plane nor a MachineDeployment rolls out", Nobody, "", ""},
			reason{clusterv1.ClusterRollingOutReason, "True", "the control plane or a MachineDeployment rolls out; the message has what it waits for", Drover, "", ""},
			unknown(clusterv1.ClusterRollingOutUnknownReason),
		),
		condition(clusterKind, clusterv1.ClusterScalingUpCondition,
			reason{clusterv1.ClusterNotScalingUpReason, "False", "there are as many Machines as wanted", Nobody, "", ""},
			reason{clusterv1.ClusterScalingUpReason, "True", "Machines are missing; the message has what blocks their creation, if anything does", Drover, "", ""},
			unknown(clusterv1.ClusterScalingUpUnknownReason),
		),
		condition(clusterKind, clusterv1.ClusterScalingDownCondition,
			reason{clusterv1.ClusterNotScalingDownReason, "False", "there are no surplus Machines", Nobody, "", ""},
			reason{clusterv1.ClusterScalingDownReason, "True", "surplus Machines are being deleted", Drover, "", ""},
			unknown(clusterv1.ClusterScalingDownUnknownReason),
		),
		condition(clusterKind, clusterv1.ClusterRemediatingCondition,
			reason{clusterv1.ClusterNotRemediatingReason, "False", "no unhealthy Machine is being replaced or waits for that", Nobody, "", ""},
			reason{clusterv1.ClusterRemediatingReason, "True", "unhealthy Machines are being replaced, or wait for that", Drover, "", ""},
			reason{clusterv1.ClusterRemediatingInternalErrorReason, "Unknown", "a MachineDeployment or MachineSet reports that it is not known whether Machines are being replaced", Drover, "", ""},
		),
	)
}
