// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/api/reason"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/kubectl-drover/internal/why"
)

// Opener opens the workload cluster of a Cluster.
type Opener func(context.Context, client.ObjectKey) (*object.Reader, error)

// Machine is the tree of a Machine: its objects, and its Node where the workload cluster can be read.
func (b *Builder) Machine(ctx context.Context, key client.ObjectKey, open Opener) (*Item, error) {
	m := &clusterv1.Machine{}
	if err := b.Get(ctx, object.Machine, key, m); err != nil {
		return nil, err
	}
	item := &Item{Kind: "Machine", Names: []string{m.Name}, State: phase(m), Problem: problem(why.Problem(m))}
	for _, ref := range []clusterv1.ContractVersionedObjectReference{m.Spec.Bootstrap.ConfigRef, m.Spec.InfrastructureRef} {
		if ref.IsDefined() {
			item.Children = append(item.Children, b.referenced(ctx, m.Namespace, ref))
		}
	}
	if m.Status.NodeRef.IsDefined() {
		item.Children = append(item.Children, b.node(ctx, m, open))
	}
	return item, nil
}

// phase is that of the status, but for a deletion that nobody has begun, as while the Machine is paused.
func phase(m *clusterv1.Machine) string {
	if !m.DeletionTimestamp.IsZero() && m.Status.Phase != string(clusterv1.MachinePhaseDeleted) {
		return string(clusterv1.MachinePhaseDeleting)
	}
	return m.Status.Phase
}

// referenced is an object of a provider, with every condition that is not as it should be.
func (b *Builder) referenced(ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference) *Item {
	item := &Item{Kind: ref.Kind, Names: []string{ref.Name}}
	found, err := b.Referenced(ctx, namespace, ref)
	if err != nil {
		item.Problem = &Problem{Message: err.Error()}
		return item
	}
	for _, c := range object.Conditions(found) {
		entry, known := reason.Find(ref.Kind, c.Type, c.Reason)
		switch {
		case known && entry.Fine() && c.Type == clusterv1.ReadyCondition:
			item.State = c.Reason
		case known && !entry.Fine(), !known && c.Type == clusterv1.ReadyCondition && c.Status != metav1.ConditionTrue:
			item.Children = append(item.Children, conditionItem(c))
		}
	}
	return item
}

func conditionItem(c metav1.Condition) *Item {
	return &Item{Kind: "condition", Names: []string{c.Type}, Problem: &Problem{c.Type, c.Status, c.Reason, c.Message, c.LastTransitionTime}}
}

// goodWhenFalse are the conditions of a Node that report a problem while they are True.
var goodWhenFalse = map[string]bool{
	string(corev1.NodeMemoryPressure): true, string(corev1.NodeDiskPressure): true, string(corev1.NodePIDPressure): true, string(corev1.NodeNetworkUnavailable): true,
}

func (b *Builder) node(ctx context.Context, m *clusterv1.Machine, open Opener) *Item {
	item := &Item{Kind: "Node", Names: []string{m.Status.NodeRef.Name}}
	workload, err := open(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName})
	if err != nil {
		item.State = fmt.Sprintf("not read: %v", err)
		return item
	}
	node := &corev1.Node{}
	if err := workload.Get(ctx, object.Node, client.ObjectKey{Name: m.Status.NodeRef.Name}, node); err != nil {
		item.Problem = &Problem{Message: err.Error()}
		return item
	}
	item.State = node.Status.NodeInfo.KubeletVersion
	if node.Spec.Unschedulable {
		item.State += ", cordoned"
	}
	for _, c := range object.NodeConditions(node) {
		good := metav1.ConditionTrue
		if goodWhenFalse[c.Type] {
			good = metav1.ConditionFalse
		}
		if (c.Type == string(corev1.NodeReady) || goodWhenFalse[c.Type]) && c.Status != good {
			item.Children = append(item.Children, conditionItem(c))
		}
	}
	return item
}
