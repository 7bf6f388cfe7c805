// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/outcome"
	"drover.io/machine-controller/internal/workload"
)

// node finds the machine's Node in the workload cluster by providerID alone, refers to it,
// and keeps the labels, annotations and taints on it that come from the machine. The
// cluster's connection wakes the machine when its Node changes, so nothing is polled.
type node struct {
	workloads *workload.Connections
	// sync decides what the Node should carry.
	sync   nodeSync
	events *recorder
}

func (p node) run(ctx context.Context, s *subject) (reconcile.Result, error) {
	s.connection = p.workloads.State(s.clusterKey())
	if s.machine.Spec.ProviderID == "" {
		return reconcile.Result{}, nil
	}
	connection, err := p.workloads.Get(s.clusterKey())
	if err != nil {
		s.node.err = err
		return reconcile.Result{}, nil //nolint:nilerr // the condition says so, and the connection wakes us
	}
	found, err := byProviderID(connection, s.machine)
	if found == nil && !connection.Synced() {
		s.connection.Connected = false // what the cache lacks may exist
		s.node.err = workload.ErrNotConnected
		return reconcile.Result{}, nil
	}
	s.node = seen[corev1.Node]{found, err}
	if found == nil {
		if apierrors.IsNotFound(err) {
			err = p.assign(ctx, connection.Client(), s, connection.Node)
		}
		return later(err)
	}
	if s.machine.Status.NodeRef.Name != found.Name {
		p.events.nodeJoined(s.machine, found.Name)
	}
	s.machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: found.Name}
	s.machine.Status.NodeInfo = found.Status.NodeInfo.DeepCopy()
	if s.deleting() {
		return reconcile.Result{}, nil
	}
	if err := p.sync.apply(ctx, connection.Client(), s); outcome.Settled(err) != nil {
		return later(fmt.Errorf("syncing Node %q: %w", found.Name, err))
	}
	return reconcile.Result{}, nil
}

// later tries a request again that the workload cluster did not answer; other errors stay.
func later(err error) (reconcile.Result, error) {
	if workload.IsUnanswered(err) {
		return reconcile.Result{RequeueAfter: answerRetry}, nil
	}
	return reconcile.Result{}, err
}

// errDuplicateNodes says that several Nodes claim the providerID of one machine.
var errDuplicateNodes = errors.New("more than one Node has this providerID")

// byProviderID returns the machine's Node from the connection's cache. Its error is NotFound
// when there is none, or errDuplicateNodes naming the Nodes to choose from.
func byProviderID(connection *workload.Connection, machine *clusterv1.Machine) (*corev1.Node, error) {
	nodes := connection.NodesByProviderID(machine.Spec.ProviderID)
	switch len(nodes) {
	case 0:
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), machine.Status.NodeRef.Name)
	case 1:
		return nodes[0], nil
	}
	names := make([]string, 0, len(nodes))
	for _, each := range nodes {
		names = append(names, each.Name)
	}
	return nil, fmt.Errorf("%w: %q is claimed by %q; delete all but the right one", errDuplicateNodes, machine.Spec.ProviderID, names)
}
