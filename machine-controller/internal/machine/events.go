// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// recorder holds every event this controller emits, with its words.
type recorder struct{ events.EventRecorder }

// refused tells once that a reference was not followed: again only when the condition that
// the refusal stands in has been something else in between.
func (r *recorder) refused(m *clusterv1.Machine, condition string, err error) {
	if conditions.GetMessage(m, condition) != err.Error() {
		r.Eventf(m, nil, corev1.EventTypeWarning, "ReferenceRefused", "FollowReference", "%v", err)
	}
}

func (r *recorder) nodeJoined(m *clusterv1.Machine, node string) {
	r.Eventf(m, nil, corev1.EventTypeNormal, "SuccessfulSetNodeRef", "SetNodeRef", "Machine joined as Node %s", node)
}

func (r *recorder) nodeClaimed(m *clusterv1.Machine, node string) {
	r.Eventf(m, nil, corev1.EventTypeNormal, "AssignedProviderID", "AssignProviderID", "Wrote the providerID of the machine to Node %s, which had none", node)
}
