// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/nodematch"
	"drover.io/machine-controller/internal/safety"
	"drover.io/machine-controller/internal/workload"
)

// nodes observes the Nodes of the targets, if the workload cluster and the management cluster answer.
type nodes struct {
	workloads *workload.Connections
	guard     *safety.Guard
}

func (p nodes) run(ctx context.Context, s *state) (reconcile.Result, error) {
	key := client.ObjectKeyFromObject(s.cluster)
	connectionState := p.workloads.State(key)
	connection, err := p.workloads.Get(key)
	reachability := p.guard.Management()
	switch {
	case !reachability.Reachable():
		s.disconnected = "The management cluster does not answer"
	case err != nil && connectionState.Message != "":
		s.disconnected = "Not connected to the workload cluster: " + connectionState.Message
	case err != nil:
		s.disconnected = "Not connected to the workload cluster yet"
	case !connection.Synced():
		s.disconnected = "The Nodes of the workload cluster cannot be listed and watched"
	}
	if s.disconnected != "" {
		ctrl.LoggerFrom(ctx).V(1).Info("waiting to observe the Nodes of the workload cluster", "message", s.disconnected)
		return reconcile.Result{RequeueAfter: recheckPeriod}, nil
	}
	s.since, s.nodes = connectionState.ConnectedSince, map[types.UID][]*corev1.Node{}
	if reachability.Since.After(s.since) {
		s.since = reachability.Since
	}
	byName := make(map[string]*clusterv1.Machine, len(s.all))
	for _, m := range s.all {
		byName[m.Name] = m
	}
	for _, m := range s.targets {
		s.nodes[m.UID] = nodesOf(connection, m, byName)
	}
	return reconcile.Result{}, nil
}

// nodeCache has the Nodes of a workload cluster, as a connection to it does.
type nodeCache interface {
	nodematch.Nodes
	Node(name string) (*corev1.Node, bool)
}

// nodesOf finds a Machine's Node by providerID. A Node with the name in nodeRef and without a
// providerID has just registered again.
func nodesOf(connection nodeCache, m *clusterv1.Machine, byName map[string]*clusterv1.Machine) []*corev1.Node {
	if m.Spec.ProviderID != "" {
		named := func(name string) (*clusterv1.Machine, error) { return byName[name], nil }
		if nodes, _, _ := nodematch.ByProviderID(connection, m, named); len(nodes) > 0 {
			return nodes
		}
	}
	if node, found := connection.Node(m.Status.NodeRef.Name); found && node.Spec.ProviderID == "" {
		return []*corev1.Node{node}
	}
	return nil
}
