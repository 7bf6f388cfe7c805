// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"drover.io/test/bench/fakeinfra"
	"drover.io/test/bench/report"
	"drover.io/test/framework"
	"drover.io/test/interop/peer"
)

// run takes a scenario with one core through all phases.
func run(ctx context.Context, core core, of scenario, peers *peer.Peers) (result report.Run, err error) {
	result = report.Run{Core: core.name, Scenario: of.name, Machines: of.total()}
	port, err := freePort()
	if err != nil {
		return result, err
	}
	stack, err := core.start(ctx, peers, of.full, port)
	if err != nil {
		return result, err
	}
	closed := func() {} // once there are no more requests
	defer func() {
		err = errors.Join(err, stack.Stop())
		closed()
	}()
	running, stop := context.WithCancel(ctx)
	defer stop()
	seen, err := provide(running, stack)
	if err != nil {
		return result, err
	}
	kubeconfig, end, err := reach(stack, of)
	if err != nil {
		return result, err
	}
	closed = end
	f := &workload{stack: stack, scenario: of, seen: seen}
	m := newMeter(core, stack, port)
	for _, phase := range phases(f, m, kubeconfig) {
		measured, err := m.measure(ctx, phase.name, phase.do)
		if err != nil {
			return result, fmt.Errorf("%w\n%s", err, tail(stack, core))
		}
		result.Phases = append(result.Phases, measured)
		if phase.name == of.until {
			break
		}
	}
	return result, nil
}

type phase struct {
	name string
	do   func(context.Context) error
}

// phases lists the phases of a run.
func phases(f *workload, m *meter, kubeconfig func(string) ([]byte, error)) []phase {
	n := f.scenario.machines
	total := f.scenario.total()
	then := func(act func(context.Context) error, want int) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := act(ctx); err != nil {
				return err
			}
			return f.running(ctx, want)
		}
	}
	to := func(each int) func(context.Context) error {
		return func(ctx context.Context) error { return f.scale(ctx, each) }
	}
	waiting := f.awaitIdle
	if f.scenario.flap {
		waiting = f.flap
	}
	return []phase{
		{report.Empty, func(ctx context.Context) error { return f.found(ctx, kubeconfig) }},
		{report.Create, then(to(n), total)},
		{report.Idle, waiting},
		{report.Restart, func(context.Context) error { return restart(f.stack, m.core) }},
		{report.Roll, then(f.roll, total)},
		{report.Delete, then(to(0), 0)},
	}
}

// awaitIdle waits without a change.
func (f *workload) awaitIdle(ctx context.Context) error { return pause(ctx, f.scenario.idle) }

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// flap makes every tenth Node go NotReady and come back, as often as fits into the time of rest.
func (f *workload) flap(ctx context.Context) error {
	const times = 3
	nodes := &corev1.NodeList{}
	if err := f.stack.WorkloadClient.List(ctx, nodes); err != nil {
		return err
	}
	for range times {
		for _, status := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue} {
			for i := 0; i < len(nodes.Items); i += 10 {
				if err := f.printStep(ctx, &nodes.Items[i], status); err != nil {
					return err
				}
			}
			if err := pause(ctx, f.scenario.idle/(2*times)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *workload) printStep(ctx context.Context, node *corev1.Node, ready corev1.ConditionStatus) error {
	before := node.DeepCopy()
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			node.Status.Conditions[i].Status = ready
		}
	}
	return f.stack.WorkloadClient.Status().Patch(ctx, node, client.MergeFrom(before))
}

// restart ends the core and starts it again.
func restart(stack *framework.Stack, core core) error {
	for _, manager := range stack.Managers() {
		if manager.Name == core.manager {
			manager.Stop()
			return manager.Start()
		}
	}
	return fmt.Errorf("no manager is called %q", core.manager)
}

func tail(stack *framework.Stack, core core) string {
	for _, manager := range stack.Managers() {
		if manager.Name == core.manager {
			return manager.Tail()
		}
	}
	return ""
}

// provide runs the stand-in and returns what it watches, Machines and MachineDeployments included.
func provide(ctx context.Context, stack *framework.Stack) (client.Reader, error) {
	config := stack.Management.AdminConfig()
	config.QPS = -1
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: stack.ManagementClient.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	if err != nil {
		return nil, err
	}
	cloud := &fakeinfra.Cloud{Manage: mgr.GetClient(), Work: stack.WorkloadClient}
	if err := cloud.Register(mgr); err != nil {
		return nil, err
	}
	for _, object := range []client.Object{&clusterv1.Machine{}, &clusterv1.MachineDeployment{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, object); err != nil {
			return nil, err
		}
	}
	go mgr.Start(ctx) //nolint:errcheck // what it does not do is missed, and waited for in vain
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return nil, errors.New("the stand-in does not see the management cluster")
	}
	return mgr.GetCache(), nil
}
