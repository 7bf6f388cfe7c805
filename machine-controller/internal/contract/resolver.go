// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gobuffalo/flect"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Resolver finds the API version in which to read a provider kind.
type Resolver struct {
	// Reader answers metadata-only gets of CustomResourceDefinitions, usually from a cache.
	Reader client.Reader
}

// Resolve returns the kind in the newest API version that keeps the newest contract the
// CRD is labelled with, and that contract. Its errors are [MissingCRDError],
// [MissingLabelError], [InvalidReferenceError] for Cluster API's own kinds, or the API server's.
func (r *Resolver) Resolve(ctx context.Context, gk schema.GroupKind) (schema.GroupVersionKind, Version, error) {
	name := CRDName(gk)
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	if err := r.Reader.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		if apierrors.IsNotFound(err) {
			return schema.GroupVersionKind{}, "", &MissingCRDError{GroupKind: gk, CRDName: name}
		}
		return schema.GroupVersionKind{}, "", fmt.Errorf("reading CustomResourceDefinition %q: %w", name, err)
	}
	if crd.Labels[clusterv1.ProviderNameLabel] == coreProvider {
		return schema.GroupVersionKind{}, "", &InvalidReferenceError{gk, "a kind of a provider"}
	}
	for _, contract := range []Version{V1Beta2, V1Beta1} {
		if newest := newestVersion(crd.Labels[contract.label()]); newest != "" {
			return gk.WithVersion(newest), contract, nil
		}
	}
	return schema.GroupVersionKind{}, "", &MissingLabelError{CRDName: name}
}

// CRDName is the name that the contract's plural rule gives the CRD of a kind.
func CRDName(gk schema.GroupKind) string {
	return flect.Pluralize(strings.ToLower(gk.Kind)) + "." + gk.Group
}

// newestVersion picks the newest of the API versions that a contract label lists, joined by "_".
func newestVersion(list string) string {
	versions := strings.Split(list, "_")
	return slices.MaxFunc(versions, version.CompareKubeAwareVersionStrings)
}
