// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// hookStep waits until every annotation with the prefix has been removed by its owner.
type hookStep struct {
	prefix, reason string
	// needsNode means that the hook protects the Node, and has no effect without a Node to drain.
	needsNode bool
	// startTime is where the status records since when the hooks are awaited.
	startTime func(*clusterv1.MachineDeletionStatus) *metav1.Time
	clock     clock.PassiveClock
}

func preDrainHooks(c clock.PassiveClock) hookStep {
	return hookStep{clusterv1.PreDrainDeleteHookAnnotationPrefix, clusterv1.MachineDeletingWaitingForPreDrainHookReason, true,
		func(d *clusterv1.MachineDeletionStatus) *metav1.Time { return &d.WaitForPreDrainHookStartTime }, c}
}

func preTerminateHooks(c clock.PassiveClock) hookStep {
	return hookStep{clusterv1.PreTerminateDeleteHookAnnotationPrefix, clusterv1.MachineDeletingWaitingForPreTerminateHookReason, false,
		func(d *clusterv1.MachineDeletionStatus) *metav1.Time { return &d.WaitForPreTerminateHookStartTime }, c}
}

func (h hookStep) run(_ context.Context, s *State) (Progress, error) {
	if h.needsNode && !s.needsDrain() {
		return done, nil
	}
	var waiting []string
	for key := range s.Machine.Annotations {
		if strings.HasPrefix(key, h.prefix) {
			waiting = append(waiting, key)
		}
	}
	if len(waiting) == 0 {
		return done, nil
	}
	slices.Sort(waiting)
	setStartTime(h.startTime(deletionStatus(s.Machine)), h.clock.Now())
	return Progress{Reason: h.reason, Message: fmt.Sprintf("Waiting for hooks to be removed: %s", strings.Join(waiting, ", "))}, nil
}
