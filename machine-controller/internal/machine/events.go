// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// recorder has a method for every event that this controller emits.
type recorder struct{ events.EventRecorder }

// refused emits an event once for a reference that was not followed, and again only when the condition
// that reports the refusal has had another message in between.
func (r *recorder) refused(m *clusterv1.Machine, condition string, err error) {
	if conditions.GetMessage(m, condition) != err.Error() {
		r.Eventf(m, nil, corev1.EventTypeWarning, "ReferenceRefused", "FollowReference", "%v", err)
	}
}

func (r *recorder) nodeJoined(m *clusterv1.Machine, node string) {
	r.Eventf(m, nil, corev1.EventTypeNormal, "SuccessfulSetNodeRef", "SetNodeRef", "Machine joined as Node %s", node)
}

func (r *recorder) providerIDAssigned(m *clusterv1.Machine, node string) {
	r.Eventf(m, nil, corev1.EventTypeNormal, "AssignedProviderID", "AssignProviderID", "Wrote the providerID of the machine to Node %s, which had none", node)
}
