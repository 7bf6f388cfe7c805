// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"drover.io/machine-controller/internal/metrics"
	"drover.io/runtime/expiring"
)

// readiness records when Machines are ready for the first time. A Machine whose Ready condition changes later has been
// Running before, so only those are awaited whose Node this process saw join.
type readiness struct {
	awaited expiring.Map[types.UID, struct{}]
}

// written is called after each write of a status; deployment is nil for a Machine without one. It reports whether the
// Machine is known to be ready for the first time.
func (r *readiness) written(before, after *clusterv1.Machine, deployment *clusterv1.MachineDeployment, now time.Time) bool {
	running := string(clusterv1.MachinePhaseRunning)
	if after.Status.Phase == running && before.Status.Phase != running {
		r.awaited.Set(after.UID, struct{}{})
	}
	if !r.awaited.Has(after.UID) || !conditions.IsTrue(after, clusterv1.MachineReadyCondition) {
		return false
	}
	r.awaited.Delete(after.UID)
	if deployment != nil {
		metrics.ObserveReady(deployment, now.Sub(after.CreationTimestamp.Time))
	}
	return true
}

// release forgets a Machine that is deleted.
func (r *readiness) release(uid types.UID) { r.awaited.Delete(uid) }
