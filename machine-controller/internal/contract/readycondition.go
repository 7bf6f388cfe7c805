// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/runtime/requesterror"
)

// validReason matches the reasons that a condition can have. The API of a provider may accept others, as those of the older
// contract that name a source: "Failed @ Disk/a".
var validReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// maxReason is how long a reason may be.
const maxReason = 1024

// ReadyCondition is the provider's Ready condition as the object that refers to it reports it, without a type. A provider
// that reports none is ready once it is done, and field is named before that.
func (o *Object) ReadyCondition(done bool, field string) metav1.Condition {
	ready := o.Ready()
	switch {
	case ready == nil && done:
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: clusterv1.ReadyReason}
	case ready == nil:
		return metav1.Condition{
			Status:  metav1.ConditionFalse,
			Reason:  clusterv1.NotReadyReason,
			Message: fmt.Sprintf("%s %s is false", o.GetKind(), field),
		}
	case ready.Status != metav1.ConditionTrue && ready.Status != metav1.ConditionFalse && ready.Status != metav1.ConditionUnknown:
		return metav1.Condition{
			Status:  metav1.ConditionUnknown,
			Reason:  clusterv1.InvalidConditionReportedReason,
			Message: fmt.Sprintf("%s reports a Ready condition with status %q", o.GetKind(), requesterror.Truncate(string(ready.Status))),
		}
	}
	condition := metav1.Condition{Status: ready.Status, Reason: ready.Reason, Message: requesterror.Truncate(ready.Message)}
	if len(condition.Reason) > maxReason || !validReason.MatchString(condition.Reason) {
		condition.Reason = map[metav1.ConditionStatus]string{
			metav1.ConditionTrue: clusterv1.ReadyReason, metav1.ConditionFalse: clusterv1.NotReadyReason, metav1.ConditionUnknown: clusterv1.ReadyUnknownReason,
		}[ready.Status]
	}
	return condition
}
