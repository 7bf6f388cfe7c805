// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package predicates

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Paused reports whether the object must not be reconciled, not even deleted: by its own annotation, whatever its value,
// or by its Cluster, which may be nil.
func Paused(cluster *clusterv1.Cluster, object client.Object) bool {
	return pausedByCluster(cluster) || pausedByAnnotation(object)
}

// PausedCondition is the condition Paused of an object of that kind. Its message lists what pauses the object.
func PausedCondition(cluster *clusterv1.Cluster, object client.Object, kind string) metav1.Condition {
	var why []string
	if pausedByCluster(cluster) {
		why = append(why, "Cluster spec.paused is set to true")
	}
	if pausedByAnnotation(object) {
		reason := kind + " has the " + clusterv1.PausedAnnotation + " annotation"
		if value := object.GetAnnotations()[clusterv1.PausedAnnotation]; value == "false" {
			reason += `, whose value "false" does not matter: remove it`
		}
		why = append(why, reason)
	}
	if len(why) == 0 {
		return metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotPausedReason}
	}
	return metav1.Condition{
		Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue, Reason: clusterv1.PausedReason, Message: strings.Join(why, ", "),
	}
}

func pausedByCluster(cluster *clusterv1.Cluster) bool {
	return cluster != nil && ptr.Deref(cluster.Spec.Paused, false)
}

func pausedByAnnotation(object client.Object) bool {
	_, annotated := object.GetAnnotations()[clusterv1.PausedAnnotation]
	return annotated
}
