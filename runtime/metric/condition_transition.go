// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package metric

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Removed is the status of a condition that an object does not have any more.
const Removed = "Removed"

// Statuses are those that a condition may change to.
var Statuses = Fixed("status", string(metav1.ConditionTrue), string(metav1.ConditionFalse), string(metav1.ConditionUnknown), Removed)

// Transition is a condition that has another status than before.
type Transition struct{ Condition, Status, Reason string }

// Transitions are the differences of two lists of conditions. A condition of a new object is no transition to False or
// Unknown: every object begins so.
func Transitions(before, after []metav1.Condition) []Transition {
	var all []Transition
	for _, is := range after {
		was := statusOf(before, is.Type)
		if was != is.Status && (was != "" || is.Status == metav1.ConditionTrue) {
			all = append(all, Transition{is.Type, string(is.Status), is.Reason})
		}
	}
	for _, was := range before {
		if statusOf(after, was.Type) == "" {
			all = append(all, Transition{Condition: was.Type, Status: Removed})
		}
	}
	return all
}

func statusOf(conditions []metav1.Condition, conditionType string) metav1.ConditionStatus {
	for i := range conditions {
		if conditions[i].Type == conditionType {
			return conditions[i].Status
		}
	}
	return ""
}
