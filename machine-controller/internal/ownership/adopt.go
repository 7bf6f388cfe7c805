// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/predicates"
)

// Adoption makes a Machine or Cluster an owner of a provider's object that it refers to.
type Adoption struct {
	// Owner is the Machine or Cluster, Kind its kind, and Field its reference to the object.
	Owner       client.Object
	Kind, Field string
	// ClusterName is what the cluster label of the object names.
	ClusterName string
	// Foreign is the owner that prevents the adoption; nil if there is none.
	Foreign *metav1.OwnerReference
	// Owned means that the object has the reference to Owner, as References has it.
	Owned bool
	// References are the owner references of the object after the adoption.
	References []metav1.OwnerReference
}

// Adopt writes the owner references of the Adoption to the object, with the cluster's label and the owner's watch-filter
// label. An object that has all of them costs nothing. An object that belongs to something else is not changed: the
// error is a ForeignError then. An object that is being deleted is not adopted.
func Adopt(ctx context.Context, c client.Client, object *unstructured.Unstructured, a Adoption) error {
	if a.Foreign != nil {
		return a.foreignError(object)
	}
	if object.GetDeletionTimestamp() != nil {
		return nil
	}
	if a.Owned && object.GetLabels()[clusterv1.ClusterNameLabel] == a.ClusterName && predicates.Inherited(object, a.Owner) {
		return nil
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": object.GetResourceVersion(),
		"ownerReferences": a.References,
		"labels":          predicates.Inherit(map[string]string{clusterv1.ClusterNameLabel: a.ClusterName}, a.Owner),
	}})
	if err != nil {
		return fmt.Errorf("encoding owner patch: %w", err)
	}
	target := object.DeepCopy()
	if err := c.Patch(ctx, target, client.RawPatch(types.MergePatchType, data)); err != nil {
		return fmt.Errorf("adopting %s %q: %w", object.GetKind(), object.GetName(), err)
	}
	ctrl.LoggerFrom(ctx).Info("adopted provider object", object.GetKind(), klog.KObj(object))
	object.SetOwnerReferences(a.References)
	object.SetResourceVersion(target.GetResourceVersion())
	return nil
}

// IsKind reports whether a reference is to Cluster API's kind of that name, in any version.
func IsKind(reference metav1.OwnerReference, kind string) bool {
	group, _, _ := strings.Cut(reference.APIVersion, "/")
	return reference.Kind == kind && group == clusterv1.GroupVersion.Group
}

// Controls reports whether a reference is to the controller of an object.
func Controls(reference metav1.OwnerReference) bool {
	return reference.Controller != nil && *reference.Controller
}
