// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/machine-controller/internal/volume"
	"drover.io/runtime/requesterror"
)

// detachStep waits until the volumes of the drained Pods are detached from the Node, as a disk that is still attached
// can be lost with the instance, for at most spec.deletion.nodeVolumeDetachTimeoutSeconds.
type detachStep struct {
	drainStep
	volumes *volume.Waiter
}

func (d detachStep) run(ctx context.Context, s *State) (Progress, error) {
	m := s.Machine
	if _, excluded := m.Annotations[clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation]; excluded || !s.needsDrain() || preTerminateStarted(m) {
		return done, nil
	}
	timeout := m.Spec.Deletion.NodeVolumeDetachTimeoutSeconds
	if timedOut(deletionStatus(m).WaitForNodeVolumeDetachStartTime, timeout, d.clock.Now()) {
		if wasAt(m, clusterv1.MachineDeletingWaitingForVolumeDetachReason) {
			ctrl.LoggerFrom(ctx).Info("gave up waiting for volumes to detach from Node", "Node", klog.KRef("", m.Status.NodeRef.Name), "after", time.Duration(*timeout)*time.Second)
			d.events.detachTimedOut(m, m.Status.NodeRef.Name)
		}
		return done, nil
	}
	connection, err := d.workloads.Get(s.clusterKey())
	if err != nil {
		waiting := d.waiting(s)
		waiting.Message = disconnected(s, "wait for volumes", skipDetach)
		return waiting, nil //nolint:nilerr // the condition reports it, and the connection triggers a reconcile
	}
	if s.Node == nil {
		waiting := d.waiting(s)
		waiting.Message = nodeUnknown(s)
		return waiting, nil // the event that makes the Node known triggers a reconcile
	}
	result, err := d.volumes.Detached(ctx, volume.Request{
		Cluster: s.clusterKey(),
		Client:  connection.Client(),
		Node:    m.Status.NodeRef.Name,
		Pods:    func(ctx context.Context) (volume.Pods, error) { return d.pods(ctx, s) },
	})
	switch {
	case requesterror.IsUnanswered(err):
		return unanswered(d.waiting(s)), nil
	case err != nil:
		waiting := d.waiting(s)
		waiting.Message = requesterror.Truncate(err.Error())
		return waiting, fmt.Errorf("waiting for volumes: %w", err)
	case result.Done:
		if wasAt(m, clusterv1.MachineDeletingWaitingForVolumeDetachReason) {
			ctrl.LoggerFrom(ctx).Info("detached volumes from Node", "Node", klog.KRef("", m.Status.NodeRef.Name))
			d.events.volumesDetached(m, m.Status.NodeRef.Name)
		}
		return done, nil
	}
	waiting := d.waiting(s)
	waiting.Message = result.Message()
	if len(result.Users) > 0 {
		waiting.Message += fmt.Sprintf(". %s; to %s", endUsers(result.Users), skipDetach.goOn(s))
	}
	waiting.RequeueAfter = earliest(waiting.RequeueAfter, result.RequeueAfter)
	return waiting, nil
}

// endUsers is what ends the Pods that use volumes. Those that are being deleted are not ended by another deletion.
func endUsers(users []volume.User) string {
	if slices.ContainsFunc(users, func(u volume.User) bool { return !u.Deleting }) {
		return "Delete those that were not evicted"
	}
	return "If that lasts, look for their finalizers, and at the kubelet of the Node"
}

// waiting records since when the volumes are awaited; the timeout counts from then.
func (d detachStep) waiting(s *State) Progress {
	started := &deletionStatus(s.Machine).WaitForNodeVolumeDetachStartTime
	setStartTime(started, d.clock.Now())
	return Progress{
		Reason:       clusterv1.MachineDeletingWaitingForVolumeDetachReason,
		RequeueAfter: untilTimeout(*started, s.Machine.Spec.Deletion.NodeVolumeDetachTimeoutSeconds, d.clock.Now()),
	}
}

// pods are those that are still on the Node.
func (d detachStep) pods(ctx context.Context, s *State) (volume.Pods, error) {
	connection, err := d.workloads.Get(s.clusterKey())
	if err != nil {
		return volume.Pods{}, err
	}
	request, err := d.request(ctx, connection, s)
	if err != nil {
		return volume.Pods{}, err
	}
	return d.drainer.Remaining(ctx, request)
}
