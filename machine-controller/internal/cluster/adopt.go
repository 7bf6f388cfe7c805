// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

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
)

// A foreignError means that a provider's object belongs to something other than the Cluster that refers to it.
type foreignError struct{ kind, name, owner string }

// Error names the object, its owner and the possible corrections.
func (e *foreignError) Error() string {
	return fmt.Sprintf("%s %q belongs to %s: reference an object that no other owner uses, or delete this Cluster, which leaves %s %q as it is",
		e.kind, e.name, e.owner, e.kind, e.name)
}

// isRefused reports whether the Cluster must not use or delete the object that it refers to.
func isRefused(err error) bool {
	var foreign *foreignError
	return errors.As(err, &foreign) || contract.IsInvalidReference(err)
}

// adopt sets the Cluster's owner reference and label on its infrastructure or control plane object, unless it has them.
// An object that belongs to something else is not changed: the error is a foreignError then.
func adopt(ctx context.Context, c client.Client, cluster *clusterv1.Cluster, object *unstructured.Unstructured) error {
	owned := false
	for _, reference := range object.GetOwnerReferences() {
		group, _, _ := strings.Cut(reference.APIVersion, "/")
		isCluster := reference.Kind == "Cluster" && group == clusterv1.GroupVersion.Group
		if reference.UID != cluster.UID && (isCluster || (reference.Controller != nil && *reference.Controller)) {
			return &foreignError{object.GetKind(), object.GetName(), fmt.Sprintf("%s %q", reference.Kind, reference.Name)}
		}
		owned = owned || reference.UID == cluster.UID
	}
	if owned && object.GetLabels()[clusterv1.ClusterNameLabel] == cluster.Name {
		return nil
	}
	references := object.GetOwnerReferences()
	if !owned {
		references = append(references, metav1.OwnerReference{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
		})
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": object.GetResourceVersion(),
		"ownerReferences": references,
		"labels":          map[string]string{clusterv1.ClusterNameLabel: cluster.Name},
	}})
	if err != nil {
		return fmt.Errorf("encoding owner patch: %w", err)
	}
	if err := c.Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, data)); err != nil {
		return fmt.Errorf("adopting %s %q: %w", object.GetKind(), object.GetName(), err)
	}
	ctrl.LoggerFrom(ctx).Info("adopted provider object", object.GetKind(), klog.KObj(object))
	return nil
}
