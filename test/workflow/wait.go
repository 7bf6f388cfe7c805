// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workflow

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
)

// AwaitRunning waits until exactly that many machines exist, every one up to date, running
// and available, each with a Ready Node of its own, and no other Node is left.
func (w *Workflow) AwaitRunning(ctx context.Context, replicas int) error {
	return w.await(ctx, fmt.Sprintf("%d machines to run", replicas), func(ctx context.Context) (string, error) {
		md := &clusterv1.MachineDeployment{}
		if err := w.Stack.ManagementClient.Get(ctx, w.key(w.Deployment()), md); err != nil {
			return "", err
		}
		if md.Status.ObservedGeneration != md.Generation {
			return "the MachineDeployment's controller has not seen its latest change", nil
		}
		machines, err := w.Machines(ctx)
		if err != nil {
			return "", err
		}
		nodes, err := w.Nodes(ctx)
		if err != nil {
			return "", err
		}
		for _, m := range machines {
			if lacks := w.missing(md, &m, nodes); lacks != "" {
				return fmt.Sprintf("Machine %s %s", m.Name, lacks), nil
			}
		}
		if len(machines) != replicas || len(nodes) != replicas || count(md.Status.AvailableReplicas) != replicas {
			return fmt.Sprintf("%d Machines, %d Nodes, %d available replicas", len(machines), len(nodes), count(md.Status.AvailableReplicas)), nil
		}
		return "", nil
	})
}

// missing describes what a machine still lacks to run as its MachineDeployment specifies.
func (w *Workflow) missing(md *clusterv1.MachineDeployment, m *clusterv1.Machine, nodes map[string]*corev1.Node) string {
	for _, condition := range []string{clusterv1.MachineUpToDateCondition, clusterv1.MachineAvailableCondition} {
		if !isTrue(m, condition) {
			return "is not " + condition
		}
	}
	if m.Status.Phase != string(clusterv1.MachinePhaseRunning) {
		return "is " + m.Status.Phase
	}
	node := nodes[m.Status.NodeRef.Name]
	switch {
	case node == nil:
		return "has no Node"
	case node.Spec.ProviderID != m.Spec.ProviderID:
		return "has another providerID than its Node"
	case !nodeReady(node):
		return "has a Node that is not Ready"
	case md.DeletionTimestamp != nil:
		return "is being deleted"
	}
	return ""
}

// AwaitNothingLeft waits until nothing is left of any machine, in either cluster or on the
// simulated cloud: neither object nor Node, token, data Secret or host.
func (w *Workflow) AwaitNothingLeft(ctx context.Context) error {
	return w.await(ctx, "nothing to be left", func(ctx context.Context) (string, error) {
		left, err := w.Remaining(ctx)
		if err != nil || len(left) == 0 {
			return "", err
		}
		return fmt.Sprintf("left: %v", left), nil
	})
}

// Machines are the Machines of the workflow's Cluster.
func (w *Workflow) Machines(ctx context.Context) ([]clusterv1.Machine, error) {
	list := &clusterv1.MachineList{}
	err := w.Stack.ManagementClient.List(ctx, list, client.InNamespace(w.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: w.Cluster})
	return list.Items, err
}

// Nodes are the Nodes of the workload cluster, by name; those of the MachineDeployment only, if others share it.
func (w *Workflow) Nodes(ctx context.Context) (map[string]*corev1.Node, error) {
	list := &corev1.NodeList{}
	if err := w.Stack.WorkloadClient.List(ctx, list); err != nil {
		return nil, err
	}
	nodes := map[string]*corev1.Node{}
	for i := range list.Items {
		if name := list.Items[i].Name; !w.SharesWorkload || strings.HasPrefix(name, w.Deployment()+"-") {
			nodes[name] = &list.Items[i]
		}
	}
	return nodes, nil
}

// Remaining names everything that is left of the workflow's machines.
func (w *Workflow) Remaining(ctx context.Context) ([]string, error) {
	var left []string
	for _, kind := range []client.ObjectList{
		&clusterv1.MachineList{}, &bootstrapv1.BootstrapConfigList{}, &infrav1.SimMachineList{},
	} {
		names, err := namesIn(ctx, w.Stack.ManagementClient, kind, client.InNamespace(w.Namespace))
		if err != nil {
			return nil, err
		}
		left = append(left, names...)
	}
	data, err := w.dataSecrets(ctx)
	if err != nil {
		return nil, err
	}
	tokens, err := w.tokens(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := w.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		left = append(left, "Node "+name)
	}
	hosts, err := w.hosts()
	if err != nil {
		return nil, err
	}
	return slices.Concat(left, data, tokens, hosts), nil
}
