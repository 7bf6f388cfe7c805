// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/ownership"
)

var errGone = errors.New("the cache shows a Cluster that does not exist any more")

// adopter makes Clusters owners of objects of providers.
type adopter struct {
	client client.Client
	// live reads from the API server itself.
	live client.Reader
}

// adopt makes the Cluster an owner of its infrastructure or control plane object, which the field refers to. Another
// Cluster or another controller among the owners prevents that. Before the Cluster becomes an owner it is read once more: the
// garbage collector deletes an object whose owner is gone. The error is a conflict then.
func (a adopter) adopt(ctx context.Context, cluster *clusterv1.Cluster, object *unstructured.Unstructured, field string) error {
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
	if !adoption.Owned && adoption.Foreign == nil && object.GetDeletionTimestamp() == nil {
		exists, err := ownership.Exists(ctx, a.live, cluster)
		if err != nil {
			return err
		}
		if !exists {
			return apierrors.NewConflict(clusterv1.GroupVersion.WithResource("clusters").GroupResource(), cluster.Name, errGone)
		}
		adoption.References = append(adoption.References, metav1.OwnerReference{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
		})
	}
	return ownership.Adopt(ctx, a.client, object, adoption)
}
