// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/workload"
)

// state is one Machine and what a reconcile has observed about it so far. The
// controller fills in Machine, Cluster and the owners; each phase adds what it has seen, and
// the conditions are computed from the whole at the end.
type state struct {
	machine *clusterv1.Machine
	cluster *clusterv1.Cluster
	// set and deployment own the machine; nil for a machine that stands alone. They and the Cluster
	// share the cache's memory and must not be changed.
	set        *clusterv1.MachineSet
	deployment *clusterv1.MachineDeployment

	bootstrap seen[contract.BootstrapConfig]
	infra     seen[contract.InfraMachine]
	node      seen[corev1.Node]
	// recorded is what the API server has in policyv1.RestrictedOnNodeAnnotation of the machine.
	recorded map[string]bool

	// connection is the state of the connection to the workload cluster.
	connection workload.State
	// planeGoes says of a machine that is deleted that the Nodes go with their control plane.
	planeGoes bool
	deletion  progress
}

// seen is what came of looking for an object: the object, or why there is none.
type seen[T any] struct {
	object *T
	// err is NotFound when the object does not exist; other errors leave it unknown.
	err error
}

// progress says where a deletion stands, in the words of the Deleting condition.
type progress struct {
	reason, message string
}

func (s *state) deleting() bool { return !s.machine.DeletionTimestamp.IsZero() }

func (s *state) clusterKey() client.ObjectKey {
	return client.ObjectKey{Namespace: s.machine.Namespace, Name: s.machine.Spec.ClusterName}
}

// fleet is what a MachinePolicy would select for the machine: its MachineDeployment, or a
// MachineSet that has none; nil for a machine that stands alone.
func (s *state) owner() client.Object {
	switch {
	case s.deployment != nil:
		return s.deployment
	case s.set != nil:
		return s.set
	}
	return nil
}
