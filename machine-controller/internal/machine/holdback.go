// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// holdPeriod is how long a status change that nobody acts on may wait for the next one.
const holdPeriod = 2 * time.Second

// holdback lets status changes that come in quick succession be written as one. A machine
// passes through half a dozen states within a second or two when its cloud is quick; each
// would be a write to etcd and an event to every watcher, and be overtaken at once. What is
// held back is only in memory: after a restart it is derived anew.
type holdback struct {
	mu    sync.Mutex
	since map[types.UID]time.Time
}

// maxRemembered bounds what Machines leave behind whose finalizer somebody else took. Forgetting
// starts clocks anew, which does no harm.
const maxRemembered = 100_000

// left is how much longer the machine's status may wait; the first call starts the clock.
func (h *holdback) left(uid types.UID, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since == nil || len(h.since) >= maxRemembered {
		h.since = map[types.UID]time.Time{}
	}
	start, held := h.since[uid]
	if !held {
		start = now
		h.since[uid] = now
	}
	return holdPeriod - now.Sub(start)
}

// release forgets the machine: its status was written, needs no write, or is gone.
func (h *holdback) release(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.since, uid)
}

// acted are the conditions that other controllers and people act on at once.
var acted = []string{
	clusterv1.MachineReadyCondition,
	clusterv1.MachineAvailableCondition,
	clusterv1.MachineUpToDateCondition,
	clusterv1.PausedCondition,
}

// clocked are the stages of a deletion that end when a time is over, counted from the status.
var clocked = []string{
	clusterv1.MachineDeletingWaitingForPreDrainHookReason,
	clusterv1.MachineDeletingDrainingNodeReason,
	clusterv1.MachineDeletingWaitingForVolumeDetachReason,
	clusterv1.MachineDeletingWaitingForPreTerminateHookReason,
}

// urgent reports whether somebody acts on the difference between two statuses: the Node
// reference, or whether the machine is ready, available, up to date or paused. Where a
// condition is new, only being true is news. What is being deleted is known to go; only what
// leads to its Node and the clocks of its deletion are urgent, and they only while one runs.
func urgent(before, after *clusterv1.Machine) bool {
	if !after.DeletionTimestamp.IsZero() {
		return learned(before, after) || !equality.Semantic.DeepEqual(before.Status.Deletion, after.Status.Deletion) &&
			slices.Contains(clocked, conditions.GetReason(after, clusterv1.MachineDeletingCondition))
	}
	if before.Status.NodeRef != after.Status.NodeRef {
		return true
	}
	for _, kind := range acted {
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

// learned reports whether a machine has just learned which virtual machine is its own, or which Node.
func learned(before, after *clusterv1.Machine) bool {
	return before.Spec.ProviderID != after.Spec.ProviderID || before.Status.NodeRef != after.Status.NodeRef ||
		isTrue(before.Status.Initialization.InfrastructureProvisioned) != isTrue(after.Status.Initialization.InfrastructureProvisioned)
}
