// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package reason

import (
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// RemoteConnectionProbeMessages are the words with which the message of the condition RemoteConnectionProbe of a Cluster begins while it is
// False: why the workload cluster is not connected.
func RemoteConnectionProbeMessages() []Entry {
	secret := "kubectl get secret {cluster}-kubeconfig --namespace {namespace}"
	return condition(clusterKind, clusterv1.ClusterRemoteConnectionProbeCondition,
		reason{"Connecting", "False", "no attempt to connect to the workload cluster has ended yet", Drover, "", ""},
		reason{"KubeconfigMissing", "False", "there is no Secret with the kubeconfig of the workload cluster", Operator, "create the Secret {cluster}-kubeconfig with the kubeconfig in data.value", ""},
		reason{"KubeconfigUnreadable", "False", "the management cluster does not permit machine-controller to read the Secret with the kubeconfig", Installer, "grant it, or see whether the API server answers", "kubectl drover check"},
		reason{"KubeconfigInvalid", "False", "the Secret holds no kubeconfig that may be used", Operator, "renew the Secret {cluster}-kubeconfig as the message has it", secret},
		reason{"Unreachable", "False", "the API server of the workload cluster does not answer, or not as itself; meanwhile nothing is created, replaced or drained for it", WorkloadAdmin, "make it answer at the address of the message, or put its new address and authority into the Secret {cluster}-kubeconfig", secret},
		reason{"Unauthorized", "False", "the API server of the workload cluster refuses the credentials in the kubeconfig", WorkloadAdmin, "renew the credentials in the Secret {cluster}-kubeconfig", secret},
		reason{"Forbidden", "False", "the user of the kubeconfig lacks permissions in the workload cluster", WorkloadAdmin, "apply machine-controller/config/workload in the workload cluster", ""},
		reason{"NodesTooLarge", "False", "the Nodes of the workload cluster need more memory than its namespace may have", Installer, "delete Nodes that are not needed, or raise the limit that the message names", ""},
		reason{"TooManyNodeEvents", "False", "the Nodes of the clusters in this namespace change faster than they are read", WorkloadAdmin, "find what changes the Nodes so often", ""},
	)
}

// RemoteConnectionProbeMessage returns the entry of the word with which a message begins.
func RemoteConnectionProbeMessage(message string) (Entry, bool) {
	word, _, _ := strings.Cut(message, ":")
	for _, e := range RemoteConnectionProbeMessages() {
		if e.Reason == word {
			return e, true
		}
	}
	return Entry{}, false
}
