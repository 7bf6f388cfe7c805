// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/test/framework"
	"drover.io/test/workflow"
)

const (
	namespace = "default"
	look      = 100 * time.Millisecond
)

//go:embed objects.yaml
var objects string

// workload is every machine of a scenario: one MachineDeployment in each cluster.
type workload struct {
	stack    *framework.Stack
	scenario scenario
	// seen reads what a watch has received, without a request to the API server.
	seen client.Reader
	// outdated are the Machines that a rollout replaces, by name.
	outdated map[string]bool
}

// found makes the clusters, without machines, and waits until the core has connected to each.
func (f *workload) found(ctx context.Context, reach func(cluster string) ([]byte, error)) error {
	for _, cluster := range f.scenario.clusterNames() {
		if err := f.foundOne(ctx, cluster, reach); err != nil {
			return fmt.Errorf("making cluster %q: %w", cluster, err)
		}
	}
	return f.await(ctx, "every Cluster to be connected", func(ctx context.Context) (string, error) {
		list := &clusterv1.ClusterList{}
		if err := f.stack.ManagementClient.List(ctx, list); err != nil {
			return "", err
		}
		for i := range list.Items {
			if !connected(&list.Items[i]) {
				return list.Items[i].Name + " is not", nil
			}
		}
		return "", nil
	})
}

func connected(cluster *clusterv1.Cluster) bool {
	for _, condition := range cluster.Status.Conditions {
		if condition.Type == clusterv1.ClusterRemoteConnectionProbeCondition {
			return condition.Status == metav1.ConditionTrue
		}
	}
	return false
}

func (f *workload) foundOne(ctx context.Context, cluster string, reach func(cluster string) ([]byte, error)) error {
	kubeconfig, err := reach(cluster)
	if err != nil {
		return err
	}
	if err := f.stack.ManagementClient.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: cluster + "-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: cluster},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"value": kubeconfig},
	}); err != nil {
		return err
	}
	parsed, err := template.New("objects.yaml").Parse(objects)
	if err != nil {
		return err
	}
	host, port := f.stack.Workload.Endpoint()
	var documents bytes.Buffer
	if err := parsed.Execute(&documents, map[string]any{
		"Cluster": cluster, "Version": workflow.Kubernetes, "Host": host, "Port": port, "Full": f.scenario.full, "Sizes": []string{"small", "medium"},
	}); err != nil {
		return err
	}
	return framework.Apply(ctx, f.stack.ManagementClient, documents.Bytes())
}

// scale sets the number of machines in each cluster.
func (f *workload) scale(ctx context.Context, each int) error {
	return f.change(ctx, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = ptr.To(int32(each)) }) //nolint:gosec // small
}

// roll replaces every machine.
func (f *workload) roll(ctx context.Context) error {
	machines := &clusterv1.MachineList{}
	if err := f.stack.ManagementClient.List(ctx, machines); err != nil {
		return err
	}
	f.outdated = map[string]bool{}
	for i := range machines.Items {
		f.outdated[machines.Items[i].Name] = true
	}
	return f.change(ctx, func(md *clusterv1.MachineDeployment) {
		md.Spec.Template.Spec.InfrastructureRef.Name = md.Spec.ClusterName + "-medium"
	})
}

func (f *workload) change(ctx context.Context, do func(*clusterv1.MachineDeployment)) error {
	list := &clusterv1.MachineDeploymentList{}
	if err := f.stack.ManagementClient.List(ctx, list); err != nil {
		return err
	}
	for i := range list.Items {
		before := list.Items[i].DeepCopy()
		do(&list.Items[i])
		if err := f.stack.ManagementClient.Patch(ctx, &list.Items[i], client.MergeFrom(before)); err != nil {
			return err
		}
	}
	return nil
}

// running waits until there are exactly so many machines, all Running, and every MachineDeployment reports them.
func (f *workload) running(ctx context.Context, want int) error {
	return f.await(ctx, fmt.Sprintf("%d Machines to run", want), func(ctx context.Context) (string, error) {
		machines := &clusterv1.MachineList{}
		if err := f.seen.List(ctx, machines, client.UnsafeDisableDeepCopy); err != nil {
			return "", err
		}
		runs := 0
		for i := range machines.Items {
			if m := &machines.Items[i]; m.Status.Phase == string(clusterv1.MachinePhaseRunning) && !f.outdated[m.Name] {
				runs++
			}
		}
		if len(machines.Items) != want || runs != want {
			return fmt.Sprintf("%d of %d run", runs, len(machines.Items)), nil
		}
		return f.counted(ctx, int32(want)) //nolint:gosec // small
	})
}

// counted returns what MachineDeployments do not report yet. It reads from the API server, because a watch may not
// have brought the latest order.
func (f *workload) counted(ctx context.Context, want int32) (string, error) {
	list := &clusterv1.MachineDeploymentList{}
	if err := f.stack.ManagementClient.List(ctx, list); err != nil {
		return "", err
	}
	var available, current int32
	for i := range list.Items {
		md := &list.Items[i]
		if md.Status.ObservedGeneration != md.Generation {
			return md.Name + " is not up to date", nil
		}
		available += ptr.Deref(md.Status.AvailableReplicas, 0)
		current += ptr.Deref(md.Status.UpToDateReplicas, 0)
	}
	if available != want || current != want {
		return fmt.Sprintf("%d are available, %d up to date", available, current), nil
	}
	return "", nil
}

// await polls until nothing is missing.
func (f *workload) await(ctx context.Context, what string, missing func(context.Context) (string, error)) error {
	var last string
	err := wait.PollUntilContextCancel(ctx, look, true, func(ctx context.Context) (bool, error) {
		for _, m := range f.stack.Managers() {
			if err := m.Err(); err != nil {
				return false, err
			}
		}
		var err error
		last, err = missing(ctx)
		return err == nil && last == "", err
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w (%s)", what, err, last)
	}
	return nil
}
