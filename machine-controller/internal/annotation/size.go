// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// DefaultReplicas is what spec.replicas is while the user leaves it out: what it was before, kept between the sizes
// of the cluster autoscaler if both are given; for a new object the minimum, and without both sizes 1. It is an
// error where a new object has a size that is not understood: any number would be a guess.
func DefaultReplicas(object metav1.Object, before *int32) (int32, error) {
	minimum, hasMinimum := object.GetAnnotations()[clusterv1.AutoscalerMinSizeAnnotation]
	maximum, hasMaximum := object.GetAnnotations()[clusterv1.AutoscalerMaxSizeAnnotation]
	least, okLeast := Count(minimum)
	most, okMost := Count(maximum)
	switch scaled := hasMinimum && hasMaximum; {
	case scaled && okLeast && okMost && least <= most:
		if before == nil {
			return least, nil
		}
		return min(max(*before, least), most), nil
	case before != nil:
		return *before, nil
	case scaled:
		return 0, fmt.Errorf("spec.replicas is not set, and has no default while the annotations %s and %s are %q and %q: set it, or correct them",
			clusterv1.AutoscalerMinSizeAnnotation, clusterv1.AutoscalerMaxSizeAnnotation, minimum, maximum)
	}
	return 1, nil
}
