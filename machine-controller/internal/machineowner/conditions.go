// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineowner

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/runtime/quantity"
)

// slowDeletionAfter is how long a Machine may be deleting until its owner reports it.
const slowDeletionAfter = 15 * time.Minute

// ScaleDown is what the condition ScalingDown depends on.
type ScaleDown struct {
	// Desired and Current are numbers of Machines.
	Desired, Current int
	// Blocked is why surplus Machines are not deleted; empty if nothing blocks it.
	Blocked  string
	Machines []*clusterv1.Machine
	Now      time.Time
}

// SetScalingDown sets the condition ScalingDown.
func SetScalingDown(object Object, in ScaleDown) {
	condition := metav1.Condition{Type: clusterv1.ScalingDownCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotScalingDownReason}
	if in.Current > in.Desired {
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.ScalingDownReason
		condition.Message = fmt.Sprintf("Scaling down from %d to %d replicas", in.Current, in.Desired)
		if in.Blocked != "" {
			condition.Reason = droverpolicyv1.BlockedReason
			condition.Message += " is blocked because: " + in.Blocked
		}
	}
	if slow := slowDeletions(in.Machines, in.Now); slow > 0 {
		if condition.Message != "" {
			condition.Message += "; "
		}
		condition.Message += fmt.Sprintf("%s %s been deleting for more than 15m", quantity.Of(slow, "Machine"), quantity.Verb(slow, "has", "have"))
	}
	conditions.Set(object, condition)
}

func slowDeletions(machines []*clusterv1.Machine, now time.Time) int {
	slow := 0
	for _, m := range machines {
		if !m.DeletionTimestamp.IsZero() && now.Sub(m.DeletionTimestamp.Time) > slowDeletionAfter {
			slow++
		}
	}
	return slow
}

// SetRemediating sets the condition Remediating, by whether an unhealthy Machine is being replaced or waits for that.
func SetRemediating(object Object, machines []*clusterv1.Machine) {
	condition := metav1.Condition{Type: clusterv1.RemediatingCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotRemediatingReason}
	if CountRemediating(machines) > 0 {
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.RemediatingReason
	}
	conditions.Set(object, condition)
}

// CountRemediating counts the Machines that are being replaced or wait for that.
func CountRemediating(machines []*clusterv1.Machine) int {
	n := 0
	for _, m := range machines {
		if conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition) {
			n++
		}
	}
	return n
}

// SetDeleting sets the condition Deleting. left describes what is still to be deleted, blocked why it is not; nil if
// nothing blocks it.
func SetDeleting(object Object, left string, blocked error) {
	condition := metav1.Condition{Type: clusterv1.DeletingCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotDeletingReason}
	if !object.GetDeletionTimestamp().IsZero() {
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.DeletingReason
		condition.Message = "Deleting " + left
		if blocked != nil {
			condition.Reason = droverpolicyv1.BlockedReason
			condition.Message += ": " + blocked.Error()
		}
	}
	conditions.Set(object, condition)
}

// SetClusterMissing sets a condition to Unknown for want of the Cluster.
func SetClusterMissing(object Object, condition, reason, cluster string) {
	conditions.Set(object, metav1.Condition{
		Type: condition, Status: metav1.ConditionUnknown, Reason: reason,
		Message: fmt.Sprintf("Cluster %q does not exist: create it, or delete this %s", cluster, kindOf(object)),
	})
}
