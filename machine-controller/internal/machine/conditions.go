// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/ownership"
	"drover.io/machine-controller/internal/rollout/revision"
	"drover.io/runtime/requesterror"
	"drover.io/runtime/results"
)

// setClaimedElsewhere reports a Machine that another management cluster acts on.
func setClaimedElsewhere(m *clusterv1.Machine, message string) {
	conditions.Set(m, metav1.Condition{
		Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue, Reason: droverpolicyv1.ClaimedElsewhereReason, Message: message,
	})
}

// setClusterMissing reports a machine that cannot be reconciled because its Cluster does not exist.
func setClusterMissing(m *clusterv1.Machine) {
	conditions.Set(m, metav1.Condition{
		Type:    clusterv1.MachineReadyCondition,
		Status:  metav1.ConditionFalse,
		Reason:  clusterv1.MachineNotReadyReason,
		Message: fmt.Sprintf("Cluster %q does not exist: create it, or delete this Machine", m.Spec.ClusterName),
	})
}

func setBootstrapConfigReady(s *state) {
	m := s.machine
	if !m.Spec.Bootstrap.ConfigRef.IsDefined() {
		conditions.Set(m, metav1.Condition{
			Type:   clusterv1.MachineBootstrapConfigReadyCondition,
			Status: metav1.ConditionTrue,
			Reason: clusterv1.MachineBootstrapDataSecretProvidedReason,
		})
		return
	}
	done := isTrue(m.Status.Initialization.BootstrapDataSecretCreated)
	condition := ownership.UnreadableCondition(m.Spec.Bootstrap.ConfigRef, s.bootstrap.err, done && s.deleting())
	if config := s.bootstrap.object; config != nil {
		condition = config.ReadyCondition(done, "status.initialization.dataSecretCreated")
	}
	condition.Type = clusterv1.MachineBootstrapConfigReadyCondition
	conditions.Set(m, condition)
}

func setInfrastructureReady(s *state) {
	m := s.machine
	done := isTrue(m.Status.Initialization.InfrastructureProvisioned)
	condition := ownership.UnreadableCondition(m.Spec.InfrastructureRef, s.infra.err, done)
	if infra := s.infra.object; infra != nil {
		condition = infra.ReadyCondition(done, "status.initialization.provisioned")
	}
	condition.Type = clusterv1.MachineInfrastructureReadyCondition
	conditions.Set(m, condition)
}

// setNodeSynced sets the condition that exists while the workload cluster refuses what the machine has for its Node. Where
// that leaves the taint with which the Node registered, any failure counts, as that of a webhook: no pod is scheduled there.
// Otherwise, without an answer or after a conflict, it stays as it is.
func setNodeSynced(m *clusterv1.Machine, node *corev1.Node, err error) {
	if err == nil {
		conditions.Delete(m, droverpolicyv1.NodeSyncedCondition)
		return
	}
	condition := metav1.Condition{
		Type: droverpolicyv1.NodeSyncedCondition, Status: metav1.ConditionFalse,
		Reason: droverpolicyv1.NodeSyncRefusedReason, Message: results.Refusal(err),
	}
	if isUninitialized(node) {
		condition.Reason = droverpolicyv1.NodeInitializationRefusedReason
		if condition.Message == "" && results.IgnoreNotFoundOrConflict(err) != nil {
			condition.Message = requesterror.Describe(err)
		}
	}
	before := conditions.Get(m, condition.Type)
	if condition.Message == "" {
		if before != nil && before.Reason == droverpolicyv1.NodeInitializationRefusedReason && !isUninitialized(node) {
			conditions.Delete(m, condition.Type) // another client has removed the taint
		}
		return
	}
	// The local port of a request to a webhook is another one each time.
	if before != nil && withoutDigits(before.Message) == withoutDigits(condition.Message) {
		condition.Message = before.Message
	}
	conditions.Set(m, condition)
}

// isUninitialized reports whether a Node has the taint that keeps pods away until the first sync.
func isUninitialized(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&clusterv1.NodeUninitializedTaint) })
}

func withoutDigits(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}

func setDeleting(s *state) {
	condition := metav1.Condition{Type: clusterv1.MachineDeletingCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineNotDeletingReason}
	if s.deleting() {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, s.deletion.Reason, s.deletion.Message
		if condition.Reason == "" {
			condition.Reason = clusterv1.MachineDeletingReason
		}
	}
	conditions.Set(s.machine, condition)
}

// setUpdating sets the condition that other tools expect; machines are replaced here, never updated
// in place.
func setUpdating(m *clusterv1.Machine) {
	conditions.Set(m, metav1.Condition{
		Type:   clusterv1.MachineUpdatingCondition,
		Status: metav1.ConditionFalse,
		Reason: clusterv1.MachineNotUpdatingReason,
	})
}

// setUpToDate compares the machine's MachineSet with its MachineDeployment. Machines that
// no MachineDeployment owns get no such condition: nothing defines what they should be.
func setUpToDate(s *state, now time.Time) {
	if s.set == nil || s.deployment == nil {
		return
	}
	_, differences := revision.EqualTemplate(&s.set.Spec.Template, &s.deployment.Spec.Template)
	if !revision.IsAfter(s.deployment, s.set, now) {
		differences = append(differences, "MachineDeployment spec.rollout.after has passed")
	}
	condition := metav1.Condition{Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineUpToDateReason}
	if len(differences) > 0 {
		condition.Status, condition.Reason = metav1.ConditionFalse, clusterv1.MachineNotUpToDateReason
		condition.Message = "* " + strings.Join(differences, "\n* ")
	}
	conditions.Set(s.machine, condition)
}

