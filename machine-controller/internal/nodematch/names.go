// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nodematch

import (
	"context"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/index"
)

// Names are the names that the Machine's Node can have, each once.
func Names(m *clusterv1.Machine) []string {
	all := []string{m.Name, m.Spec.InfrastructureRef.Name}
	for _, address := range m.Status.Addresses {
		if isName(address.Type) {
			all = append(all, address.Address)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// hasName reports whether Names has the name, and makes no garbage: it is called for every Machine of a Cluster.
func hasName(m *clusterv1.Machine, name string) bool {
	return m.Name == name || m.Spec.InfrastructureRef.Name == name || slices.ContainsFunc(m.Status.Addresses, func(a clusterv1.MachineAddress) bool {
		return a.Address == name && isName(a.Type)
	})
}

func isName(kind clusterv1.MachineAddressType) bool {
	return kind == clusterv1.MachineHostName || kind == clusterv1.MachineInternalDNS || kind == clusterv1.MachineExternalDNS
}

// Sharing returns the other Machines of the Cluster whose Node can have the name, too: those that have it and no Node, or
// whose Node has it. A Node without a providerID is then not known to be the Machine's: names are used again, as those that
// are made of addresses.
func Sharing(ctx context.Context, machines client.Reader, m *clusterv1.Machine, name string) ([]*clusterv1.Machine, error) {
	all, err := index.MachinesOfCluster(ctx, machines, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName})
	if err != nil {
		return nil, err
	}
	var sharing []*clusterv1.Machine
	for _, other := range all {
		hasOther := other.Status.NodeRef.IsDefined() && other.Status.NodeRef.Name != name
		if other.UID != m.UID && !hasOther && hasName(other, name) {
			sharing = append(sharing, other)
		}
	}
	return sharing, nil
}
