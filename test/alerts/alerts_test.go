// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alerts

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/test/framework"
	"drover.io/test/workflow"
)

func TestTimesAreShortened(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]string{
		"for: 15m":             "for: 15s",
		"for: 2h":              "for: 120s",
		"rate(a[5m]) > 0.25":   "rate(a[10s]) > 0.25",
		"increase(a[3h]) > 10": "increase(a[180s]) > 10",
		"age > 3600":           "age > 60",
	} {
		if got := shorten(rule); got != want {
			t.Errorf("%s becomes %s, want %s", rule, got, want)
		}
	}
}

// fault is something that goes wrong, and what must fire because of it, and nothing else.
type fault struct {
	name       string
	begin, end func(ctx context.Context) error
	alerts     []string
}

// TestExactlyTheRightAlertsFire begins with a healthy fleet, in which none may fire, and returns to it after each fault.
func TestExactlyTheRightAlertsFire(t *testing.T) {
	program := os.Getenv("DROVER_PROMETHEUS")
	if program == "" {
		t.Skip("run make e2e-alerts")
	}
	targets, args := map[string]string{}, map[string][]string{}
	for _, name := range []string{"machine-controller", "bootstrap", "infra-sim"} {
		targets[name] = freeAddress(t)
		args[name] = []string{"--metrics-bind-address=" + targets[name]}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	stack, err := framework.Start(ctx, framework.Options{LeaderElection: true, Args: args, Progress: func(step string) { t.Log(step) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, m := range stack.Managers() {
				t.Log(m.Tail())
			}
		}
		if err := stack.Stop(); err != nil {
			t.Error(err)
		}
	})
	rules, err := os.ReadFile(filepath.Join("..", "..", "monitoring", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	flow := &workflow.Workflow{Stack: stack, Namespace: "default", Cluster: "demo"}
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return flow.Create(ctx, 3) },
		func(ctx context.Context) error { return flow.AwaitRunning(ctx, 3) },
	} {
		if err := step(ctx); err != nil {
			t.Fatal(err)
		}
	}
	watcher, err := startPrometheus(program, t.TempDir(), string(rules), freeAddress(t), targets)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { watcher.process.End(10 * time.Second) })
	healthy := func(after string) {
		bounded, cancel := context.WithTimeout(ctx, 3*time.Minute)
		defer cancel()
		if err := watcher.await(bounded); err != nil {
			t.Fatalf("after %s: %v", after, err)
		}
	}
	healthy("the start")
	for _, f := range faults(flow) {
		t.Log(f.name)
		if err := f.begin(ctx); err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		bounded, cancel := context.WithTimeout(ctx, 4*time.Minute)
		err := watcher.await(bounded, f.alerts...)
		cancel()
		if err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		if err := f.end(ctx); err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		healthy(f.name)
	}
}

func faults(flow *workflow.Workflow) []fault {
	manager := func(name string) *framework.Manager {
		for _, m := range flow.Stack.Managers() {
			if m.Name == name {
				return m
			}
		}
		return nil
	}
	return []fault{
		{
			name:   "an operator freezes a MachineDeployment",
			begin:  annotate(flow, "true"),
			end:    annotate(flow, ""),
			alerts: []string{"DroverFrozen"},
		},
		{
			name:   "the cloud has no quota for new Machines",
			begin:  inject(flow, &infrav1.SimFaults{QuotaExceeded: ptr.To(true)}),
			end:    inject(flow, nil),
			alerts: []string{"DroverCloudQuotaExceeded", "DroverMachineNotJoining"},
		},
		{
			name:   "the API server of the workload cluster ends",
			begin:  func(context.Context) error { return flow.Stack.Workload.StopAPIServer() },
			end:    func(ctx context.Context) error { return flow.Stack.Workload.StartAPIServer(ctx) },
			alerts: []string{"DroverWorkloadClusterUnreachable"},
		},
		{
			name: "machine-controller ends",
			begin: func(context.Context) error {
				manager("machine-controller").Stop()
				return nil
			},
			end:    func(context.Context) error { return manager("machine-controller").Start() },
			alerts: []string{"DroverMachineControllerAbsent"},
		},
	}
}

// annotate sets the annotation drover.io/freeze of the MachineDeployment, or removes it.
func annotate(flow *workflow.Workflow, value string) func(context.Context) error {
	return func(ctx context.Context) error {
		return update(ctx, flow, flow.MachineDeployment(), func(md *clusterv1.MachineDeployment) {
			if md.Annotations == nil {
				md.Annotations = map[string]string{}
			}
			md.Annotations["drover.io/freeze"] = value
			if value == "" {
				delete(md.Annotations, "drover.io/freeze")
			}
		})
	}
}

// inject has a MachineDeployment of one Machine with the faults, or deletes it.
func inject(flow *workflow.Workflow, faults *infrav1.SimFaults) func(context.Context) error {
	return func(ctx context.Context) error {
		c := flow.Stack.ManagementClient
		md := &clusterv1.MachineDeployment{}
		md.Namespace, md.Name = flow.Namespace, "faulty"
		template := &infrav1.SimMachineTemplate{}
		template.Namespace, template.Name = flow.Namespace, "faulty"
		if faults == nil {
			if err := c.Delete(ctx, md); err != nil {
				return err
			}
			return c.Delete(ctx, template)
		}
		if err := c.Get(ctx, client.ObjectKey{Namespace: flow.Namespace, Name: flow.Cluster + "-small"}, template); err != nil {
			return err
		}
		spec := template.Spec
		template = &infrav1.SimMachineTemplate{Spec: spec}
		template.Namespace, template.Name = flow.Namespace, "faulty"
		template.Spec.Template.Spec.Faults = *faults
		if err := c.Create(ctx, template); err != nil {
			return err
		}
		healthy := flow.MachineDeployment()
		if err := c.Get(ctx, client.ObjectKeyFromObject(healthy), healthy); err != nil {
			return err
		}
		healthy.Spec.Template.DeepCopyInto(&md.Spec.Template)
		md.Spec.ClusterName, md.Spec.Replicas = flow.Cluster, ptr.To(int32(1))
		md.Spec.Template.Spec.InfrastructureRef.Name = "faulty"
		return c.Create(ctx, md)
	}
}

// update changes an object as it is in the management cluster.
func update[T client.Object](ctx context.Context, flow *workflow.Workflow, object T, change func(T)) error {
	c := flow.Stack.ManagementClient
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	before := object.DeepCopyObject().(client.Object)
	change(object)
	return c.Patch(ctx, object, client.MergeFrom(before))
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}
