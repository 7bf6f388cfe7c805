// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/test/framework"
	"drover.io/test/pods"
	"drover.io/test/workflow"
)

const (
	machines    = 12
	moreAtOnce  = 18
	apps        = 6
	podsPerApp  = 8
	pause       = 25 * time.Second
	unreachable = 30 * time.Second
)

// run is the life of a fleet, with what dashboards are for: growth, a rollout that drains pods, a cloud without quota, an
// unhealthy Machine, a workload cluster that does not answer, a freeze.
type run struct {
	flow     *workflow.Workflow
	progress func(step string)
}

// all does all steps. The last faults stay.
func (r run) all(ctx context.Context) error {
	for _, step := range []struct {
		title string
		do    func(context.Context) error
	}{
		{"creating Machines", func(ctx context.Context) error { return r.flow.Create(ctx, machines) }},
		{"waiting until they are Running", func(ctx context.Context) error { return r.flow.AwaitRunning(ctx, machines) }},
		{"creating a MachineHealthCheck", r.createHealthCheck},
		{"creating pods with budgets", r.createApps},
		{"waiting", wait(pause)},
		{"scaling up", func(ctx context.Context) error { return r.flow.Scale(ctx, moreAtOnce) }},
		{"waiting until all are Running", func(ctx context.Context) error { return r.flow.AwaitRunning(ctx, moreAtOnce) }},
		{"waiting", wait(pause)},
		{"rolling out another instance type", func(ctx context.Context) error { return r.flow.Roll(ctx, "medium") }},
		{"waiting until all are Running", func(ctx context.Context) error { return r.flow.AwaitRunning(ctx, moreAtOnce) }},
		{"asking for the remediation of a Machine", r.remediate},
		{"waiting", wait(pause)},
		{"stopping the API server of the workload cluster", func(context.Context) error { return r.flow.Stack.Workload.StopAPIServer() }},
		{"waiting", wait(unreachable)},
		{"starting it", func(ctx context.Context) error { return r.flow.Stack.Workload.StartAPIServer(ctx) }},
		{"waiting", wait(pause)},
		{"creating a MachineDeployment for which there is no quota", func(ctx context.Context) error {
			return r.flow.CreateFaulty(ctx, infrav1.SimFaults{QuotaExceeded: ptr.To(true)})
		}},
		{"freezing the MachineDeployment", r.flow.Freeze},
		{"scaling down", func(ctx context.Context) error { return r.flow.Scale(ctx, machines) }},
		{"waiting", wait(pause)},
	} {
		r.progress(step.title)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.title, err)
		}
	}
	return nil
}

// wait gives the lines of the dashboards some length.
func wait(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
}

func (r run) createHealthCheck(ctx context.Context) error {
	check := &clusterv1.MachineHealthCheck{}
	check.Namespace, check.Name = r.flow.Namespace, r.flow.Cluster
	check.Spec.ClusterName = r.flow.Cluster
	check.Spec.Selector.MatchLabels = map[string]string{clusterv1.ClusterNameLabel: r.flow.Cluster}
	check.Spec.Checks.UnhealthyNodeConditions = []clusterv1.UnhealthyNodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionFalse, TimeoutSeconds: ptr.To(int32(60))},
	}
	return r.flow.Stack.ManagementClient.Create(ctx, check)
}

// createApps creates Deployments whose budgets permit one disruption at a time.
func (r run) createApps(ctx context.Context) error {
	work := r.flow.Stack.WorkloadClient
	var errs []error
	for i := range apps {
		name := fmt.Sprintf("app-%d", i)
		errs = append(errs, work.Create(ctx, pods.Deployment(r.flow.Namespace, name, podsPerApp, nil)), work.Create(ctx, pods.Budget(r.flow.Namespace, name, 1)))
	}
	return errors.Join(errs...)
}

// remediate sets the annotation with which a user asks for the remediation of a Machine.
func (r run) remediate(ctx context.Context) error {
	all, err := r.flow.Machines(ctx)
	if err != nil || len(all) == 0 {
		return errors.Join(err, errors.New("there is no Machine"))
	}
	before := all[0].DeepCopy()
	if all[0].Annotations == nil {
		all[0].Annotations = map[string]string{}
	}
	all[0].Annotations[clusterv1.RemediateMachineAnnotation] = ""
	return r.flow.Stack.ManagementClient.Patch(ctx, &all[0], client.MergeFrom(before))
}

// schedule binds the pods of the workload cluster until ctx is over, also while its API server is down for a while.
func schedule(ctx context.Context, stack *framework.Stack, namespace string) error {
	work, err := client.NewWithWatch(stack.Workload.AdminConfig(), client.Options{Scheme: stack.WorkloadClient.Scheme()})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		// An error is that of a server that does not answer.
		_ = (&pods.Scheduler{Client: work, Namespace: namespace}).Run(ctx)
		_ = wait(time.Second)(ctx)
	}
	return nil
}
