// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/contract"
	"drover.io/runtime/predicates"
)

// A foreignError means that a provider's object belongs to something other than the Machine that
// refers to it. Nothing of such an object is read into the Machine, and it is not deleted.
type foreignError struct{ field, kind, name, owner string }

// Error names the object, its owner and the possible corrections.
func (e *foreignError) Error() string {
	return fmt.Sprintf("%s: %s %q belongs to %s: reference an object that no other owner uses, or delete this Machine, which leaves %s %q as it is",
		e.field, e.kind, e.name, e.owner, e.kind, e.name)
}

// isRefused reports whether the Machine must not use or delete the object that it refers to.
func isRefused(err error) bool {
	var foreign *foreignError
	return errors.As(err, &foreign) || contract.IsInvalidReference(err)
}

// foreign returns the owner that prevents the machine from adopting the object; nil if there is
// none. The controller of the Machine may own the object, too: upstream's MachineSets and control
// planes create it before the Machine.
func foreign(machine *clusterv1.Machine, child *unstructured.Unstructured) *metav1.OwnerReference {
	controller := metav1.GetControllerOfNoCopy(machine)
	for _, owner := range child.GetOwnerReferences() {
		if owner.UID == machine.UID || (controller != nil && owner.UID == controller.UID) {
			continue
		}
		if (owner.Controller != nil && *owner.Controller) || isMachine(owner) {
			return &owner
		}
	}
	return nil
}

func isMachine(owner metav1.OwnerReference) bool {
	group, _, _ := strings.Cut(owner.APIVersion, "/")
	return owner.Kind == "Machine" && group == clusterv1.GroupVersion.Group
}

// adopt makes the machine the controller of one of its two provider objects, which the field
// refers to, and puts the cluster's label and the machine's watch-filter label on it. Objects that a MachineSet of
// this manager created have both already and cost nothing; the patch is for objects that a person or another core made, or whose owner
// reference was removed. An object that belongs to something else is left alone: the error
// is a foreignError then. An object that is being deleted is not adopted.
func adopt(ctx context.Context, c client.Client, machine *clusterv1.Machine, child *unstructured.Unstructured, field string) error {
	if owner := foreign(machine, child); owner != nil {
		return &foreignError{field, child.GetKind(), child.GetName(), fmt.Sprintf("%s %q", owner.Kind, owner.Name)}
	}
	if child.GetDeletionTimestamp() != nil {
		return nil
	}
	label := child.GetLabels()[clusterv1.ClusterNameLabel]
	if metav1.IsControlledBy(child, machine) && label == machine.Spec.ClusterName && predicates.Inherited(child, machine) {
		return nil
	}
	references := []metav1.OwnerReference{*metav1.NewControllerRef(machine, clusterv1.GroupVersion.WithKind("Machine"))}
	for _, reference := range child.GetOwnerReferences() {
		if reference.UID != machine.UID && reference.Kind != "MachineSet" && (reference.Controller == nil || !*reference.Controller) {
			references = append(references, reference)
		}
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": child.GetResourceVersion(),
		"ownerReferences": references,
		"labels":          predicates.Inherit(map[string]string{clusterv1.ClusterNameLabel: machine.Spec.ClusterName}, machine),
	}})
	if err != nil {
		return fmt.Errorf("encoding owner patch: %w", err)
	}
	target := child.DeepCopy()
	if err := c.Patch(ctx, target, client.RawPatch(types.MergePatchType, data)); err != nil {
		return fmt.Errorf("adopting %s %q: %w", child.GetKind(), child.GetName(), err)
	}
	ctrl.LoggerFrom(ctx).Info("adopted provider object", child.GetKind(), klog.KObj(child))
	child.SetOwnerReferences(references)
	child.SetResourceVersion(target.GetResourceVersion())
	return nil
}
