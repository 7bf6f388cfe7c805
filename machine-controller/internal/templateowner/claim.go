// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package templateowner

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/contract"
)

// mayClaim reports whether the Cluster is to become an owner of the template. One that is labelled for another manager, or
// being deleted, is not changed. Other owners stay: several Clusters may use one template.
func (r *Reconciler) mayClaim(template *metav1.PartialObjectMetadata, cluster *clusterv1.Cluster) bool {
	return !r.watch.Foreign(template) && template.DeletionTimestamp.IsZero() && !contract.HasOwner(template, cluster.UID)
}

// claim makes the Cluster an owner of the template, unless that was written since it was read.
func claim(ctx context.Context, c client.Client, template *metav1.PartialObjectMetadata, cluster *clusterv1.Cluster) error {
	before := template.DeepCopy()
	template.OwnerReferences = append(template.OwnerReferences, metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
	})
	if err := c.Patch(ctx, template, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("making Cluster %q an owner of %s %q: %w", cluster.Name, template.Kind, template.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("made the Cluster an owner of the template", template.Kind, klog.KObj(template))
	return nil
}
