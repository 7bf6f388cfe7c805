// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/runtime/requesterror"
)

// recorder has a method for every event that a deletion emits.
type recorder struct{ events.EventRecorder }

func (r *recorder) drained(m *clusterv1.Machine, node string) {
	r.Eventf(m, nil, corev1.EventTypeNormal, "SuccessfulDrainNode", "Drain", "Drained Node %s", node)
}

func (r *recorder) drainFailed(m *clusterv1.Machine, node string, err error) {
	r.Eventf(m, nil, corev1.EventTypeWarning, "FailedDrainNode", "Drain", "Draining Node %s: %v", node, err)
}

func (r *recorder) drainTimedOut(m *clusterv1.Machine, node string) {
	r.Eventf(m, nil, corev1.EventTypeWarning, "DrainTimedOut", "Drain",
		"Gave up draining Node %s after spec.deletion.nodeDrainTimeoutSeconds; its remaining pods go down with the machine", node)
}

func (r *recorder) volumesDetached(m *clusterv1.Machine, node string) {
	r.Eventf(m, nil, corev1.EventTypeNormal, "NodeVolumesDetached", "DetachVolumes", "All volumes are detached from Node %s", node)
}

func (r *recorder) detachTimedOut(m *clusterv1.Machine, node string) {
	r.Eventf(m, nil, corev1.EventTypeWarning, "FailedWaitForVolumeDetach", "DetachVolumes",
		"Gave up waiting for volumes to detach from Node %s after spec.deletion.nodeVolumeDetachTimeoutSeconds", node)
}

func (r *recorder) nodeAbandoned(m *clusterv1.Machine, node string, err error) {
	r.Eventf(m, nil, corev1.EventTypeWarning, "FailedDeleteNode", "DeleteNode",
		"Gave up deleting Node %s after spec.deletion.nodeDeletionTimeoutSeconds (%v); delete it by hand: kubectl delete node %s", node, requesterror.Describe(err), node)
}
