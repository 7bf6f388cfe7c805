// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/nodehost"
	"drover.io/runtime/requesterror"
)

// setNodeConditions reports the Node's health. While the workload cluster cannot be reached, the
// last observed health stays for a grace period and is unknown afterwards. The result is when that
// period ends.
func (r *Reconciler) setNodeConditions(s *state, now time.Time) reconcile.Result {
	if s.machine.Spec.ProviderID != "" && !s.connection.Connected {
		return r.setDisconnected(s, now)
	}
	if node := s.node.object; node != nil {
		conditions.Set(s.machine, nodeReady(node, now))
		conditions.Set(s.machine, nodeHealthy(node))
		return reconcile.Result{}
	}
	setNodeReadyAndHealthy(s.machine, nodeAbsent(s))
	conditions.Delete(s.machine, droverpolicyv1.NodeSyncedCondition)
	return reconcile.Result{}
}

// setDisconnected keeps the conditions until the grace period since the last answer is over. Before the
// control plane is initialized there is no health to report.
func (r *Reconciler) setDisconnected(s *state, now time.Time) reconcile.Result {
	if s.cluster.UID != "" && !isTrue(s.cluster.Status.Initialization.ControlPlaneInitialized) {
		setNodeReadyAndHealthy(s.machine, metav1.Condition{
			Status:  metav1.ConditionUnknown,
			Reason:  clusterv1.MachineNodeInspectionFailedReason,
			Message: "Waiting for Cluster control plane to be initialized. " + disconnectedMessage(s.connection),
		})
		return reconcile.Result{}
	}
	reported := conditions.Has(s.machine, clusterv1.MachineNodeReadyCondition) && conditions.Has(s.machine, clusterv1.MachineNodeHealthyCondition)
	answered := s.connection.LastProbeSuccess
	if answered.IsZero() {
		answered = s.connection.DisconnectedSince // this process has not reached it yet; one before it may have
	}
	if left := r.RemoteConditionsGracePeriod - now.Sub(answered); reported && left > 0 && !answered.IsZero() {
		return reconcile.Result{RequeueAfter: left}
	}
	setNodeReadyAndHealthy(s.machine, metav1.Condition{
		Status:  metav1.ConditionUnknown,
		Reason:  clusterv1.MachineNodeConnectionDownReason,
		Message: disconnectedMessage(s.connection),
	})
	return reconcile.Result{}
}

// disconnectedMessage is why there is no connection to the workload cluster.
func disconnectedMessage(state workload.State) string {
	if state.Message == "" {
		return "Not connected to the workload cluster yet"
	}
	return "Not connected to the workload cluster: " + state.Message
}

// nodeAbsent is the condition while there is no Node to report about.
func nodeAbsent(s *state) metav1.Condition {
	m := s.machine
	switch {
	case isForeignNode(s.node.err), s.node.err != nil && !apierrors.IsNotFound(s.node.err):
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: clusterv1.MachineNodeInternalErrorReason, Message: s.node.err.Error()}
	case m.Status.NodeRef.IsDefined():
		return metav1.Condition{
			Status:  metav1.ConditionFalse,
			Reason:  clusterv1.MachineNodeDeletedReason,
			Message: fmt.Sprintf("Node %s has been deleted", m.Status.NodeRef.Name),
		}
	case s.deleting():
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: clusterv1.MachineNodeDoesNotExistReason, Message: "Node does not exist"}
	case m.Spec.ProviderID != "" && isTrue(m.Status.Initialization.InfrastructureProvisioned):
		return metav1.Condition{
			Status:  metav1.ConditionUnknown,
			Reason:  clusterv1.MachineNodeInspectionFailedReason,
			Message: fmt.Sprintf("Waiting for a Node with spec.providerID %s to exist", m.Spec.ProviderID) + namesake(s) + hostProblem(s),
		}
	}
	return metav1.Condition{
		Status:  metav1.ConditionUnknown,
		Reason:  clusterv1.MachineNodeInspectionFailedReason,
		Message: fmt.Sprintf("Waiting for %s to report spec.providerID", m.Spec.InfrastructureRef.Kind),
	}
}

