// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/ownership"
)

// foreign returns the owner that prevents the machine from adopting the object; nil if there is
// none. The controller of the Machine may own the object, too: upstream's MachineSets and control
// planes create it before the Machine.
func foreign(machine *clusterv1.Machine, child *unstructured.Unstructured) *metav1.OwnerReference {
	controller := metav1.GetControllerOfNoCopy(machine)
	for _, owner := range child.GetOwnerReferences() {
		if owner.UID == machine.UID || (controller != nil && owner.UID == controller.UID) {
			continue
		}
		if ownership.Controls(owner) || ownership.IsKind(owner, "Machine") {
			return &owner
		}
	}
	return nil
}

// adopt makes the machine the controller of one of its two provider objects, which the field refers to. Objects that a
// MachineSet of this manager created have the machine as their controller already; the patch is for objects that a person
// or another core made, or whose owner reference was removed.
func adopt(ctx context.Context, c client.Client, machine *clusterv1.Machine, child *unstructured.Unstructured, field string) error {
	references := []metav1.OwnerReference{*metav1.NewControllerRef(machine, clusterv1.GroupVersion.WithKind("Machine"))}
	for _, reference := range child.GetOwnerReferences() {
		if reference.UID != machine.UID && reference.Kind != "MachineSet" && !ownership.Controls(reference) {
			references = append(references, reference)
		}
	}
	return ownership.Adopt(ctx, c, child, ownership.Adoption{
		Owner: machine, Kind: "Machine", Field: field, ClusterName: machine.Spec.ClusterName,
		Foreign: foreign(machine, child), Owned: metav1.IsControlledBy(child, machine), References: references,
	})
}
