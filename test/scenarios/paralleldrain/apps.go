// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package paralleldrain deletes twenty machines full of pods at once and watches that every
// budget and every order is kept, and that nothing else has to wait. Its tests are all there
// is to it.
package paralleldrain

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	apps     = 20
	replicas = 10
	machines = 20
)

// installStuck creates as many pods as there are machines, whose budget permits no eviction.
func installStuck(ctx context.Context, work client.Client, namespace string) error {
	return errors.Join(work.Create(ctx, app(namespace, "stuck", "back", machines)), work.Create(ctx, budget(namespace, "stuck", intstr.FromInt32(0))))
}

// install makes the apps, half of them front, with a budget each.
func install(ctx context.Context, work client.Client, namespace string) error {
	var errs []error
	for i := range apps {
		name, tier := fmt.Sprintf("app-%02d", i), "back"
		if i%2 == 0 {
			tier = "front"
		}
		errs = append(errs, work.Create(ctx, app(namespace, name, tier, replicas)), work.Create(ctx, budget(namespace, name, intstr.FromInt32(1))))
	}
	return errors.Join(errs...)
}

func app(namespace, name, tier string, count int32) *appsv1.Deployment {
	labels := map[string]string{"app": name, "tier": tier}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	deployment.Spec.Replicas = &count
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	deployment.Spec.Template.Labels = labels
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "registry.example.org/app"}}
	return deployment
}

func budget(namespace, name string, unavailable intstr.IntOrString) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &unavailable, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		},
	}
}
