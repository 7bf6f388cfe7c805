// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/bootstrap/internal/render"
	"drover.io/runtime/kubeconfig"
	"drover.io/runtime/predicates"
	"drover.io/runtime/requesterror"
)

// waiting ends a reconcile: something is missing, and the condition has what is awaited and from whom.
type waiting struct {
	reason, message string

	// wrong means that a user must change something, rather than that something does not exist yet.
	wrong bool

	// after is when to reconcile again; zero waits for a change of an object that is watched.
	after time.Duration
}

// Error is for logs; users read the condition.
func (w *waiting) Error() string { return w.reason + ": " + w.message }

// poll is how often to read what cannot be watched.
const poll = 20 * time.Second

func waitForMachine() error {
	return &waiting{reason: bootstrapv1.WaitingForMachineReason, message: "waiting for a Machine to become the controller owner of this BootstrapConfig"}
}

func machineDeleted(name string) error {
	return &waiting{reason: bootstrapv1.WaitingForMachineReason, message: fmt.Sprintf("Machine %q is being deleted and needs no bootstrap data", name)}
}

func waitForCluster(name string) error {
	return &waiting{reason: bootstrapv1.WaitingForClusterReason, message: fmt.Sprintf("waiting for Cluster %q to exist", name)}
}

func waitForClusterLabel(name string, watch predicates.WatchFilter) error {
	return &waiting{wrong: true, reason: bootstrapv1.WaitingForClusterReason, message: fmt.Sprintf("Cluster %q does not have the label %s: %q, so another manager connects to it: label the Cluster, too", name, clusterv1.WatchLabel, string(watch)), after: poll}
}

func waitForInfrastructure(cluster string) error {
	return &waiting{reason: bootstrapv1.WaitingForClusterReason, message: fmt.Sprintf("waiting for the infrastructure of Cluster %q: its status.initialization.infrastructureProvisioned is not true", cluster)}
}

func waitForEndpoint(cluster *clusterv1.Cluster) error {
	missing := "spec.controlPlaneEndpoint"
	switch endpoint := cluster.Spec.ControlPlaneEndpoint; {
	case endpoint.Host != "":
		missing += ".port"
	case endpoint.Port != 0:
		missing += ".host"
	}
	return &waiting{reason: bootstrapv1.WaitingForClusterReason, message: fmt.Sprintf("waiting for %s of Cluster %q", missing, cluster.Name)}
}

func waitForGarbageCollection(secret string) error {
	return &waiting{reason: bootstrapv1.DataSecretConflictReason, message: fmt.Sprintf("waiting for Secret %q of an earlier BootstrapConfig of this name to be garbage-collected", secret), after: time.Second}
}

func secretConflict(secret string) error {
	return &waiting{wrong: true, reason: bootstrapv1.DataSecretConflictReason, message: fmt.Sprintf("Secret %q exists and does not belong to this BootstrapConfig: delete or rename it", secret), after: poll}
}

func missingReference(field string, ref bootstrapv1.SecretKeyReference) error {
	return &waiting{wrong: true, reason: bootstrapv1.InvalidSpecReason, message: fmt.Sprintf("%s: there is no Secret %q with the key %q in this namespace", field, ref.Name, ref.Key), after: poll}
}

func largeReferences(field string) error {
	return &waiting{wrong: true, reason: bootstrapv1.InvalidSpecReason, message: fmt.Sprintf("%s: the values up to this one, which are taken from Secrets, have more than %d bytes: use smaller ones", field, render.MaxContent), after: poll}
}

// largeSecret is about a Secret that the API server does not take.
func largeSecret(size, words int) error {
	return &waiting{wrong: true, reason: bootstrapv1.InvalidSpecReason, message: fmt.Sprintf("spec.maxSizeBytes: the Secret with the bootstrap data has %d bytes, and no Secret may have more than %d: put less into files and commands; %d bytes are the words of the Secrets in spec.files, which are listed so that the console is quoted without them", size, corev1.MaxSecretSize, words), after: poll}
}

// requestRefused is tried again because nothing reports that a quota was raised or a policy changed.
func requestRefused(err error) error {
	return &waiting{wrong: true, reason: bootstrapv1.RequestRefusedReason, message: requesterror.Truncate("the management cluster refuses a request: " + err.Error()), after: poll}
}

