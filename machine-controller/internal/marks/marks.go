// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package marks keeps a decrease of replicas from overtaking the marks that say whom it is
// meant for. The cluster autoscaler, or a person, first annotates Machines and then lowers
// the replicas; the two writes reach our cache by different watches, in any order. The
// machinedeployment and machineset controllers ask here before they act on a decrease.
package marks

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/annotation"
)

// Shown reports whether the Machines from the cache carry every
// cluster.x-k8s.io/delete-machine annotation that the API server knows of. It costs one
// list of metadata, answered by the API server itself.
func Shown(ctx context.Context, live client.Reader, machines []*clusterv1.Machine, among ...client.ListOption) (bool, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineList"))
	if err := live.List(ctx, list, among...); err != nil {
		return false, fmt.Errorf("listing Machines: %w", err)
	}
	cached := make(map[types.UID]bool, len(machines))
	for _, m := range machines {
		cached[m.UID] = annotation.Present(m, clusterv1.DeleteMachineAnnotation)
	}
	for i := range list.Items {
		marked := annotation.Present(&list.Items[i], clusterv1.DeleteMachineAnnotation)
		if shown, known := cached[list.Items[i].UID]; marked && known && !shown {
			return false, nil
		}
	}
	return true, nil
}
