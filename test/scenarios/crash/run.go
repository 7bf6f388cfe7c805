// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package crash kills the machine-controller before and after each of its writes to either
// API server, from the creation of a MachineDeployment through a rollout with a drain to the
// deletion of the Cluster, and checks whether the end is the same every time. The writes are
// counted in a run without a crash first. Only its own tests use it.
package crash

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/workflow"
)

const (
	// replicas of the MachineDeployment.
	replicas = 2
	// pollPeriod is how often the clusters are looked at while waiting.
	pollPeriod = 200 * time.Millisecond
)

// outcome is the result of a run.
type outcome struct {
	// Created and Rolled describe every object when the machines run, and after the rollout.
	Created, RolledOut []string
	// Machines and Hosts count those that ever were.
	Machines, Hosts int
}

// runWorkflow runs the workflow. With a wanted outcome it waits until everything looks like
// that; without, until nothing changes any more.
func runWorkflow(ctx context.Context, s *workflow.Workflow, want *outcome) (*outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, c := range []client.Client{s.Stack.ManagementClient, s.Stack.WorkloadClient} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
		if err := c.Create(ctx, namespace); err != nil {
			return nil, err
		}
	}
	saw, err := watch(ctx, s)
	if err != nil {
		return nil, err
	}
	got := &outcome{}
	for _, step := range []struct {
		title string
		do    func(context.Context) error
	}{
		{"creation", func(ctx context.Context) error { return s.Create(ctx, replicas) }},
		{"creation", func(ctx context.Context) error { return s.AwaitRunning(ctx, replicas) }},
		{"creation", func(ctx context.Context) error {
			return settle(ctx, s, &got.Created, want, func(o *outcome) []string { return o.Created })
		}},
		{"pods", func(ctx context.Context) error { return createPods(ctx, s) }},
		{"rollout", func(ctx context.Context) error { return s.Roll(ctx, "medium") }},
		{"rollout", func(ctx context.Context) error { return s.AwaitRunning(ctx, replicas) }},
		{"rollout", func(ctx context.Context) error {
			return settle(ctx, s, &got.RolledOut, want, func(o *outcome) []string { return o.RolledOut })
		}},
		{"pods", func(ctx context.Context) error { return checkNoPods(ctx, s) }},
		{"deletion", s.Delete},
		{"deletion", s.AwaitNothingLeft},
	} {
		if err := step.do(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", step.title, err)
		}
	}
	got.Machines, got.Hosts = saw.counts()
	return got, nil
}

// settle takes the census once it is as wanted, or nothing is written any more.
func settle(ctx context.Context, s *workflow.Workflow, into *[]string, want *outcome, part func(*outcome) []string) error {
	var err error
	if want == nil {
		if _, err = s.AwaitNoWrites(ctx); err == nil {
			*into, err = describeObjects(ctx, s)
		}
		return err
	}
	err = wait.PollUntilContextCancel(ctx, pollPeriod, true, func(ctx context.Context) (bool, error) {
		*into, err = describeObjects(ctx, s)
		return err == nil && slices.Equal(part(want), *into), nil
	})
	if err != nil {
		return fmt.Errorf("%w: the objects never matched those of the run without a crash (-want +got):\n%s", err, cmp.Diff(part(want), *into))
	}
	return nil
}

// createPods binds a pod to each Node. A budget permits one eviction at a time.
func createPods(ctx context.Context, s *workflow.Workflow) error {
	nodes, err := s.Nodes(ctx)
	if err != nil {
		return err
	}
	labels := map[string]string{"app": "web"}
	for name := range nodes {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "web-" + name, Labels: labels}}
		pod.Spec = corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "web", Image: "registry.example.org/web"}}}
		err := wait.PollUntilContextCancel(ctx, pollPeriod, true, func(ctx context.Context) (bool, error) {
			err := s.Stack.WorkloadClient.Create(ctx, pod)
			return err == nil, client.IgnoreAlreadyExists(ignoreForbidden(err))
		})
		if err != nil {
			return fmt.Errorf("creating a pod on Node %q: %w", name, err)
		}
	}
	one := intstr.FromInt32(0)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "web"}}
	budget.Spec = policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}}
	return s.Stack.WorkloadClient.Create(ctx, budget)
}

// ignoreForbidden waits for a ServiceAccount that the namespace does not have yet.
func ignoreForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// checkNoPods fails if a pod has outlived its Node.
func checkNoPods(ctx context.Context, s *workflow.Workflow) error {
	pods := &corev1.PodList{}
	if err := s.Stack.WorkloadClient.List(ctx, pods, client.InNamespace(s.Namespace)); err != nil {
		return err
	}
	if len(pods.Items) > 0 {
		return fmt.Errorf("%d pods were not drained", len(pods.Items))
	}
	return nil
}
