// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nodecache

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Slim returns a Node with only the fields that are kept in memory:
//
//   - metadata: name, uid, resourceVersion, creationTimestamp,
//     deletionTimestamp, labels, annotations (without kubectl's last-applied
//     configuration), ownerReferences, finalizers
//   - spec: providerID, unschedulable, taints
//   - status: conditions (without lastHeartbeatTime), addresses, nodeInfo,
//     volumesAttached
//
// Everything else is left out: images, managedFields, volumesInUse, capacity,
// allocatable, config, pod CIDRs. The list names what is kept, so a field that
// a later Kubernetes adds costs nothing. The result shares memory with n.
func Slim(n *corev1.Node) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:              n.Name,
			UID:               n.UID,
			ResourceVersion:   n.ResourceVersion,
			CreationTimestamp: n.CreationTimestamp,
			DeletionTimestamp: n.DeletionTimestamp,
			Labels:            n.Labels,
			Annotations:       slimAnnotations(n.Annotations),
			OwnerReferences:   n.OwnerReferences,
			Finalizers:        n.Finalizers,
		},
		Spec: corev1.NodeSpec{
			ProviderID:    n.Spec.ProviderID,
			Unschedulable: n.Spec.Unschedulable,
			Taints:        n.Spec.Taints,
		},
		Status: corev1.NodeStatus{
			Conditions:      slimConditions(n.Status.Conditions),
			Addresses:       n.Status.Addresses,
			NodeInfo:        n.Status.NodeInfo,
			VolumesAttached: n.Status.VolumesAttached,
		},
	}
}

func slimAnnotations(all map[string]string) map[string]string {
	if _, found := all[corev1.LastAppliedConfigAnnotation]; !found {
		return all
	}
	kept := maps.Clone(all)
	delete(kept, corev1.LastAppliedConfigAnnotation)
	return kept
}

func slimConditions(all []corev1.NodeCondition) []corev1.NodeCondition {
	kept := slices.Clone(all)
	for i := range kept {
		kept[i].LastHeartbeatTime = metav1.Time{}
	}
	return kept
}

// same reports whether two slim Nodes differ in nothing but resourceVersion:
// the second is then a heartbeat, or a change to a field that is not kept.
func same(a, b *corev1.Node) bool {
	x, y := *a, *b
	x.ResourceVersion, y.ResourceVersion = "", ""
	return equality.Semantic.DeepEqual(&x, &y)
}
