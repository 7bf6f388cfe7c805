// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/ownership"
)

// adopt makes the Cluster an owner of its infrastructure or control plane object, which the field refers to. Another
// Cluster or another controller among the owners prevents that.
func adopt(ctx context.Context, c client.Client, cluster *clusterv1.Cluster, object *unstructured.Unstructured, field string) error {
	adoption := ownership.Adoption{
		Owner: cluster, Kind: "Cluster", Field: field, ClusterName: cluster.Name, References: object.GetOwnerReferences(),
	}
	for _, reference := range object.GetOwnerReferences() {
		if reference.UID == cluster.UID {
			adoption.Owned = true
		} else if ownership.Controls(reference) || ownership.IsKind(reference, "Cluster") {
			adoption.Foreign = &reference
		}
	}
	if !adoption.Owned {
		adoption.References = append(adoption.References, metav1.OwnerReference{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
		})
	}
	return ownership.Adopt(ctx, c, object, adoption)
}
