// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodehost decides by addresses whether the host of a Machine has registered a Node. The condition of the Machine and
// `kubectl drover why` say the same of a Node because of it.
package nodehost

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// HasInternalIP reports whether a Node has an internal IP of a Machine. Addresses are used again, so that alone is no evidence.
func HasInternalIP(m *clusterv1.Machine, node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool {
		return a.Type == corev1.NodeInternalIP &&
			slices.Contains(m.Status.Addresses, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: a.Address})
	})
}

// Runs reports whether a Node is ready with an internal IP of a Machine: no two hosts that run have one address.
func Runs(m *clusterv1.Machine, node *corev1.Node) bool {
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return ready && HasInternalIP(m, node)
}
