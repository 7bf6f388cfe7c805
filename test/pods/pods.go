// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package pods has pods for drains in control planes under test: Deployments with budgets, and what binds their pods to Nodes,
// as these control planes have no scheduler.
package pods

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// appLabel has the name of a Deployment.
const appLabel = "app"

// Deployment returns one whose pods have the label app with its name, and further labels.
func Deployment(namespace, name string, replicas int32, further map[string]string) *appsv1.Deployment {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	deployment.Spec.Replicas, deployment.Spec.Selector = ptr.To(replicas), selector(name)
	deployment.Spec.Template.Labels = map[string]string{appLabel: name}
	maps.Copy(deployment.Spec.Template.Labels, further)
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "registry.example.org/app"}}
	return deployment
}

// Budget returns one for the pods of a Deployment.
func Budget(namespace, name string, maxUnavailable int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(maxUnavailable)), Selector: selector(name)},
	}
}

func selector(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: name}}
}
