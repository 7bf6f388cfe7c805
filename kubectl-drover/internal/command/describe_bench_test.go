// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// BenchmarkDescribe has the program, as it ships, describe a Cluster of 5,000 Machines, of which one in a hundred is not well. It
// reports the largest memory of the process beside the time:
//
//	go test -run '^$' -bench Describe -benchtime 5x ./internal/command
func BenchmarkDescribe(b *testing.B) {
	const machines, creators = 5000, 16
	namespaceNamed(b, "bench")
	apply(b, "testdata/tree.yaml", "bench")
	c := management.Client(b)
	pattern := &clusterv1.Machine{}
	if err := c.Get(b.Context(), client.ObjectKey{Namespace: "bench", Name: "web-new-0"}, pattern); err != nil {
		b.Fatal(err)
	}
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(creators)
	for i := range machines {
		group.Go(func() error {
			m := &clusterv1.Machine{Spec: pattern.Spec, ObjectMeta: metav1.ObjectMeta{
				Namespace: "bench", Name: fmt.Sprintf("bench-%04d", i), Labels: pattern.Labels, OwnerReferences: pattern.OwnerReferences,
			}}
			if err := c.Create(ctx, m); err != nil {
				return err
			}
			m.Status = running(i)
			return c.Status().Update(ctx, m)
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	program := filepath.Join(b.TempDir(), "kubectl-drover")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", program, "drover.io/kubectl-drover").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	kubeconfig := admin(b, management)
	var largest int64
	for b.Loop() {
		describe := exec.CommandContext(b.Context(), program, "describe", "cluster", "shop", "--namespace", "bench", "--kubeconfig", kubeconfig)
		out, err := describe.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("InsufficientQuota")) {
			b.Fatalf("%v: %s", err, out)
		}
		if usage, is := describe.ProcessState.SysUsage().(*syscall.Rusage); is {
			largest = max(largest, usage.Maxrss)
		}
	}
	b.ReportMetric(float64(largest)/1024, "MiB")
}

// running is the status of a Machine with all conditions; one in a hundred is not well.
func running(i int) clusterv1.MachineStatus {
	s := clusterv1.MachineStatus{
		Phase: string(clusterv1.MachinePhaseRunning), NodeRef: clusterv1.MachineNodeReference{Name: fmt.Sprintf("bench-%04d", i)},
		Addresses: clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: "10.0.0.1"}, {Type: clusterv1.MachineHostName, Address: "host"}},
		NodeInfo:  &corev1.NodeSystemInfo{OSImage: "Ubuntu 24.04.3 LTS", KubeletVersion: "v1.36.3", ContainerRuntimeVersion: "containerd://2.2.1"},
	}
	since := metav1.NewTime(noon.Add(-time.Hour))
	for _, kind := range []string{
		clusterv1.MachineAvailableCondition, clusterv1.MachineReadyCondition, clusterv1.MachineUpToDateCondition, clusterv1.MachineBootstrapConfigReadyCondition,
		clusterv1.MachineInfrastructureReadyCondition, clusterv1.MachineNodeReadyCondition, clusterv1.MachineNodeHealthyCondition, clusterv1.MachineHealthCheckSucceededCondition,
	} {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: since}
		if i%100 == 0 {
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, "InsufficientQuota", fmt.Sprintf("request %d failed", i)
		}
		s.Conditions = append(s.Conditions, c)
	}
	for _, kind := range []string{clusterv1.DeletingCondition, clusterv1.PausedCondition, clusterv1.MachineUpdatingCondition} {
		s.Conditions = append(s.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: "Not" + kind, LastTransitionTime: since})
	}
	return s
}
