// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/volume"
	"drover.io/runtime/requesterror"
	"drover.io/runtime/results"
)

// detached waits until the volumes of the pods that were drained are off the Node, as a
// disk still attached can be lost with the virtual machine, for at most
// spec.deletion.nodeVolumeDetachTimeoutSeconds.
type detached struct {
	drained
	volumes *volume.Waiter
}

func (d detached) run(ctx context.Context, s *state) (bool, reconcile.Result, error) {
	m := s.machine
	if _, excluded := m.Annotations[clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation]; excluded || !guardsNode(s) || preTerminateBegan(m) {
		return true, reconcile.Result{}, nil
	}
	status, timeout := deletionStatus(m), m.Spec.Deletion.NodeVolumeDetachTimeoutSeconds
	if expired(status.WaitForNodeVolumeDetachStartTime, timeout, d.clock.Now()) {
		if wasAt(m, clusterv1.MachineDeletingWaitingForVolumeDetachReason) {
			d.events.detachTimedOut(m, m.Status.NodeRef.Name)
		}
		return true, reconcile.Result{}, nil
	}
	connection, err := d.workloads.Get(s.clusterKey())
	if err != nil {
		startClock(&status.WaitForNodeVolumeDetachStartTime, d.clock.Now())
		s.deletion = progress{clusterv1.MachineDeletingWaitingForVolumeDetachReason,
			unreachable(s, "wait for volumes", "nodeVolumeDetachTimeoutSeconds", clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation)}
		return false, untilExpiry(status.WaitForNodeVolumeDetachStartTime, timeout, d.clock.Now()), nil //nolint:nilerr // the condition says so, and the connection wakes us
	}
	if s.node.object == nil {
		startClock(&status.WaitForNodeVolumeDetachStartTime, d.clock.Now())
		s.deletion = progress{clusterv1.MachineDeletingWaitingForVolumeDetachReason, unseen(s)}
		return false, untilExpiry(status.WaitForNodeVolumeDetachStartTime, timeout, d.clock.Now()), nil // whatever makes the Node seen wakes us
	}
	result, err := d.volumes.Detached(ctx, volume.Request{
		Cluster: s.clusterKey(),
		Client:  connection.Client(),
		Node:    m.Status.NodeRef.Name,
		Skipped: func(ctx context.Context) ([]*corev1.Pod, error) { return d.skipped(ctx, s) },
	})
	if requesterror.IsUnanswered(err) {
		startClock(&status.WaitForNodeVolumeDetachStartTime, d.clock.Now())
		return unanswered(s, clusterv1.MachineDeletingWaitingForVolumeDetachReason, untilExpiry(status.WaitForNodeVolumeDetachStartTime, timeout, d.clock.Now()))
	}
	if err != nil {
		return false, reconcile.Result{}, fmt.Errorf("waiting for volumes: %w", err)
	}
	if result.Done {
		if wasAt(m, clusterv1.MachineDeletingWaitingForVolumeDetachReason) {
			d.events.volumesDetached(m, m.Status.NodeRef.Name)
		}
		return true, reconcile.Result{}, nil
	}
	startClock(&status.WaitForNodeVolumeDetachStartTime, d.clock.Now())
	s.deletion = progress{clusterv1.MachineDeletingWaitingForVolumeDetachReason, result.Message()}
	return false, results.Earliest(reconcile.Result{RequeueAfter: result.RequeueAfter},
		untilExpiry(status.WaitForNodeVolumeDetachStartTime, timeout, d.clock.Now())), nil
}

// skipped are the pods that the drain left on the Node; their volumes stay with them.
func (d detached) skipped(ctx context.Context, s *state) ([]*corev1.Pod, error) {
	connection, err := d.workloads.Get(s.clusterKey())
	if err != nil {
		return nil, err
	}
	request, err := d.request(ctx, connection, s)
	if err != nil {
		return nil, err
	}
	return d.drainer.Skipped(ctx, request)
}
