// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package paralleldrain

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/framework"
	"drover.io/test/pods"
	"drover.io/test/scenarios/internal/parser"
	"drover.io/test/scenarios/internal/runner"
)

// waitTimeout bounds each wait; it does not measure how long one takes.
const waitTimeout = 10 * time.Minute

const namespace = "parallel-drain"

func TestParallelDrain(t *testing.T) {
	stack := start(t)
	s := &runner.Runner{Stack: stack, Namespace: namespace, Timeout: waitTimeout, Progress: t.Logf}
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	work, err := client.NewWithWatch(stack.Workload.AdminConfig(), client.Options{Scheme: stack.WorkloadClient.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	audit := &auditor{replicas: replicas, pods: map[types.UID]*corev1.Pod{}, complete: map[string]bool{}}
	runInBackground(t, func(ctx context.Context) error {
		return (&pods.Scheduler{Client: work, Namespace: namespace, Avoid: "drain-other"}).Run(ctx)
	})
	runInBackground(t, func(ctx context.Context) error { return audit.run(ctx, work, namespace) })

	steps, err := parser.Load("scenario", "../given", s.Variables())
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		if err := prepare(t.Context(), step.File, work); err != nil {
			t.Fatal(err)
		}
		if err := s.Run(t.Context(), []parser.Step{step}); err != nil {
			t.Fatal(err)
		}
	}
	evicted, broken := audit.result()
	if evicted < apps*replicas {
		t.Errorf("only %d pods were seen to leave", evicted)
	}
	if len(broken) > 0 {
		t.Errorf("%d promises were broken: %s", len(broken), strings.Join(broken[:min(len(broken), 10)], "; "))
	}
	t.Logf("%d pods have left their Nodes", evicted)
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// prepare does what the scenario's files cannot express, before the step.
func prepare(ctx context.Context, file string, work client.Client) error {
	switch {
	case strings.HasPrefix(file, "02-"):
		if err := installStuck(ctx, work, namespace); err != nil {
			return err
		}
		if err := await(ctx, work, func(pods []corev1.Pod, _ map[string]bool) bool { return running(pods) == machines }); err != nil {
			return err
		}
		return install(ctx, work, namespace)
	case strings.HasPrefix(file, "11-"):
		return await(ctx, work, moved)
	}
	return nil
}

// moved reports whether every app runs in full on Nodes that are not cordoned.
func moved(pods []corev1.Pod, cordoned map[string]bool) bool {
	there := 0
	for _, pod := range pods {
		if pod.Labels["app"] != "stuck" && pod.Spec.NodeName != "" && !cordoned[pod.Spec.NodeName] && ready(&pod) {
			there++
		}
	}
	return there == apps*replicas
}

func running(pods []corev1.Pod) int {
	count := 0
	for _, pod := range pods {
		if ready(&pod) {
			count++
		}
	}
	return count
}

// await looks at pods and cordoned Nodes until they are as wanted.
func await(ctx context.Context, work client.Client, wanted func(pods []corev1.Pod, cordoned map[string]bool) bool) error {
	return wait.PollUntilContextTimeout(ctx, time.Second, waitTimeout, true, func(ctx context.Context) (bool, error) {
		pods, nodes := &corev1.PodList{}, &corev1.NodeList{}
		if err := work.List(ctx, pods, client.InNamespace(namespace)); err != nil {
			return false, err
		}
		if err := work.List(ctx, nodes); err != nil {
			return false, err
		}
		cordoned := map[string]bool{}
		for _, node := range nodes.Items {
			cordoned[node.Name] = node.Spec.Unschedulable
		}
		return wanted(pods.Items, cordoned), nil
	})
}

// start starts a stack whose machine-controller has far fewer workers than there are drains.
func start(t *testing.T) *framework.Stack {
	t.Helper()
	stack, err := framework.Start(t.Context(), framework.Options{Args: map[string][]string{"machine-controller": {"--worker-count=2"}}})
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

// runInBackground runs something beside the test, to its end.
func runInBackground(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		if err := run(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("it ended early: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
}
