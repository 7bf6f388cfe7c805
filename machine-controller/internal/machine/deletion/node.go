// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/nodematch"
	"drover.io/machine-controller/internal/workload"
	"drover.io/runtime/expiring"
	"drover.io/runtime/requesterror"
)

const (
	// defaultNodeDeletionSeconds is upstream's default for spec.deletion.nodeDeletionTimeoutSeconds.
	defaultNodeDeletionSeconds = 10
	nodeDeletionRetry          = 2 * time.Second
)

// nodeStep deletes the Node after the instance, so that no kubelet registers it again. It tries for
// spec.deletion.nodeDeletionTimeoutSeconds, counted from the first attempt (upstream counts from the Machine's
// deletion, which a drain can outlast), and then leaves the Node in its cluster with a warning. A restart of the
// manager restarts the timeout, which can only mean more attempts. Requests that are not sent, because the API server is slow
// and has one under way, are no attempts.
type nodeStep struct {
	// machines has the Machines of the Cluster.
	machines  client.Reader
	workloads *workload.Connections
	events    *recorder
	clock     clock.PassiveClock
	// startTimes are when the first attempt failed.
	startTimes expiring.Map[types.UID, time.Time]
}

func (d *nodeStep) run(ctx context.Context, s *State) (Progress, error) {
	if s.ControlPlaneDeleting || s.ProviderIDConflict {
		return done, nil
	}
	name := s.Machine.Status.NodeRef.Name
	if s.Node != nil {
		name = s.Node.Name
	}
	if name == "" && d.mayHaveJoined(s) {
		name = s.Machine.Name
	}
	if name == "" {
		return done, nil
	}
	start := d.clock.Now()
	err := d.delete(ctx, s, name)
	emitCall(ctx, "node.delete", name, start, d.clock.Now(), client.IgnoreNotFound(err))
	if err == nil || apierrors.IsNotFound(err) {
		d.startTimes.Delete(s.Machine.UID)
		return done, nil
	}
	waiting := Progress{
		Reason:       clusterv1.MachineDeletingDeletingNodeReason,
		Message:      fmt.Sprintf("Waiting to delete Node %s: %s", name, requesterror.Describe(err)),
		RequeueAfter: nodeDeletionRetry,
	}
	// No attempt could be made yet: after a restart, or while the API server is slow and others have its turn.
	if s.Connecting || workload.IsBusy(err) && !d.startTimes.Has(s.Machine.UID) {
		return waiting, nil
	}
	timeout := s.Machine.Spec.Deletion.NodeDeletionTimeoutSeconds
	if timeout == nil {
		timeout = new(int32(defaultNodeDeletionSeconds))
	}
	// A Cluster that is deleted can never be reached again, whatever the timeout.
	if s.Cluster.UID == "" || timedOut(d.startTime(s.Machine.UID), timeout, d.clock.Now()) {
		ctrl.LoggerFrom(ctx).Info("gave up deleting Node", "Node", klog.KRef("", name), "message", err.Error())
		d.events.nodeAbandoned(s.Machine, name, err)
		d.startTimes.Delete(s.Machine.UID)
		return done, nil
	}
	return waiting, nil
}

// mayHaveJoined reports whether a Node may exist that no reconcile has observed: the host of a Machine that was
// deleted while it booted may have registered it just before its end, which the cache need not show yet. Its name is
// that of the Machine then, as for every Node that a bootstrap token of the Machine can register.
func (d *nodeStep) mayHaveJoined(s *State) bool {
	provisioned := s.Machine.Status.Initialization.InfrastructureProvisioned
	if s.Machine.Spec.ProviderID == "" || provisioned == nil || !*provisioned {
		return false
	}
	_, err := d.workloads.Get(s.clusterKey())
	return err == nil
}

func (d *nodeStep) delete(ctx context.Context, s *State, name string) error {
	connection, err := d.workloads.Get(s.clusterKey())
	if err != nil {
		return err
	}
	node := s.Node
	if node == nil {
		node = &corev1.Node{}
		if err := connection.Client().Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		id, referenced := node.Spec.ProviderID, s.Machine.Status.NodeRef.IsDefined()
		if id != s.Machine.Spec.ProviderID && (id != "" || !referenced) {
			return nil // the name is now that of another machine's Node, or never was this one's
		}
		if id == "" {
			if sharing, err := nodematch.Sharing(ctx, d.machines, s.Machine, name); err != nil || len(sharing) > 0 {
				return err // the Node is left to the other machine
			}
		}
	}
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	if err := connection.Client().Delete(ctx, target, client.Preconditions{UID: &node.UID}); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("deleted Node", "Node", klog.KObj(node), "providerID", node.Spec.ProviderID)
	return nil
}

func (d *nodeStep) startTime(uid types.UID) metav1.Time {
	start, _ := d.startTimes.GetOrSet(uid, d.clock.Now())
	return metav1.NewTime(start)
}
