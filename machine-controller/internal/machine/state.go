// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/machine/deletion"
	"drover.io/machine-controller/internal/machine/nodesync"
	"drover.io/machine-controller/internal/ownership"
	"drover.io/machine-controller/internal/workload"
)

// state is one Machine and what a reconcile has observed about it. The controller sets Machine,
// Cluster and owners; each phase adds what it has observed, and the conditions are computed from the
// state at the end.
type state struct {
	machine *clusterv1.Machine
	cluster *clusterv1.Cluster
	// set and deployment own the machine; nil for a stand-alone machine. They and the Cluster
	// share the cache's memory and must not be changed.
	set        *clusterv1.MachineSet
	deployment *clusterv1.MachineDeployment

	bootstrap observed[contract.BootstrapConfig]
	infra     observed[contract.InfraMachine]
	node      observed[corev1.Node]
	// namesake is the Node of another instance that has a name of the machine, while the machine has no Node.
	namesake *corev1.Node
	// recorded is what the API server has in policyv1.RestrictedOnNodeAnnotation of the machine.
	recorded map[string]bool

	// connection is the state of the connection to the workload cluster.
	connection workload.State
	// deletion is how far the deletion of the machine has come.
	deletion deletion.Progress
}

// observed is an object that was read, or the error instead.
type observed[T any] struct {
	object *T
	// err is NotFound when the object does not exist; other errors leave it unknown.
	err error
}

func (s *state) deleting() bool { return !s.machine.DeletionTimestamp.IsZero() }

func (s *state) clusterKey() client.ObjectKey {
	return client.ObjectKey{Namespace: s.machine.Namespace, Name: s.machine.Spec.ClusterName}
}

// connecting reports whether it is not known yet if the machine has a Node, because no attempt to connect to its workload
// cluster has ended, or the Nodes there are not read yet.
func (s *state) connecting() bool {
	first := s.connection.Reason == "" || s.connection.Reason == workload.ReasonConnecting
	return s.cluster.UID != "" && hasInstance(s) && !s.connection.Connected && first
}

// forNodeSync is the part of the state that the sync of labels, annotations and taints acts on.
func (s *state) forNodeSync() nodesync.State {
	n := nodesync.State{Machine: s.machine, MachineSet: s.set, Deployment: s.deployment, Node: s.node.object}
	if s.infra.object != nil {
		n.Interruptible = new(s.infra.object.Interruptible())
	}
	return n
}

// forDeletion is the part of the state that the deletion acts on.
func (s *state) forDeletion(controlPlaneDeleting bool) deletion.State {
	d := deletion.State{
		Machine:              s.machine,
		Cluster:              s.cluster,
		MachineSet:           s.set,
		Deployment:           s.deployment,
		Infrastructure:       deletion.Object{Err: s.infra.err, Foreign: ownership.IsRefused(s.infra.err)},
		Bootstrap:            deletion.Object{Err: s.bootstrap.err, Foreign: ownership.IsRefused(s.bootstrap.err)},
		Node:                 s.node.object,
		NodeErr:              s.node.err,
		ProviderIDConflict:   isProviderIDConflict(s.node.err),
		ControlPlaneDeleting: controlPlaneDeleting,
		Disconnected:         disconnectedMessage(s.connection),
		Connecting:           s.connecting(),
	}
	if s.cluster.UID == "" {
		d.Disconnected = fmt.Sprintf("Cluster %q does not exist", s.machine.Spec.ClusterName)
	}
	if s.infra.object != nil {
		d.Infrastructure.Unstructured = s.infra.object.Unstructured
	}
	if s.bootstrap.object != nil {
		d.Bootstrap.Unstructured = s.bootstrap.object.Unstructured
	}
	return d
}
