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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/index"
	"drover.io/machine-controller/internal/machine/nodesync"
	"drover.io/machine-controller/internal/nodematch"
	"drover.io/machine-controller/internal/ownership"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/requesterror"
	"drover.io/runtime/results"
)

// node finds the machine's Node in the workload cluster by providerID alone, refers to it,
// and keeps the labels, annotations and taints on it that come from the machine. The
// cluster's connection triggers a reconcile when the Node changes, so nothing is polled.
type node struct {
	machines  client.Reader
	workloads *workload.Connections
	// sync decides which labels, annotations and taints the Node should have.
	sync   nodesync.Sync
	events *recorder
}

func (p node) run(ctx context.Context, s *state) (reconcile.Result, error) {
	s.connection = p.workloads.State(s.clusterKey())
	if !hasInstance(s) {
		return reconcile.Result{}, nil
	}
	p.sync.RecordRestricted(s.machine) // in the write that has the providerID
	if err := p.checkProviderIDConflict(ctx, s); err != nil {
		s.node.err = err
		if isProviderIDConflict(err) {
			ctrl.LoggerFrom(ctx).V(1).Info("skipped the Node of another Machine", "message", err.Error())
			return reconcile.Result{RequeueAfter: ownership.RetryPeriod}, nil
		}
		return reconcile.Result{}, err
	}
	connection, err := p.workloads.Get(s.clusterKey())
	if err != nil {
		s.node.err = err
		ctrl.LoggerFrom(ctx).V(1).Info("waiting for the connection to the workload cluster", "reason", s.connection.Reason, "message", s.connection.Message)
		return reconcile.Result{}, nil //nolint:nilerr // the condition reports it, and the connection triggers a reconcile
	}
	unassigned, err := p.nodeToDrain(ctx, s, connection.Node) // before the lookup by providerID, which finds it once it has one
	if err != nil {
		s.node.err = err
		return reconcile.Result{}, err
	}
	found, err := p.byProviderID(ctx, connection, s.machine)
	if found == nil && !connection.Synced() {
		s.connection.Connected = false // the cache may be incomplete
		s.node.err = workload.ErrNotConnected
		// A watch that recovers sends events of changes only, not of its recovery.
		return reconcile.Result{RequeueAfter: answerRetry}, nil
	}
	s.node = observed[corev1.Node]{found, err}
	if found == nil {
		s.namesake = namesakeOf(s.machine, connection.Node)
		ctrl.LoggerFrom(ctx).V(1).Info("waiting for the Node", "providerID", s.machine.Spec.ProviderID, "message", err.Error())
		return p.withoutNode(ctx, connection, s, unassigned)
	}
	if s.machine.Status.NodeRef.Name != found.Name {
		p.events.nodeJoined(s.machine, found.Name)
	}
	s.machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: found.Name}
	s.machine.Status.NodeInfo = boundedNodeInfo(&found.Status.NodeInfo)
	if s.deleting() && s.forDeletion(false).Infrastructure.Deleting() {
		return reconcile.Result{}, nil
	}
	if !p.sync.IsPersisted(s.machine, s.recorded) {
		return reconcile.Result{RequeueAfter: staleCacheRetry}, nil // the event of the write triggers a reconcile, too
	}
	err = p.sync.Apply(ctx, connection.Client(), s.forNodeSync())
	setNodeSynced(s.machine, found, err)
	if err != nil {
		return retryLater(fmt.Errorf("syncing Node %q: %w", found.Name, err))
	}
	p.sync.TrimRecord(s.machine)
	return reconcile.Result{}, nil
}

// hasInstance reports whether the providerID of the machine is that of its instance: one that only a user has written to the
// Machine is not trusted. A status is lost when objects are moved or restored; the InfraMachine of a machine that is being
// deleted then has the providerID in its spec, and need not be provisioned again.
func hasInstance(s *state) bool {
	id := s.machine.Spec.ProviderID
	return id != "" && (isTrue(s.machine.Status.Initialization.InfrastructureProvisioned) ||
		s.deleting() && s.infra.object != nil && s.infra.object.ProviderID() == id)
}

// withoutNode is what is done while no Node of the machine is found by its providerID: the one without a providerID gets it,
// or is what the deletion acts on.
func (p node) withoutNode(ctx context.Context, connection *workload.Connection, s *state, unassigned *corev1.Node) (reconcile.Result, error) {
	var result reconcile.Result
	if isForeignNode(s.node.err) {
		result.RequeueAfter = ownership.RetryPeriod // no event of the other Machine triggers a reconcile
	}
	err := s.node.err
	if apierrors.IsNotFound(err) {
		var next reconcile.Result
		next, err = p.assignProviderID(ctx, connection.Client(), s, connection.Node)
		result = results.Earliest(result, next)
		if unassigned != nil {
			s.node = observed[corev1.Node]{object: unassigned}
			s.machine.Status.NodeRef.Name = unassigned.Name
		}
	}
	next, err := retryLater(err)
	return results.Earliest(result, next), err
}

