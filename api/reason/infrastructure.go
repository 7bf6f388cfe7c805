// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package reason

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
)

const remediationKind = "RestartRemediation"

func infraMachine() []Entry {
	replace := "kubectl delete machine.cluster.x-k8s.io {name} --namespace {namespace}"
	return concat(
		condition(InfraMachine, clusterv1.ReadyCondition, append([]reason{
			{infrav1.InstanceRunningReason, "True", "the instance runs", Nobody, "", ""},
			{infrav1.WaitingForMachineReason, "False", "no Machine owns this object yet", Drover, "delete it if no Machine refers to it", ""},
			{infrav1.WaitingForClusterReason, "False", "the Cluster does not exist, or its infrastructure is not provisioned", Operator, "create the Cluster, or see its infrastructure", "kubectl drover why cluster/{cluster} --namespace {namespace}"},
			{infrav1.WaitingForManagementClaimReason, "False", "another management cluster acts on the workload cluster, or this one has not claimed it yet, so no instance is created", Operator, "see the condition ManagementClaimed of the Cluster", "kubectl drover why cluster/{cluster} --namespace {namespace}"},
			{infrav1.WaitingForBootstrapReason, "False", "the Machine does not name its bootstrap data yet", Drover, "see the condition BootstrapConfigReady of the Machine", ""},
			{infrav1.BootstrapDataInvalidReason, "False", "the bootstrap data cannot be read", Operator, "see the Secret that the message names", ""},
			{infrav1.InstancePendingReason, "False", "the instance, or something that it needs, was created and is not ready yet", Drover, "", ""},
			{infrav1.EvictionRequestedReason, "False", "the instance runs, and its host waits for it to be deleted", Operator, DeleteMachine + "; its MachineSet, if it has one, creates another", replace},
			{infrav1.InstanceStoppedReason, "False", "the instance exists and does not run", CloudOwner, "start the instance, or " + DeleteMachine, ""},
			{infrav1.InstanceMissingReason, "False", "the instance was deleted by others; it is not created again", Operator, DeleteMachine + "; its MachineSet, if it has one, creates another", replace},
			{infrav1.ProviderIDNotStoredReason, "False", "the instance exists, and the API server refuses its providerID", Operator, "see the message for what refuses it, as a policy or another Machine with this providerID", ""},
			{infrav1.ClusterUnknownReason, "False", "the object is being deleted and does not name its Cluster, so no instance can be proven to be its own", Operator, "set the label " + clusterv1.ClusterNameLabel + " to the name that the Cluster had", ""},
			{infrav1.IdentityUnknownReason, "False", "the object is being deleted, and neither its annotation nor its providerID identifies its instance", Operator, "set the annotation that the message names", ""},
			{infrav1.DeletingReason, "False", "the instance is being deleted", Drover, "", ""},
		}, cloudErrors(replace)...)...),
		condition(InfraMachine, infrav1.HostJoinedCondition,
			reason{infrav1.JoinedReason, "True", "the host registered its Node", Nobody, "", ""},
			reason{infrav1.HostFailedReason, "False", "the host failed; the message has what the cloud reports", Operator, DeleteMachine + " if it does not recover; its MachineSet, if it has one, creates another", replace},
			reason{infrav1.BootstrapFailedReason, "False", "the bootstrap of the host ended with an error; the message has the step and what the console says", Operator, "correct the configuration that the step uses, and " + DeleteMachine, replace},
			reason{infrav1.BootstrapRunningReason, "False", "a step of the bootstrap takes its time, or is retried; the message has which", Drover, "see what the step needs, as a download or a registration", ""},
			reason{infrav1.BootstrapNotStartedReason, "False", "the console does not show that the bootstrap began", Operator, "see the image, its cloud-init or Ignition, and the network of the instance", "kubectl drover logs machine/{name} --namespace {namespace}"},
			reason{infrav1.KubeletNotJoinedReason, "False", "the bootstrap succeeded, and the kubelet has not registered the Node", Operator, "see whether the host reaches and trusts the API server, and whether its certificate request is approved", "kubectl drover logs machine/{name} --namespace {namespace}"},
			reason{infrav1.ConsoleUnavailableReason, "Unknown False", "the console cannot be read; the message has why", CloudOwner, "permit the account to read the console", ""},
		),
		paused(InfraMachine),
	)
}

// cloudErrors are the reasons for errors of a cloud. replace is the command that helps with what does not pass by itself.
func cloudErrors(replace string) []reason {
	return []reason{
		{infrav1.InvalidConfigurationReason, "False", "the spec cannot work, or the cloud lacks what it names; the message has the field", Operator, "give the cloud what is missing, or make a template without the error, refer to it, and " + DeleteMachine, replace},
		{infrav1.InstanceNotOwnedReason, "False", "the instance belongs to another owner; it is not changed", Operator, DeleteMachine + "; its MachineSet, if it has one, creates another", replace},
		{infrav1.InstanceTagsMissingReason, "False", "the instance lacks ownership tags, so that its owner is not known", CloudOwner, "put back the tags that the message lists; once the Machine is being deleted, the instance may be deleted in the cloud instead", ""},
		{infrav1.AccountMismatchReason, "False", "the credentials lead to another account than the one that the instance is in", Operator, "bring back the credentials of that account", ""},
		{infrav1.UnauthorizedReason, "False", "the cloud refused the credentials", CloudOwner, "renew the credentials, or grant what the message names; it is tried again each minute", ""},
		{infrav1.QuotaExceededReason, "False", "the quota of the account is used up", CloudOwner, "raise the quota, or scale down; it is tried again by itself", ""},
		{infrav1.InsufficientCapacityReason, "False", "the cloud has no capacity for the instance type in the zone", CloudOwner, "wait, or use another instance type or zone; it is tried again by itself", ""},
		{infrav1.RateLimitedReason, "False", "the account calls the cloud too often; it is tried again by itself", Drover, "see what else uses the account if that lasts", ""},
		{infrav1.CloudErrorReason, "False", "the cloud failed in a way that may pass; it is tried again by itself", CloudOwner, "see the status of the cloud if that lasts", ""},
	}
}