// refused reports whether an API server will refuse the same request until something else is changed.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// invalidSpec is read again because what is invalid may be in a Secret or in the Cluster.
func invalidSpec(err error) error {
	return &waiting{wrong: true, reason: bootstrapv1.InvalidSpecReason, message: requesterror.Truncate(err.Error()), after: poll}
}

func waitForProfile(name string) error {
	return &waiting{reason: bootstrapv1.WaitingForProfileReason, message: fmt.Sprintf("waiting for NodeProfile %q to exist in this namespace", name)}
}

func waitForProfileLabel(name string, watch predicates.WatchFilter) error {
	return &waiting{wrong: true, reason: bootstrapv1.WaitingForProfileReason, message: fmt.Sprintf("NodeProfile %q does not have the label %s: %q, so it belongs to another manager: label the NodeProfile, too", name, clusterv1.WatchLabel, string(watch)), after: poll}
}

func releaseUnavailable(name string, err error, after time.Duration) error {
	return &waiting{wrong: true, reason: bootstrapv1.ReleaseUnavailableReason, message: requesterror.Truncate(fmt.Sprintf("NodeProfile %q: %v", name, err)), after: after}
}

func notMadeByKubeadm(configMap string) error {
	return &waiting{wrong: true, reason: bootstrapv1.NotMadeByKubeadmReason, message: fmt.Sprintf("spec.join.method: kubeadm join needs the ConfigMap %q in the namespace kube-system of the workload cluster, which clusters made by kubeadm have: use KubeletTLSBootstrap", configMap), after: poll}
}

func badKubeconfig(err *kubeconfig.Error) error {
	return &waiting{wrong: true, reason: bootstrapv1.KubeconfigInvalidReason, message: err.Error(), after: poll}
}

func clusterForbidden(message string) error {
	return &waiting{wrong: true, reason: bootstrapv1.ClusterForbiddenReason, message: message, after: poll}
}

func claimedElsewhere(cluster, holder string) error {
	return &waiting{reason: bootstrapv1.ClaimedElsewhereReason, message: requesterror.Truncate(fmt.Sprintf(
		"another management cluster acts on the workload cluster of Cluster %q: its claim is held by %q; the condition ManagementClaimed of the Cluster has how to take it over", cluster, holder)), after: poll}
}

func clusterUnreachable(message string, after time.Duration) error {
	return &waiting{reason: bootstrapv1.ClusterUnreachableReason, message: message, after: max(after, time.Second)}
}

// setWaiting sets the condition of what is missing: of the data as long as there is none, then of the token. It reports
// whether the condition changed.
func setWaiting(config *bootstrapv1.BootstrapConfig, w *waiting) bool {
	kind := clusterv1.ReadyCondition
	if created := config.Status.Initialization.DataSecretCreated; created != nil && *created {
		kind = bootstrapv1.TokenReadyCondition
	}
	return set(config, kind, metav1.ConditionFalse, w.reason, w.message)
}

func setReady(config *bootstrapv1.BootstrapConfig) {
	set(config, clusterv1.ReadyCondition, metav1.ConditionTrue, bootstrapv1.DataSecretAvailableReason, "")
}

func setTokenReady(config *bootstrapv1.BootstrapConfig) {
	set(config, bootstrapv1.TokenReadyCondition, metav1.ConditionTrue, bootstrapv1.TokenManagedReason, "the bootstrap token is renewed until the Node has joined, and then deleted")
}

func setTokenLost(config *bootstrapv1.BootstrapConfig) {
	set(config, bootstrapv1.TokenReadyCondition, metav1.ConditionFalse, bootstrapv1.DataSecretLostReason, "the data Secret is gone or has no token, so that the token cannot be renewed: delete the Machine if its Node does not join")
}

// setPaused sets the Paused condition and returns whether the object is paused.
func setPaused(config *bootstrapv1.BootstrapConfig, cluster *clusterv1.Cluster) bool {
	condition := predicates.PausedCondition(cluster, config, "BootstrapConfig")
	set(config, condition.Type, condition.Status, condition.Reason, condition.Message)
	return condition.Status == metav1.ConditionTrue
}

func set(config *bootstrapv1.BootstrapConfig, kind string, status metav1.ConditionStatus, reason, message string) bool {
	return meta.SetStatusCondition(&config.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: config.Generation,
	})
}

func equalStatus(a, b *bootstrapv1.BootstrapConfigStatus) bool {
	return equality.Semantic.DeepEqual(a, b)
}
