// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alerts

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/test/framework"
	"drover.io/test/prometheus"
	"drover.io/test/workflow"
)

func TestTimesAreShortened(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]string{
		"for: 15m":             "for: 15s",
		"for: 2h":              "for: 120s",
		"rate(a[5m]) > 0.25":   "rate(a[45s]) > 0.25",
		"increase(a[3h]) > 10": "increase(a[180s]) > 10",
		"age > 3600":           "age > 60",
		"avg((a[1d]))[10m:1m]": "avg((a[1440s]))[45s:1s]",
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
	targets, args, err := framework.MetricsAddresses()
	if err != nil {
		t.Fatal(err)
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
		func(ctx context.Context) error { return flow.Create(ctx, machines) },
		func(ctx context.Context) error { return flow.AwaitRunning(ctx, machines) },
	} {
		if err := step(ctx); err != nil {
			t.Fatal(err)
		}
	}
	server, err := prometheus.Start(prometheus.Options{Program: program, Dir: t.TempDir(), Rules: shorten(string(rules)), Targets: targets})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	healthy := func(after string) {
		bounded, cancel := context.WithTimeout(ctx, 3*time.Minute)
		defer cancel()
		if err := await(bounded, server); err != nil {
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
		err := await(bounded, server, f.alerts...)
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
	stop := func(name string) func(context.Context) error {
		return func(context.Context) error {
			manager(name).Stop()
			return nil
		}
	}
	start := func(name string) func(context.Context) error {
		return func(context.Context) error { return manager(name).Start() }
	}
	faulty := func(faults infrav1.SimFaults) func(context.Context) error {
		return func(ctx context.Context) error { return flow.CreateFaulty(ctx, faults) }
	}
	eviction := &refusedEviction{flow: flow}
	most, all := blockedRemediation{flow, machines - 1}, blockedRemediation{flow, machines}
	return []fault{
		{
			name:   "an operator freezes a MachineDeployment",
			begin:  flow.Freeze,
			end:    flow.Thaw,
			alerts: []string{"DroverFrozen"},
		},
		{
			name:   "the cloud has no quota for new Machines",
			begin:  faulty(infrav1.SimFaults{QuotaExceeded: ptr.To(true)}),
			end:    flow.DeleteFaulty,
			alerts: []string{"DroverCloudQuotaExceeded", "DroverMachineDeploymentUnavailable", "DroverMachineNotJoining"},
		},
		{
			name:   "the cloud has no capacity for new Machines",
			begin:  faulty(infrav1.SimFaults{InsufficientCapacity: ptr.To(true)}),
			end:    flow.DeleteFaulty,
			alerts: []string{"DroverCloudCapacityMissing", "DroverMachineDeploymentUnavailable", "DroverMachineNotJoining"},
		},
		{
			name:   "a host never joins",
			begin:  faulty(infrav1.SimFaults{NeverJoins: ptr.To(true)}),
			end:    flow.DeleteFaulty,
			alerts: []string{"DroverMachineDeploymentUnavailable", "DroverMachineNotJoining"},
		},
		{
			name:   "an admission policy refuses evictions",
			begin:  eviction.begin,
			end:    eviction.end,
			alerts: []string{"DroverEvictionsFail", "DroverMachineDeploymentUnavailable"},
		},
		{
			name:   "more Machines are unhealthy than a MachineHealthCheck may replace",
			begin:  most.begin,
			end:    most.end,
			alerts: []string{"DroverMachineDeploymentUnavailable", "DroverRemediationBlocked"},
		},
		{
			name:   "every Machine of a failure domain is unhealthy",
			begin:  all.begin,
			end:    all.end,
			alerts: []string{"DroverFailureDomainDown", "DroverMachineDeploymentUnavailable"},
		},
		{
			name:   "the API server of the workload cluster ends",
			begin:  func(context.Context) error { return flow.Stack.Workload.StopAPIServer() },
			end:    func(ctx context.Context) error { return flow.Stack.Workload.StartAPIServer(ctx) },
			alerts: []string{"DroverWorkloadClusterUnreachable"},
		},
		{
			name:   "bootstrap ends",
			begin:  stop("bootstrap"),
			end:    start("bootstrap"),
			alerts: []string{"DroverNoLeader"},
		},
		{
			name:   "the infrastructure provider ends",
			begin:  stop("infra-sim"),
			end:    start("infra-sim"),
			alerts: []string{"DroverNoLeader"},
		},
		{
			name:   "machine-controller ends",
			begin:  stop("machine-controller"),
			end:    start("machine-controller"),
			alerts: []string{"DroverMachineControllerAbsent", "DroverNoLeader"},
		},
	}
}
