// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package paralleldrain

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// auditor watches the pods and records each change that violates a guarantee.
type auditor struct {
	// replicas of each app, of which one may be missing.
	replicas int

	mu   sync.Mutex
	pods map[types.UID]*corev1.Pod
	// complete are the apps that once had all their replicas; only these are checked.
	complete   map[string]bool
	evicted    int
	violations []string
}

// run follows the pods until ctx is over.
func (a *auditor) run(ctx context.Context, work client.WithWatch, namespace string) error {
	stream, err := work.Watch(ctx, &corev1.PodList{}, client.InNamespace(namespace))
	if err != nil {
		return err
	}
	defer stream.Stop()
	for event := range stream.ResultChan() {
		if pod, ok := event.Object.(*corev1.Pod); ok {
			a.observe(pod, event.Type == watch.Deleted)
		}
	}
	return nil
}

// observe records a change.
func (a *auditor) observe(pod *corev1.Pod, gone bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.pods[pod.UID]
	if leaving := pod.DeletionTimestamp != nil; leaving && (before == nil || before.DeletionTimestamp == nil) {
		a.evicted++
		a.checkOrder(pod)
	}
	a.pods[pod.UID] = pod
	if gone {
		delete(a.pods, pod.UID)
	}
	app := pod.Labels["app"]
	healthy := a.healthy(app)
	switch {
	case healthy >= a.replicas:
		a.complete[app] = true
	case a.complete[app] && healthy < a.replicas-1:
		a.violations = append(a.violations, fmt.Sprintf("%s has %d healthy pods of %d", app, healthy, a.replicas))
	}
}

// checkOrder notes a pod that leaves its Node before one that has to go first.
func (a *auditor) checkOrder(leaver *corev1.Pod) {
	if leaver.Labels["tier"] == "front" {
		return
	}
	for _, pod := range a.pods {
		if pod.Spec.NodeName == leaver.Spec.NodeName && pod.Labels["tier"] == "front" {
			a.violations = append(a.violations, fmt.Sprintf("%s leaves Node %s before %s", leaver.Name, leaver.Spec.NodeName, pod.Name))
		}
	}
}

func (a *auditor) healthy(app string) int {
	healthy := 0
	for _, pod := range a.pods {
		if pod.Labels["app"] == app && pod.DeletionTimestamp == nil && ready(pod) {
			healthy++
		}
	}
	return healthy
}

func ready(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// result returns how many pods were evicted, and which rules were violated.
func (a *auditor) result() (evicted int, broken []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.evicted, a.violations
}
