// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package reason

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
)

const bootstrapKind = "BootstrapConfig"

func bootstrapConfig() []Entry {
	return concat(
		condition(bootstrapKind, clusterv1.ReadyCondition, append([]reason{
			{bootstrapv1.DataSecretAvailableReason, "True", "the bootstrap data exists", Nobody, "", ""},
			{bootstrapv1.WaitingForMachineReason, "False", "no Machine owns it as controller, or its Machine is being deleted", Drover, "delete it if no Machine refers to it", ""},
			{bootstrapv1.WaitingForClusterReason, "False", "the Cluster, its infrastructure or its endpoint is missing; the message has which", Operator, "create or complete the Cluster as the message has it", ""},
			{bootstrapv1.InvalidSpecReason, "False", "a field cannot be made into bootstrap data; the message begins with it", Operator, "make a BootstrapConfigTemplate without the error, refer to it, and " + DeleteMachine, ""},
			{bootstrapv1.WaitingForProfileReason, "False", "the NodeProfile does not exist in this namespace, or belongs to another manager", Operator, "create it, or label it as the message has it", ""},
			{bootstrapv1.ReleaseUnavailableReason, "False", "the NodeProfile has no binaries for the version of the Machine, or their checksums cannot be read", Operator, "add the version to releases.versions of the NodeProfile, or correct the source of the checksums", ""},
			{bootstrapv1.NotMadeByKubeadmReason, "False", "spec.join.method is Kubeadm, and the workload cluster lacks what kubeadm join reads from it", Operator, "use KubeletTLSBootstrap", ""},
			{bootstrapv1.DataSecretConflictReason, "False", "a Secret of another owner has the name of the data Secret", Operator, "delete or rename that Secret", ""},
		}, bootstrapConnection()...)...),
		condition(bootstrapKind, bootstrapv1.TokenReadyCondition, append([]reason{
			{bootstrapv1.TokenManagedReason, "True", "the bootstrap token is renewed until the Node has joined, and then deleted", Nobody, "", ""},
			{bootstrapv1.DataSecretLostReason, "False", "the data Secret is gone, so that the token cannot be renewed", Operator, DeleteMachine + " if its Node does not join", ""},
			{bootstrapv1.WaitingForMachineReason, "False", "its Machine is being deleted, or no Machine owns it", Drover, "", ""},
			{bootstrapv1.WaitingForClusterReason, "False", "the Cluster is not as it was when the data was made; the message has what is missing", Operator, "create or complete the Cluster as the message has it", ""},
		}, bootstrapConnection()...)...),
		paused(bootstrapKind),
	)
}

// bootstrapConnection are the reasons that concern requests to either cluster.
func bootstrapConnection() []reason {
	return []reason{
		{bootstrapv1.KubeconfigInvalidReason, "False", "the Secret {cluster}-kubeconfig is missing or cannot be used; the message has why", Operator, "create or renew the Secret", "kubectl get secret {cluster}-kubeconfig --namespace {namespace}"},
		{bootstrapv1.ClusterUnreachableReason, "False", "the API server of the workload cluster does not answer, or is overloaded", WorkloadAdmin, "make it answer; it is tried again by itself", "kubectl drover why cluster/{cluster} --namespace {namespace}"},
		{bootstrapv1.ClusterForbiddenReason, "False", "the workload cluster refuses requests that are needed for machines to join; the message has its answer", WorkloadAdmin, "apply bootstrap/config/workload there, renew the kubeconfig, or permit the request in the policy that refuses it", ""},
		{bootstrapv1.ClaimedElsewhereReason, "False", "another management cluster acts on the workload cluster", Operator, "see the condition ManagementClaimed of the Cluster", "kubectl drover why cluster/{cluster} --namespace {namespace}"},
		{bootstrapv1.RequestRefusedReason, "False", "the management cluster refuses a request, for a quota of the namespace, a policy or a missing permission; the message has it", Installer, "raise the quota, change the policy, or grant the permission; it is tried again by itself", "kubectl get resourcequota --namespace {namespace}"},
	}
}
