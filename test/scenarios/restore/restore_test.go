// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package restore proves that a management cluster which is restored from a snapshot, and runs beside its original,
// changes nothing; and that it takes over, once an operator sets the annotation. Both are real control
// planes, the second with a copy of the first one's etcd, and share a workload cluster and a simulated cloud.
package restore

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/test/framework"
	"drover.io/test/process"
	"drover.io/test/workflow"
)

// waitTimeout bounds each wait; it does not measure how long one takes.
const waitTimeout = 10 * time.Minute

// sweeps is how many times the collector of orphans looks before it is believed to do nothing.
const sweeps = 5

func TestRestoredManagementClusterChangesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*waitTimeout)
	defer cancel()
	original := &workflow.Workflow{Stack: start(t, framework.Options{}), Namespace: "default", Cluster: "fleet"}
	check(t, original.Create(ctx, 3))
	check(t, original.AwaitRunning(ctx, 3))
	check(t, original.AwaitCondition(ctx, original.ClusterObject(), droverpolicyv1.ManagementClaimedCondition, metav1.ConditionTrue, ""))

	metrics, err := process.FreeAddress()
	check(t, err)
	copied := &workflow.Workflow{Namespace: original.Namespace, Cluster: original.Cluster, Stack: start(t, framework.Options{
		SharedWith: original.Stack, CopyOf: original.Stack, Without: []string{"machine-controller", "bootstrap", "infra-sim"},
		Args: map[string][]string{"infra-sim": {
			"--metrics-bind-address=" + metrics, "--machine-safety-orphan-vms-period=1s", "--machine-safety-orphan-vms-grace=1s",
		}},
	})}

	// The original goes on: another process of it claims the workload cluster, and its machines change.
	restart(t, original.Stack, "machine-controller")
	check(t, original.Scale(ctx, 5))
	check(t, original.Roll(ctx, "medium"))
	check(t, original.AwaitRunning(ctx, 5))
	before := hosts(ctx, t, original)

	// The simulated cloud is the process that runs it, and only one may have its folder.
	stop(original.Stack, "infra-sim")
	check(t, copied.Stack.StartManagers(ctx))
	check(t, copied.AwaitCondition(ctx, copied.ClusterObject(), droverpolicyv1.ManagementClaimedCondition, metav1.ConditionFalse, droverpolicyv1.TakeOverAnnotation))

	// All changes in the copy wait, requested or not.
	check(t, copied.Scale(ctx, 1))
	sets := &clusterv1.MachineSetList{}
	check(t, copied.Stack.ManagementClient.List(ctx, sets, client.InNamespace(copied.Namespace)))
	for i := range sets.Items {
		check(t, copied.AwaitCondition(ctx, &sets.Items[i], clusterv1.MachineSetScalingDownCondition, metav1.ConditionTrue, "another management cluster"))
	}
	machines, err := copied.Machines(ctx)
	check(t, err)
	check(t, copied.Stack.ManagementClient.Delete(ctx, &machines[0]))
	check(t, copied.AwaitCondition(ctx, &machines[0], clusterv1.PausedCondition, metav1.ConditionTrue, "another management cluster"))
	awaitSweeps(ctx, t, metrics)
	if diff := cmp.Diff(before, hosts(ctx, t, original)); diff != "" {
		t.Errorf("the copy has changed the original's machines (-before +after):\n%s", diff)
	}
	for _, m := range original.Stack.Managers() {
		if m.Name == "machine-controller" && m.Err() != nil {
			t.Error(m.Err())
		}
	}

	// The original has ended, and the operator sets the annotation.
	stop(original.Stack, "machine-controller", "bootstrap")
	takeOver(ctx, t, copied)
	check(t, copied.AwaitCondition(ctx, copied.ClusterObject(), droverpolicyv1.ManagementClaimedCondition, metav1.ConditionTrue, ""))
	check(t, copied.Scale(ctx, 4))
	awaitNewNode(ctx, t, copied, before)
}

func start(t *testing.T, options framework.Options) *framework.Stack {
	t.Helper()
	stack, err := framework.Start(t.Context(), options)
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
	return stack
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func restart(t *testing.T, stack *framework.Stack, name string) {
	t.Helper()
	for _, m := range stack.Managers() {
		if m.Name == name {
			m.Stop()
			check(t, m.Start())
		}
	}
}

func stop(stack *framework.Stack, names ...string) {
	for _, m := range stack.Managers() {
		for _, name := range names {
			if m.Name == name {
				m.AllowExit(true)
				m.Stop()
			}
		}
	}
}

// hosts are the Nodes of the workload cluster by name, with the fields that a change would affect.
func hosts(ctx context.Context, t *testing.T, s *workflow.Workflow) map[string]string {
	t.Helper()
	nodes, err := s.Nodes(ctx)
	check(t, err)
	seen := map[string]string{}
	for name, node := range nodes {
		seen[name] = fmt.Sprintf("%s %s cordoned=%t deleting=%t", node.UID, node.Spec.ProviderID, node.Spec.Unschedulable, node.DeletionTimestamp != nil)
	}
	return seen
}

// takeOver does what the condition's message and the guide on restoring describe.
func takeOver(ctx context.Context, t *testing.T, s *workflow.Workflow) {
	t.Helper()
	cluster := s.ClusterObject()
	check(t, s.Stack.ManagementClient.Get(ctx, client.ObjectKeyFromObject(cluster), cluster))
	_, rest, found := strings.Cut(conditions.GetMessage(cluster, droverpolicyv1.ManagementClaimedCondition), droverpolicyv1.TakeOverAnnotation+"=")
	if !found {
		t.Fatalf("the condition does not name the annotation: %v", cluster.Status.Conditions)
	}
	holder, _, _ := strings.Cut(rest, " ")
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, droverpolicyv1.TakeOverAnnotation, holder)
	check(t, s.Stack.ManagementClient.Patch(ctx, cluster, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// awaitNewNode waits for a Node that was not there before.
func awaitNewNode(ctx context.Context, t *testing.T, s *workflow.Workflow, before map[string]string) {
	t.Helper()
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		nodes := &corev1.NodeList{}
		if err := s.Stack.WorkloadClient.List(ctx, nodes); err != nil {
			return false, nil //nolint:nilerr // it is retried
		}
		for _, node := range nodes.Items {
			if _, known := before[node.Name]; !known {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		t.Fatalf("the copy that took over has made no Node: %v", err)
	}
}

// awaitSweeps waits until the collector of orphans has found the original's instances several times, and fails if it
// has collected one.
func awaitSweeps(ctx context.Context, t *testing.T, address string) {
	t.Helper()
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		seen, err := scrape(ctx, address)
		if err != nil {
			return false, nil //nolint:nilerr // it is retried
		}
		if collected := seen[`drover_infra_orphans_collected_total{cloud="sim"}`]; collected > 0 {
			return false, fmt.Errorf("%v orphans were collected", collected)
		}
		kept := seen[`drover_infra_orphan_instances{class="frozen",cloud="sim"}`] + seen[`drover_infra_orphan_instances{class="foreign",cloud="sim"}`]
		return kept > 0 && seen[`drover_infra_orphan_sweeps_total{cloud="sim"}`] >= sweeps, nil
	})
	if err != nil {
		t.Fatalf("the collector of orphans: %v", err)
	}
}

// scrape returns the samples of a manager's metrics by name and labels.
func scrape(ctx context.Context, address string) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	samples := map[string]float64{}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			samples[name] = number
		}
	}
	return samples, lines.Err()
}
