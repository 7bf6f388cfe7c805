// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/workload"
)

const (
	// defaultNodeDeletionSeconds is upstream's default for spec.deletion.nodeDeletionTimeoutSeconds.
	defaultNodeDeletionSeconds = 10
	nodeDeletionRetry          = 2 * time.Second
)

// nodeGone deletes the Node after the virtual machine is gone, so that nothing registers
// it again. It tries for spec.deletion.nodeDeletionTimeoutSeconds, counted from when the
// deletion could first begin (upstream counts from the Machine's deletion, which a drain
// outlasts), and then leaves the Node to its cluster with a warning. A restart of the
// manager starts the count anew, which can only mean more tries.
type nodeGone struct {
	workloads *workload.Connections
	events    *recorder
	clock     clock.PassiveClock

	mu    sync.Mutex
	since map[types.UID]time.Time
}

func (d *nodeGone) run(ctx context.Context, s *state) (bool, reconcile.Result, error) {
	if s.planeGoes || isRivalled(s.node.err) {
		return true, reconcile.Result{}, nil
	}
	name := s.machine.Status.NodeRef.Name
	if s.node.object != nil {
		name = s.node.object.Name
	}
	if name == "" && d.mayHaveJoined(s) {
		name = s.machine.Name
	}
	if name == "" {
		return true, reconcile.Result{}, nil
	}
	err := d.delete(ctx, s, name)
	if err == nil || apierrors.IsNotFound(err) {
		d.forget(s.machine.UID)
		return true, reconcile.Result{}, nil
	}
	timeout := s.machine.Spec.Deletion.NodeDeletionTimeoutSeconds
	if timeout == nil {
		timeout = new(int32(defaultNodeDeletionSeconds))
	}
	// A Cluster that is gone is never reached again, whatever the timeout.
	if s.cluster.UID == "" || expired(d.started(s.machine.UID), timeout, d.clock.Now()) {
		d.events.nodeAbandoned(s.machine, name, err)
		d.forget(s.machine.UID)
		return true, reconcile.Result{}, nil
	}
	s.deletion = progress{clusterv1.MachineDeletingDeletingNodeReason, fmt.Sprintf("Waiting to delete Node %s: %v", name, err)}
	return false, reconcile.Result{RequeueAfter: nodeDeletionRetry}, nil
}

// mayHaveJoined reports whether a Node that no reconcile has seen may exist: the host of a Machine that was deleted
// while it booted may have registered it just before its end, which the cache need not show yet. Its name is that of
// the Machine then, as for every Node that a bootstrap token of the Machine can register.
func (d *nodeGone) mayHaveJoined(s *state) bool {
	if s.machine.Spec.ProviderID == "" || !isTrue(s.machine.Status.Initialization.InfrastructureProvisioned) {
		return false
	}
	_, err := d.workloads.Get(s.clusterKey())
	return err == nil
}

func (d *nodeGone) delete(ctx context.Context, s *state, name string) error {
	connection, err := d.workloads.Get(s.clusterKey())
	if err != nil {
		return err
	}
	node := s.node.object
	if node == nil {
		node = &corev1.Node{}
		if err := connection.Client().Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		id, known := node.Spec.ProviderID, s.machine.Status.NodeRef.IsDefined()
		if id != s.machine.Spec.ProviderID && (id != "" || !known) {
			return nil // the name has passed on to another machine's Node, or was never this one's
		}
	}
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	return connection.Client().Delete(ctx, target, client.Preconditions{UID: &node.UID})
}

func (d *nodeGone) started(uid types.UID) metav1.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.since == nil || len(d.since) >= maxRemembered {
		d.since = map[types.UID]time.Time{}
	}
	if _, ok := d.since[uid]; !ok {
		d.since[uid] = d.clock.Now()
	}
	return metav1.NewTime(d.since[uid])
}

func (d *nodeGone) forget(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.since, uid)
}