// readyConditions are the conditions that Ready summarizes.
var readyConditions = []string{
	clusterv1.MachineDeletingCondition,
	clusterv1.MachineUpdatingCondition,
	clusterv1.MachineBootstrapConfigReadyCondition,
	clusterv1.MachineInfrastructureReadyCondition,
	clusterv1.MachineNodeHealthyCondition,
	droverpolicyv1.NodeSyncedCondition,
	clusterv1.MachineHealthCheckSucceededCondition,
}

func setReady(m *clusterv1.Machine, now time.Time) {
	types := conditions.ForConditionTypes(append([]string{}, readyConditions...))
	negative := conditions.NegativePolarityConditionTypes{clusterv1.MachineDeletingCondition, clusterv1.MachineUpdatingCondition}
	for _, gate := range m.Spec.ReadinessGates {
		types = append(types, gate.ConditionType)
		if gate.Polarity == clusterv1.NegativePolarityCondition {
			negative = append(negative, gate.ConditionType)
		}
	}
	options := []conditions.SummaryOption{
		types, negative,
		conditions.IgnoreTypesIfMissing{clusterv1.MachineHealthCheckSucceededCondition, droverpolicyv1.NodeSyncedCondition},
		conditions.CustomMergeStrategy{MergeStrategy: readyMergeStrategy(m, negative)},
	}
	if !m.DeletionTimestamp.IsZero() {
		options = append(options, conditions.OverrideConditions{deletingSummary(m, now)})
	}
	ready, err := conditions.NewSummaryCondition(m, clusterv1.MachineReadyCondition, options...)
	if err != nil {
		ready = &metav1.Condition{
			Type: clusterv1.MachineReadyCondition, Status: metav1.ConditionUnknown, Reason: clusterv1.MachineReadyInternalErrorReason, Message: err.Error(),
		}
	}
	conditions.Set(m, *ready)
}

// readyMergeStrategy lowers the priority of absent objects while the machine is being deleted, and of outdated labels,
// annotations and taints of a Node to which pods can be scheduled.
func readyMergeStrategy(m *clusterv1.Machine, negative []string) conditions.MergeStrategy {
	usual := conditions.GetDefaultMergePriorityFunc(negative...)
	return conditions.DefaultMergeStrategy(
		conditions.GetPriorityFunc(func(condition metav1.Condition) conditions.MergePriority {
			deleted := condition.Reason == clusterv1.ObjectDeletedReason || condition.Reason == clusterv1.ObjectDoesNotExistReason ||
				condition.Reason == clusterv1.MachineNodeDeletedReason || condition.Reason == clusterv1.MachineNodeDoesNotExistReason
			if !m.DeletionTimestamp.IsZero() && deleted || condition.Reason == droverpolicyv1.NodeSyncRefusedReason {
				return conditions.InfoMergePriority
			}
			return usual(condition)
		}),
		conditions.ComputeReasonFunc(conditions.GetDefaultComputeMergeReasonFunc(
			clusterv1.MachineNotReadyReason, clusterv1.MachineReadyUnknownReason, clusterv1.MachineReadyReason,
		)),
	)
}

// longDeletionThreshold is the duration after which the Ready condition reports a long deletion.
const longDeletionThreshold = 15 * time.Minute

// deletingSummary omits the names of Pods and volumes, so that the Ready conditions of many deleting
// machines are equal and their owners can merge them into one.
func deletingSummary(m *clusterv1.Machine, now time.Time) conditions.ConditionWithOwnerInfo {
	message := "Machine deletion in progress, stage: " + conditions.GetReason(m, clusterv1.MachineDeletingCondition)
	if now.Sub(m.DeletionTimestamp.Time) > longDeletionThreshold {
		message = "Machine deletion in progress for more than 15m, stage: " + conditions.GetReason(m, clusterv1.MachineDeletingCondition)
	}
	return conditions.ConditionWithOwnerInfo{
		OwnerResource: conditions.ConditionOwnerInfo{Kind: "Machine", Name: m.Name},
		Condition: metav1.Condition{
			Type: clusterv1.MachineDeletingCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineDeletingReason, Message: message,
		},
	}
}

// setAvailable waits until the machine has been ready for minReadySeconds.
func setAvailable(m *clusterv1.Machine, now time.Time) reconcile.Result {
	condition := metav1.Condition{Type: clusterv1.MachineAvailableCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineNotReadyReason}
	var result reconcile.Result
	if ready := conditions.Get(m, clusterv1.MachineReadyCondition); ready != nil && ready.Status == metav1.ConditionTrue {
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.MachineAvailableReason
		var settle time.Duration
		if m.Spec.MinReadySeconds != nil {
			settle = time.Duration(*m.Spec.MinReadySeconds) * time.Second
		}
		if left := settle - now.Sub(ready.LastTransitionTime.Time); left > 0 {
			condition.Status, condition.Reason = metav1.ConditionFalse, clusterv1.MachineWaitingForMinReadySecondsReason
			result.RequeueAfter = left
		}
	}
	conditions.Set(m, condition)
	return result
}
