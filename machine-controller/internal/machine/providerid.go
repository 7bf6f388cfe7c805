// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/annotation"
)

// assignProviderID writes the machine's providerID to the one Node without a providerID that is
// certainly the machine's. The event of the Node triggers a reconcile, which finds it by providerID.
func (p node) assignProviderID(ctx context.Context, c client.Client, s *state, lookup func(name string) (*corev1.Node, bool)) error {
	if !annotation.AssignsProviderIDs(s.cluster) {
		return nil
	}
	current := nodeWithoutProviderID(s.machine, lookup)
	if current == nil {
		return nil
	}
	assigned := current.DeepCopy()
	assigned.Spec.ProviderID = s.machine.Spec.ProviderID
	if err := c.Patch(ctx, assigned, client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("assigning the providerID to Node %q: %w", current.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("assigned providerID to Node", "Node", klog.KObj(current), "providerID", s.machine.Spec.ProviderID)
	p.events.providerIDAssigned(s.machine, current.Name)
	return nil
}

// nodeWithoutProviderID returns the only Node without a providerID that is the machine's; nil if there
// is none, or more than one.
func nodeWithoutProviderID(m *clusterv1.Machine, lookup func(name string) (*corev1.Node, bool)) *corev1.Node {
	var found []*corev1.Node
	for _, name := range nodeNames(m) {
		if each, ok := lookup(name); ok && isNodeOf(m, each) {
			found = append(found, each)
		}
	}
	if len(found) != 1 {
		return nil
	}
	return found[0]
}

// isNodeOf reports whether a Node without a providerID has both a name and an internal IP of the
// machine. Neither alone is sufficient: names and addresses are used again.
func isNodeOf(m *clusterv1.Machine, n *corev1.Node) bool {
	if n.Spec.ProviderID != "" || !slices.Contains(nodeNames(m), n.Name) {
		return false
	}
	return slices.ContainsFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool {
		return a.Type == corev1.NodeInternalIP &&
			slices.Contains(m.Status.Addresses, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: a.Address})
	})
}

// nodeNames are the names that the machine's Node can have, each once.
func nodeNames(m *clusterv1.Machine) []string {
	all := []string{m.Name, m.Spec.InfrastructureRef.Name}
	for _, address := range m.Status.Addresses {
		switch address.Type {
		case clusterv1.MachineHostName, clusterv1.MachineInternalDNS, clusterv1.MachineExternalDNS:
			all = append(all, address.Address)
		case clusterv1.MachineInternalIP, clusterv1.MachineExternalIP:
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