// namesakeOf returns a Node that has a name of the machine and the providerID of another instance; nil if there is none. The
// host of the machine may not register while it exists.
func namesakeOf(m *clusterv1.Machine, lookup func(name string) (*corev1.Node, bool)) *corev1.Node {
	for _, name := range nodematch.Names(m) {
		if found, ok := lookup(name); ok && found.Spec.ProviderID != "" && found.Spec.ProviderID != m.Spec.ProviderID {
			return found
		}
	}
	return nil
}

// errProviderIDConflict means that another Machine has the same providerID.
var errProviderIDConflict = errors.New("its providerID is another Machine's")

func isProviderIDConflict(err error) bool { return errors.Is(err, errProviderIDConflict) }

// checkProviderIDConflict returns errProviderIDConflict if the InfraMachine does not confirm the
// providerID of the machine, and another Machine of the Cluster has the same: the Node is then not
// followed, drained or deleted, since it is likely the other's.
func (p node) checkProviderIDConflict(ctx context.Context, s *state) error {
	m := s.machine
	if s.infra.object != nil && s.infra.object.ProviderID() == m.Spec.ProviderID {
		return nil
	}
	same, err := index.MachinesByProviderID(ctx, p.machines, m.Spec.ProviderID)
	if err != nil {
		return err
	}
	for _, other := range same {
		if other.UID != m.UID && other.Namespace == m.Namespace && other.Spec.ClusterName == m.Spec.ClusterName {
			return fmt.Errorf("%w: Machine %q has providerID %q, and no %s of this Machine confirms it", errProviderIDConflict, other.Name, m.Spec.ProviderID, m.Spec.InfrastructureRef.Kind)
		}
	}
	return nil
}

// retryLater repeats a request that the workload cluster did not answer, or that conflicted with a
// newer Node than the cached one: changes of fields that the cache drops trigger no reconcile. Other
// errors are returned.
func retryLater(err error) (reconcile.Result, error) {
	if requesterror.IsUnanswered(err) {
		return reconcile.Result{RequeueAfter: answerRetry}, nil
	}
	return results.RequeueOnConflict(err)
}

// namedNodes is how many Nodes a message names.
const namedNodes = 5

// errDuplicateNodes means that several Nodes have the providerID of one machine.
var errDuplicateNodes = errors.New("more than one Node has this providerID")

// foreignNodeError means that the only Node with the providerID of one machine has the name of another, which has no Node.
// It is a NotFound: the machine has no Node of its own.
type foreignNodeError struct{ node, providerID string }

func (e *foreignNodeError) Error() string {
	return fmt.Sprintf("Node %q has the providerID %s of this Machine and the name of another Machine, which has no Node: "+
		"its kubelet reports the providerID, so that this is not trusted. Replace the host of that Machine and delete the Node", e.node, e.providerID)
}

func (e *foreignNodeError) Unwrap() error {
	return apierrors.NewNotFound(corev1.Resource("nodes"), e.node)
}

func isForeignNode(err error) bool {
	_, is := errors.AsType[*foreignNodeError](err)
	return is
}

// byProviderID returns the machine's Node from the connection's cache. Its error is NotFound
// when there is none of its own, or errDuplicateNodes naming the Nodes to choose from.
func (p node) byProviderID(ctx context.Context, connection *workload.Connection, machine *clusterv1.Machine) (*corev1.Node, error) {
	nodes, foreign, err := nodematch.ByProviderID(connection, machine, func(name string) (*clusterv1.Machine, error) {
		return p.named(ctx, machine.Namespace, name)
	})
	switch {
	case err != nil:
		return nil, err
	case len(nodes) == 0 && foreign != nil:
		return nil, &foreignNodeError{foreign.Name, machine.Spec.ProviderID}
	case len(nodes) == 0:
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), machine.Status.NodeRef.Name)
	case len(nodes) == 1:
		return nodes[0], nil
	}
	names := make([]string, 0, namedNodes)
	for _, each := range nodes[:min(len(nodes), namedNodes)] {
		names = append(names, each.Name)
	}
	return nil, fmt.Errorf("%w: %q is claimed by %d, such as %q; delete all but the right one", errDuplicateNodes, machine.Spec.ProviderID, len(nodes), names)
}

// named returns the Machine of a name; nil if there is none.
func (p node) named(ctx context.Context, namespace, name string) (*clusterv1.Machine, error) {
	m := &clusterv1.Machine{}
	if err := p.machines.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, m, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil //nolint:nilnil // not existing is a result
		}
		return nil, fmt.Errorf("reading Machine %q: %w", name, err)
	}
	return m, nil
}
