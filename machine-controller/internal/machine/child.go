// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/coalesce"
)

// adopt makes the machine the controller of one of its two provider objects and puts the
// cluster's label on it. Objects born here have both already and cost nothing; the patch is
// for objects that a person or another core made, or whose owner reference was removed.
// An object that belongs to another Machine is left alone and reported.
func adopt(ctx context.Context, c client.Client, machine *clusterv1.Machine, child *unstructured.Unstructured) error {
	owner := metav1.OwnerReference{
		APIVersion:         clusterv1.GroupVersion.String(),
		Kind:               "Machine",
		Name:               machine.Name,
		UID:                machine.UID,
		Controller:         new(true),
		BlockOwnerDeletion: new(true),
	}
	current := metav1.GetControllerOf(child)
	if current != nil && current.Kind == "Machine" && current.UID != machine.UID {
		return fmt.Errorf("%s %q belongs to Machine %q", child.GetKind(), child.GetName(), current.Name)
	}
	label := child.GetLabels()[clusterv1.ClusterNameLabel]
	if current != nil && current.UID == machine.UID && label == machine.Spec.ClusterName {
		return nil
	}
	references := []metav1.OwnerReference{owner}
	for _, reference := range child.GetOwnerReferences() {
		if reference.UID != machine.UID && reference.Kind != "MachineSet" && reference.Kind != "Machine" {
			references = append(references, reference)
		}
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": child.GetResourceVersion(),
		"ownerReferences": references,
		"labels":          map[string]string{clusterv1.ClusterNameLabel: machine.Spec.ClusterName},
	}})
	if err != nil {
		return fmt.Errorf("encoding owner patch: %w", err)
	}
	target := child.DeepCopy()
	if err := c.Patch(ctx, target, client.RawPatch(types.MergePatchType, data)); err != nil {
		return fmt.Errorf("adopting %s %q: %w", child.GetKind(), child.GetName(), err)
	}
	return nil
}

// leave shows a child as being deleted whose deletion was accepted a moment ago, which the cache may not
// show yet.
func leave(asked *coalesce.Pace, child *unstructured.Unstructured) {
	if child.GetDeletionTimestamp() == nil && asked.Due(child.GetUID()) > 0 {
		child.SetDeletionTimestamp(new(metav1.NewTime(asked.Clock.Now())))
	}
}
