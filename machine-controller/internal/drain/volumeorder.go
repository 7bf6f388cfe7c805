// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/machine-controller/internal/volume"
	"drover.io/runtime/drainplan"
)

// maxDetachWait is how long the next Pod waits for a detachment that was requested. After the drain the volume is
// awaited again, so it is safe to continue.
const maxDetachWait = 2 * time.Minute

// volumeOrder evicts Pods with volumes one after another: the next when the Pod before has ended and its volumes are
// detached. The state is read from the cluster each time: a volume attached to the Node that no Pod on it uses
// is being detached. The zero volumeOrder delays no Pod.
type volumeOrder struct {
	volumes *volume.Waiter
	onNode  []*corev1.Pod
	serial  bool
	taken   bool
	waiting string // the volumes awaited
}

func (t *volumeOrder) observe(ctx context.Context, req Request, plan drainplan.Plan) error {
	if !slices.ContainsFunc(plan.Evict, hasClaims) {
		return nil
	}
	t.serial = true
	if slices.ContainsFunc(plan.Terminating, hasClaims) || slices.ContainsFunc(plan.Delete, hasClaims) {
		t.taken = true
		return nil
	}
	// Without the volumes in the status of the Node: only VolumeAttachments have the time of the request to detach.
	attached, err := t.volumes.Attached(ctx, volume.Request{Cluster: req.Cluster, Client: req.Client, Node: req.Node.Name}, nil)
	if err != nil {
		return err
	}
	if detaching := detaching(attached, t.onNode, req.Now); len(detaching) > 0 {
		t.taken, t.waiting = true, strings.Join(detaching, ", ")
	}
	return nil
}

// detaching names the attached volumes that no Pod on the Node uses any more and that are worth waiting for.
func detaching(attached []volume.Volume, onNode []*corev1.Pod, now time.Time) []string {
	used := map[types.NamespacedName]bool{}
	for _, pod := range onNode {
		for _, claim := range volume.Claims(pod) {
			used[claim] = used[claim] || !drainplan.Finished(pod)
		}
	}
	var names []string
	for _, v := range attached {
		overdue := !v.DetachRequested.IsZero() && now.Sub(v.DetachRequested) > maxDetachWait
		if v.Claim.Name == "" || v.Lost || overdue || used[v.Claim] {
			continue
		}
		names = append(names, v.String())
	}
	slices.Sort(names)
	return names
}

// hold is the zero Cause if the Pod may go now.
func (t *volumeOrder) hold(pod *corev1.Pod) Cause {
	if !t.serial || !t.taken || len(volume.Claims(pod)) == 0 {
		return Cause{}
	}
	return Cause{Kind: VolumesInTurn, Detail: t.waiting}
}

// evicted records that the Pod was evicted; the next one with volumes has to wait for it.
func (t *volumeOrder) evicted(pod *corev1.Pod) {
	if len(volume.Claims(pod)) > 0 {
		t.taken, t.waiting = true, ""
	}
}

func hasClaims(d drainplan.Decision) bool { return len(volume.Claims(d.Pod)) > 0 }