// namesake is that a Node with the providerID of another instance has a name of the machine, and the way out.
func namesake(s *state) string {
	if s.namesake == nil {
		return ""
	}
	if nodehost.Runs(s.machine, s.namesake) {
		return fmt.Sprintf(". Node %q exists with spec.providerID %q, and is ready with an address of this Machine: its host has registered under another providerID. "+
			"Correct what sets that, the kubelet, a cloud controller manager or a Node that was left over; then drain and delete that Node, and delete this Machine",
			s.namesake.Name, requesterror.Truncate(s.namesake.Spec.ProviderID))
	}
	return fmt.Sprintf(". Node %q exists with spec.providerID %q, which is another instance, so the host may not register: delete that Node if it is left over",
		s.namesake.Name, requesterror.Truncate(s.namesake.Spec.ProviderID))
}

// hostProblem is what the infrastructure provider knows of a host without a Node.
func hostProblem(s *state) string {
	if s.infra.object == nil || s.infra.object.HostProblem() == "" {
		return ""
	}
	return fmt.Sprintf(". %s: %s", s.infra.object.GetKind(), s.infra.object.HostProblem())
}

func setNodeReadyAndHealthy(m *clusterv1.Machine, condition metav1.Condition) {
	for _, kind := range []string{clusterv1.MachineNodeReadyCondition, clusterv1.MachineNodeHealthyCondition} {
		condition.Type = kind
		conditions.Set(m, condition)
	}
}

// nodeReady has of the Node's condition only what the status of a Machine can have: the API of Nodes accepts any status and
// time, and root on the host writes both.
func nodeReady(node *corev1.Node, now time.Time) metav1.Condition {
	ready := metav1.Condition{
		Type:    clusterv1.MachineNodeReadyCondition,
		Status:  metav1.ConditionUnknown,
		Reason:  clusterv1.MachineNodeReadyUnknownReason,
		Message: "* Node.Ready: Condition not yet reported",
	}
	found := nodeCondition(node, corev1.NodeReady)
	if found == nil {
		return ready
	}
	ready.Message = ""
	if at := found.LastTransitionTime; at.Unix() > 0 && !at.After(now) {
		ready.LastTransitionTime = at
	}
	switch found.Status {
	case corev1.ConditionTrue:
		ready.Status, ready.Reason = metav1.ConditionTrue, clusterv1.MachineNodeReadyReason
		return ready
	case corev1.ConditionFalse:
		ready.Status, ready.Reason = metav1.ConditionFalse, clusterv1.MachineNodeNotReadyReason
	}
	if found.Message != "" {
		ready.Message = "* Node.Ready: " + requesterror.Truncate(found.Message)
	}
	return ready
}

// nodeHealthConditions are the Node conditions that health is made of, each with the status that is good.
var nodeHealthConditions = []struct {
	kind corev1.NodeConditionType
	good corev1.ConditionStatus
}{
	{corev1.NodeReady, corev1.ConditionTrue},
	{corev1.NodeMemoryPressure, corev1.ConditionFalse},
	{corev1.NodeDiskPressure, corev1.ConditionFalse},
	{corev1.NodePIDPressure, corev1.ConditionFalse},
}

func nodeHealthy(node *corev1.Node) metav1.Condition {
	var messages []string
	distinct := map[string]bool{}
	var bad, unknown, reported int
	for _, each := range nodeHealthConditions {
		found := nodeCondition(node, each.kind)
		if found == nil {
			unknown++
			messages = append(messages, fmt.Sprintf("* Node.%s: Condition not yet reported", each.kind))
			continue
		}
		if found.Status == each.good {
			continue
		}
		message := requesterror.Truncate(found.Message)
		if message == "" {
			message = fmt.Sprintf("Condition is %s", found.Status)
		}
		reported++
		distinct[message] = true
		messages = append(messages, fmt.Sprintf("* Node.%s: %s", each.kind, message))
		if found.Status == corev1.ConditionUnknown {
			unknown++
		} else {
			bad++
		}
	}
	// When a kubelet stops reporting, every condition has the same message: it is shown once.
	if reported > 1 && len(distinct) == 1 && reported == len(messages) {
		for message := range distinct {
			messages = []string{"* Node.AllConditions: " + message}
		}
	}
	condition := metav1.Condition{Type: clusterv1.MachineNodeHealthyCondition, Message: strings.Join(messages, "\n")}
	switch {
	case bad > 0:
		condition.Status, condition.Reason = metav1.ConditionFalse, clusterv1.MachineNodeNotHealthyReason
	case unknown > 0:
		condition.Status, condition.Reason = metav1.ConditionUnknown, clusterv1.MachineNodeHealthUnknownReason
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.MachineNodeHealthyReason
	}
	return condition
}

func nodeCondition(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}
