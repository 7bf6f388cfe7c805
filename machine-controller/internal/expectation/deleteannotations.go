// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package expectation

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/annotation"
)

// DeleteAnnotationsObserved reports whether the Machines from the cache have every cluster.x-k8s.io/delete-machine
// annotation that the API server has. The cluster autoscaler, or a person, first annotates Machines and then lowers the
// replicas; the two writes reach the cache by different watches, in any order. A controller checks it before it acts on a
// decrease, so that the decrease takes the Machines that were selected for it. It costs one list of metadata, read from
// the API server itself.
func DeleteAnnotationsObserved(ctx context.Context, live client.Reader, machines []*clusterv1.Machine, options ...client.ListOption) (bool, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineList"))
	if err := live.List(ctx, list, options...); err != nil {
		return false, fmt.Errorf("listing Machines: %w", err)
	}
	cached := make(map[types.UID]bool, len(machines))
	for _, m := range machines {
		cached[m.UID] = annotation.Present(m, clusterv1.DeleteMachineAnnotation)
	}
	for i := range list.Items {
		annotated := annotation.Present(&list.Items[i], clusterv1.DeleteMachineAnnotation)
		if observed, exists := cached[list.Items[i].UID]; annotated && exists && !observed {
			return false, nil
		}
	}
	return true, nil
}
