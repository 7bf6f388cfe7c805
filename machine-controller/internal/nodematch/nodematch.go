// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodematch decides which Nodes can be those of a Machine, by providerID and by name. The kubelet of a Node reports
// the providerID, and root on its host can choose it; the name is fixed by the credentials of the kubelet. The controllers
// of Machines and of MachineHealthChecks call it; what to do about none or several is decided there.
package nodematch

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Nodes has the Nodes of a workload cluster, as a connection to it does.
type Nodes interface {
	NodesByProviderID(id string) []*corev1.Node
}

// ByProviderID returns the Nodes with the Machine's providerID. It leaves out, and returns as foreign, one that has the name
// of another Machine of the Cluster which has no Node itself: most likely it is the host of that one. Whether the
// other Machine has a Node is decided without Nodes that are named after a third Machine: otherwise two hosts could confirm
// the providerIDs of each other. The Node to which the
// Machine refers already is not left out. named returns the Machine of a name in the Machine's namespace; nil if there is
// none.
func ByProviderID(nodes Nodes, m *clusterv1.Machine, named func(name string) (*clusterv1.Machine, error)) (own []*corev1.Node, foreign *corev1.Node, err error) {
	for _, node := range nodes.NodesByProviderID(m.Spec.ProviderID) {
		isForeign, err := isForeign(nodes, node, m, named)
		switch {
		case err != nil:
			return nil, nil, err
		case isForeign:
			foreign = node
		default:
			own = append(own, node)
		}
	}
	return own, foreign, nil
}

func isForeign(nodes Nodes, node *corev1.Node, m *clusterv1.Machine, named func(string) (*clusterv1.Machine, error)) (bool, error) {
	if node.Name == m.Name || node.Name == m.Status.NodeRef.Name {
		return false, nil
	}
	other, err := named(node.Name)
	if err != nil || other == nil || other.Spec.ClusterName != m.Spec.ClusterName {
		return false, err
	}
	if other.Spec.ProviderID == "" {
		return true, nil
	}
	for _, candidate := range nodes.NodesByProviderID(other.Spec.ProviderID) {
		if slices.Contains([]string{other.Name, other.Status.NodeRef.Name, m.Name}, candidate.Name) {
			return false, nil
		}
		third, err := named(candidate.Name)
		if err != nil || third == nil || third.Spec.ClusterName != m.Spec.ClusterName {
			return false, err
		}
	}
	return true, nil
}
