// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// specOfContract are the spec fields of provider objects that are part of a contract.
var specOfContract = []string{"providerID", "failureDomain", "controlPlaneEndpoint", "version", "replicas"}

// Slim is the transform for the manager's cache. It drops from every object what no
// controller here reads (managed fields, the last applied configuration), and from a
// provider's object all of spec that is not part of its contract, so that the size of a
// provider's API does not become the size of the manager's memory. Objects from such a cache must be
// written back with patches only.
func Slim(in any) (any, error) {
	accessor, err := meta.Accessor(in)
	if err != nil {
		return in, nil //nolint:nilerr // tombstones pass through as they are
	}
	accessor.SetManagedFields(nil)
	if annotations := accessor.GetAnnotations(); annotations[corev1.LastAppliedConfigAnnotation] != "" {
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		accessor.SetAnnotations(annotations)
	}
	if object, ok := in.(*unstructured.Unstructured); ok {
		slimSpec(object)
	}
	return in, nil
}

func slimSpec(object *unstructured.Unstructured) {
	full, ok := object.Object["spec"].(map[string]any)
	if !ok {
		return
	}
	slim := map[string]any{}
	for _, key := range specOfContract {
		if value, found := full[key]; found {
			slim[key] = value
		}
	}
	object.Object["spec"] = slim
}