func infraMachineTemplate() []Entry {
	return condition(InfraMachineTemplate, clusterv1.ReadyCondition,
		reason{infrav1.ValidReason, "True", "Machines can be created from it", Nobody, "", ""},
		reason{infrav1.ArchitectureMismatchReason, "False", "the instance type cannot run the image", Operator, "make a template of another name with an image and an instance type of one architecture, and refer to it", ""},
		reason{infrav1.InvalidConfigurationReason, "False", "the spec cannot work, or the cloud lacks what it names; the message has the field", Operator, "make a template of another name and refer to it, or give the cloud what is missing", ""},
		reason{infrav1.InstanceNotOwnedReason, "False", "what it names belongs to another owner", Operator, "make a template of another name and refer to it", ""},
		reason{infrav1.AccountMismatchReason, "False", "the credentials lead to another account", Operator, "bring back the credentials of the account", ""},
		reason{infrav1.UnauthorizedReason, "False", "the cloud refused the credentials", CloudOwner, "renew the credentials, or grant what the message names; it is tried again each minute", ""},
		reason{infrav1.QuotaExceededReason, "False", "the quota of the account is used up", CloudOwner, "raise the quota", ""},
		reason{infrav1.InsufficientCapacityReason, "False", "the cloud has no capacity", CloudOwner, "wait, or use another instance type or zone", ""},
		reason{infrav1.RateLimitedReason, "Unknown", "the account calls the cloud too often; it is tried again by itself", Drover, "", ""},
		reason{infrav1.InstancePendingReason, "Unknown", "the cloud is still at work", Drover, "", ""},
		reason{infrav1.CloudErrorReason, "Unknown", "the cloud failed in a way that may pass; it is tried again by itself", CloudOwner, "see the status of the cloud if that lasts", ""},
	)
}

func restartRemediation() []Entry {
	return concat(
		condition(remediationKind, infrav1.ProgressingCondition,
			reason{infrav1.RestartingReason, "True", "the restart is requested from the cloud", Drover, "", ""},
			reason{infrav1.WaitingForHealthReason, "True", "the cloud accepted the restart, and the Machine has until the timeout to become healthy", Drover, "", ""},
			reason{infrav1.MachineNotUnhealthyReason, "False", "no MachineHealthCheck reports the Machine as unhealthy, so it is not restarted", Nobody, "", ""},
			reason{infrav1.MachineDeletingReason, "False", "the Machine, its infrastructure or its Cluster is being deleted", Nobody, "", ""},
			reason{infrav1.ClusterUnreachableReason, "False", "the workload cluster does not answer, so nothing is done until it does", WorkloadAdmin, "make it answer", ""},
			reason{infrav1.ClusterNotClaimedReason, "False", "another management cluster acts on the workload cluster, or this one has not claimed it yet", Operator, "see the condition ManagementClaimed of the Cluster", ""},
			reason{infrav1.ForeignMachineReason, "False", "the Machine or its infrastructure is labelled for another provider's watch filter", Operator, "label both for one provider", ""},
			reason{infrav1.RetriesSpentReason, "False", "handed back: as many restarts as allowed did not help", Drover, "the MachineSet replaces the Machine", ""},
			reason{infrav1.RestartNotSupportedReason, "False", "handed back: the cloud has no restart", Drover, "the MachineSet replaces the Machine", ""},
			reason{infrav1.InstanceMissingReason, "False", "handed back: there is no instance", Drover, "the MachineSet replaces the Machine", ""},
			reason{infrav1.InstanceStoppedReason, "False", "handed back: the instance was stopped", Drover, "the MachineSet replaces the Machine", ""},
			reason{infrav1.InstanceNotOwnedReason, "False", "handed back: the instance belongs to another owner", Drover, "the MachineSet replaces the Machine", ""},
			reason{infrav1.InstanceTagsMissingReason, "False", "the instance lacks ownership tags, so that its owner is not known; tried again within the timeout", CloudOwner, "put back the tags that the message lists", ""},
			reason{infrav1.AccountMismatchReason, "False", "the credentials lead to another account; tried again within the timeout", Operator, "bring back the credentials of that account", ""},
			reason{infrav1.InvalidConfigurationReason, "False", "handed back: the cloud refuses the restart for good", Drover, "the MachineSet replaces the Machine", ""},
			reason{infrav1.UnauthorizedReason, "False", "the cloud refused the credentials; tried again each minute", CloudOwner, "renew the credentials, or grant what the message names", ""},
			reason{infrav1.QuotaExceededReason, "False", "the quota of the account is used up; tried again within the timeout", CloudOwner, "raise the quota", ""},
			reason{infrav1.InsufficientCapacityReason, "False", "the cloud has no capacity; tried again within the timeout", CloudOwner, "wait", ""},
			reason{infrav1.InstancePendingReason, "False", "the instance starts, and is restarted once it runs", Drover, "", ""},
			reason{infrav1.RateLimitedReason, "False", "the account calls the cloud too often; tried again within the timeout", Drover, "", ""},
			reason{infrav1.CloudErrorReason, "False", "the cloud failed in a way that may pass; tried again within the timeout", Drover, "", ""},
		),
		paused(remediationKind),
	)
}
