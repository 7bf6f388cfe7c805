// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"drover.io/runtime/expiring"
)

// debouncePeriod is how long a status change that is not urgent may wait for the next one.
const debouncePeriod = 2 * time.Second

// statusDebounce merges status changes that follow each other quickly into one write. A machine
// passes through half a dozen states within a second or two when its cloud is fast; each would be a
// write to etcd and an event to every watcher, and outdated at once. A change that waits is only in
// memory: after a restart it is derived again.
type statusDebounce struct {
	since expiring.Map[types.UID, time.Time]
}

// remaining is how much longer the machine's status may wait; the first call starts the period.
func (d *statusDebounce) remaining(uid types.UID, now time.Time) time.Duration {
	start, _ := d.since.GetOrSet(uid, now)
	return debouncePeriod - now.Sub(start)
}

// release ends the period of a machine: its status was written, needs no write, or is deleted.
func (d *statusDebounce) release(uid types.UID) { d.since.Delete(uid) }

// urgentConditions are the conditions that other controllers and people act on at once.
var urgentConditions = []string{
	clusterv1.MachineReadyCondition,
	clusterv1.MachineAvailableCondition,
	clusterv1.MachineUpToDateCondition,
	clusterv1.PausedCondition,
}

// timedStages are the stages of a deletion that have a timeout, counted from a start time in the status.
var timedStages = []string{
	clusterv1.MachineDeletingWaitingForPreDrainHookReason,
	clusterv1.MachineDeletingDrainingNodeReason,
	clusterv1.MachineDeletingWaitingForVolumeDetachReason,
	clusterv1.MachineDeletingWaitingForPreTerminateHookReason,
}

// urgent reports whether other controllers or people act on the difference between two statuses: the
// Node reference, or whether the machine is ready, available, up to date or paused. Where a
// condition is new, only the status True counts. Of a machine that is being deleted only what
// identifies its Node is urgent, and the start times of stages that have a timeout.
func urgent(before, after *clusterv1.Machine) bool {
	if !after.DeletionTimestamp.IsZero() {
		return identityChanged(before, after) || !equality.Semantic.DeepEqual(before.Status.Deletion, after.Status.Deletion) &&
			slices.Contains(timedStages, conditions.GetReason(after, clusterv1.MachineDeletingCondition))
	}
	if before.Status.NodeRef != after.Status.NodeRef {
		return true
	}
	for _, kind := range urgentConditions {
		was, is := conditions.Get(before, kind), conditions.Get(after, kind)
		switch {
		case is == nil:
		case was == nil && kind != clusterv1.MachineUpToDateCondition && is.Status == "True":
			return true
		case was != nil && was.Status != is.Status:
			return true
		}
	}
	return false
}

// identityChanged reports whether the status or spec has changed by which the instance or the Node of a machine is found.
func identityChanged(before, after *clusterv1.Machine) bool {
	return before.Spec.ProviderID != after.Spec.ProviderID || before.Status.NodeRef != after.Status.NodeRef ||
		isTrue(before.Status.Initialization.InfrastructureProvisioned) != isTrue(after.Status.Initialization.InfrastructureProvisioned)
}
