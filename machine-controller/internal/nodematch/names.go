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
		switch address.Type {
		case clusterv1.MachineHostName, clusterv1.MachineInternalDNS, clusterv1.MachineExternalDNS:
			all = append(all, address.Address)
		case clusterv1.MachineInternalIP, clusterv1.MachineExternalIP:
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
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
		if other.UID != m.UID && !hasOther && slices.Contains(Names(other), name) {
			sharing = append(sharing, other)
		}
	}
	return sharing, nil
}
