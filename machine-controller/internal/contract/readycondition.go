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

// mirroredCondition is a condition of a provider's object that the object which refers to it reports, with the reasons for
// True, False and Unknown where the provider gives none.
type mirroredCondition struct{ kind, yes, no, unknown string }

// ReadyCondition is the provider's Ready condition as the object that refers to it reports it, without a type. A provider
// that reports none is ready once it is done, and field is named before that.
func (o *Object) ReadyCondition(done bool, field string) metav1.Condition {
	return o.mirror(mirroredCondition{
		kind: clusterv1.ReadyCondition, yes: clusterv1.ReadyReason, no: clusterv1.NotReadyReason, unknown: clusterv1.ReadyUnknownReason,
	}, done, field)
}

func (o *Object) mirror(m mirroredCondition, done bool, field string) metav1.Condition {
	reported := o.condition(m.kind)
	switch {
	case reported == nil && done:
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: m.yes}
	case reported == nil:
		return metav1.Condition{
			Status:  metav1.ConditionFalse,
			Reason:  m.no,
			Message: fmt.Sprintf("%s %s is false", o.GetKind(), field),
		}
	case reported.Status != metav1.ConditionTrue && reported.Status != metav1.ConditionFalse && reported.Status != metav1.ConditionUnknown:
		return metav1.Condition{
			Status:  metav1.ConditionUnknown,
			Reason:  clusterv1.InvalidConditionReportedReason,
			Message: fmt.Sprintf("%s reports the condition %s with status %q", o.GetKind(), m.kind, requesterror.Truncate(string(reported.Status))),
		}
	}
	condition := metav1.Condition{Status: reported.Status, Reason: reported.Reason, Message: requesterror.Truncate(reported.Message)}
	if len(condition.Reason) > maxReason || !validReason.MatchString(condition.Reason) {
		condition.Reason = map[metav1.ConditionStatus]string{
			metav1.ConditionTrue: m.yes, metav1.ConditionFalse: m.no, metav1.ConditionUnknown: m.unknown,
		}[reported.Status]
	}
	return condition
}
