// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/annotation"
	"drover.io/machine-controller/internal/nodematch"
	"drover.io/machine-controller/internal/ownership"
	"drover.io/runtime/nodehost"
)

// assignProviderID writes the machine's providerID to the one Node without a providerID that is
// certainly the machine's. The event of the Node triggers a reconcile, which finds it by providerID.
func (p node) assignProviderID(ctx context.Context, c client.Client, s *state, lookup func(name string) (*corev1.Node, bool)) (reconcile.Result, error) {
	if !annotation.AssignsProviderIDs(s.cluster) {
		return reconcile.Result{}, nil
	}
	current := nodeWithoutProviderID(s.machine, lookup)
	if current == nil {
		return reconcile.Result{}, nil
	}
	sharing, err := nodematch.Sharing(ctx, p.machines, s.machine, current.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if i := slices.IndexFunc(sharing, func(other *clusterv1.Machine) bool { return isNodeOf(other, current) }); i >= 0 {
		ctrl.LoggerFrom(ctx).V(1).Info("waiting because the Node can be that of another Machine", "Node", klog.KObj(current), "otherMachine", klog.KObj(sharing[i]))
		return reconcile.Result{RequeueAfter: ownership.RetryPeriod}, nil
	}
	assigned := current.DeepCopy()
	assigned.Spec.ProviderID = s.machine.Spec.ProviderID
	start := time.Now()
	err = c.Patch(ctx, assigned, client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{}))
	emitAssignment(ctx, current.Name, start, err)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("assigning the providerID to Node %q: %w", current.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("assigned providerID to Node", "Node", klog.KObj(current), "providerID", s.machine.Spec.ProviderID)
	p.events.providerIDAssigned(s.machine, current.Name)
	return reconcile.Result{}, nil
}

// nodeToDrain returns the Node without a providerID that the deletion of the machine acts on; nil if there is none, or the
// machine is not being deleted. A Node that was deleted and registered again by its kubelet has no providerID until the
// cloud controller manager writes it, nor does the cache at once show the one that assignProviderID has written.
func (p node) nodeToDrain(ctx context.Context, s *state, lookup func(name string) (*corev1.Node, bool)) (*corev1.Node, error) {
	if !s.deleting() {
		return nil, nil //nolint:nilnil // there is none
	}
	if found, ok := lookup(s.machine.Status.NodeRef.Name); ok && found.Spec.ProviderID == "" {
		return p.unshared(ctx, s.machine, found)
	}
	if annotation.AssignsProviderIDs(s.cluster) {
		return p.unshared(ctx, s.machine, nodeWithoutProviderID(s.machine, lookup))
	}
	return nil, nil //nolint:nilnil // there is none
}

// unshared returns the Node without a providerID, or nil if it can be that of another machine as well.
func (p node) unshared(ctx context.Context, m *clusterv1.Machine, found *corev1.Node) (*corev1.Node, error) {
	if found == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	sharing, err := nodematch.Sharing(ctx, p.machines, m, found.Name)
	if err != nil || len(sharing) > 0 {
		return nil, err
	}
	return found, nil
}

// nodeWithoutProviderID returns the only Node without a providerID that is the machine's; nil if there
// is none, or more than one.
func nodeWithoutProviderID(m *clusterv1.Machine, lookup func(name string) (*corev1.Node, bool)) *corev1.Node {
	var found []*corev1.Node
	for _, name := range nodematch.Names(m) {
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
	return n.Spec.ProviderID == "" && slices.Contains(nodematch.Names(m), n.Name) && nodehost.HasInternalIP(m, n)
}
