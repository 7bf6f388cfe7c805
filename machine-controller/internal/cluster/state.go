// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/predicates"
)

// state is one Cluster and what a reconcile has observed about it.
type state struct {
	cluster         *clusterv1.Cluster
	infra           *contract.InfraCluster
	infraErr        error
	controlPlane    *contract.ControlPlane
	controlPlaneErr error
	connection      workload.State
	workers         workers
	deletion        progress
}

// progress is how far a deletion has come: reason and message of the Deleting condition.
type progress struct{ reason, message string }

// block adds what has to change before the deletion continues.
func (p *progress) block(why string) {
	p.reason = droverpolicyv1.BlockedReason
	p.message += ": " + why
}

// blockForeign adds that an object which could not be read is labelled for another manager, if that is why.
func (p *progress) blockForeign(err error) {
	if foreign, is := errors.AsType[*predicates.ForeignError](err); is {
		p.block(foreign.Error())
	}
}

// observe reads the connection and the workers of a Cluster.
func (r *Reconciler) observe(ctx context.Context, s *state) error {
	var err error
	s.connection = r.Workloads.State(client.ObjectKeyFromObject(s.cluster))
	key := client.ObjectKeyFromObject(s.cluster)
	if s.workers.deployments, err = index.MachineDeploymentsOfCluster(ctx, r.Client, key); err != nil {
		return err
	}
	sets, err := index.MachineSetsOfCluster(ctx, r.Client, key)
	if err != nil {
		return err
	}
	for _, set := range sets {
		if metav1.GetControllerOfNoCopy(set) == nil {
			s.workers.sets = append(s.workers.sets, set)
		}
	}
	if s.workers.all, err = index.MachinesOfCluster(ctx, r.Client, key); err != nil {
		return err
	}
	for _, m := range s.workers.all {
		if _, controlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]; controlPlane {
			s.workers.controlPlane = append(s.workers.controlPlane, m)
		} else if metav1.GetControllerOfNoCopy(m) == nil {
			s.workers.machines = append(s.workers.machines, m)
		}
	}
	return nil
}
