// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/predicates"
)

// syncTimeout bounds how long a worker waits for the first list of a new kind.
const syncTimeout = 10 * time.Second

// Reader gets provider objects by reference, from a cache that it fills with a watch the
// first time a kind is read.
type Reader struct {
	Resolver *Resolver
	// Cached answers gets of unstructured objects, and of metadata, from the manager's cache.
	Cached  client.Reader
	Watcher *Watcher
	// Watch refuses the objects that are labelled for another manager.
	Watch predicates.WatchFilter
}

// Get returns the referenced object and the contract to read it by. Errors are the API
// server's (NotFound when the object does not exist) or one for which [IsMisconfigured] is true.
func (r *Reader) Get(ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference) (Object, error) {
	if err := CheckInstance(ref.GroupKind()); err != nil {
		return Object{}, err
	}
	object := &unstructured.Unstructured{}
	version, err := r.read(ctx, namespace, ref, object)
	if err != nil {
		return Object{}, err
	}
	if err := r.Watch.CheckForeign(ref.Kind, object); err != nil {
		return Object{}, err
	}
	return Object{Unstructured: object, Contract: version}, nil
}

// TemplateMetadata returns the metadata of the referenced template, also of one that is labelled for another manager. The
// Watcher must be one of metadata. Errors are as those of Get.
func (r *Reader) TemplateMetadata(ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference) (*metav1.PartialObjectMetadata, error) {
	if err := CheckTemplate(ref.GroupKind()); err != nil {
		return nil, err
	}
	object := &metav1.PartialObjectMetadata{}
	if _, err := r.read(ctx, namespace, ref, object); err != nil {
		return nil, err
	}
	return object, nil
}

// read reads the referenced object from the cache, and returns the contract of its kind.
func (r *Reader) read(ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference, object client.Object) (Version, error) {
	gvk, version, err := r.Resolver.Resolve(ctx, ref.GroupKind())
	if err != nil {
		return "", err
	}
	if err := r.Watcher.Ensure(ctx, gvk); err != nil {
		return "", err
	}
	object.GetObjectKind().SetGroupVersionKind(gvk)
	bounded, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if err := r.Cached.Get(bounded, client.ObjectKey{Namespace: namespace, Name: ref.Name}, object); err != nil {
		return "", fmt.Errorf("reading %s %q: %w", ref.Kind, ref.Name, err)
	}
	return version, CheckScope(ref.GroupKind(), object)
}

// InfraMachine gets the InfraMachine that ref names.
func (r *Reader) InfraMachine(ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference) (*InfraMachine, error) {
	object, err := r.Get(ctx, namespace, ref)
	if err != nil {
		return nil, err
	}
	return &InfraMachine{object}, nil
}

// BootstrapConfig gets the BootstrapConfig that ref names.
func (r *Reader) BootstrapConfig(ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference) (*BootstrapConfig, error) {
	object, err := r.Get(ctx, namespace, ref)
	if err != nil {
		return nil, err
	}
	return &BootstrapConfig{object}, nil
}

// InfraCluster gets the InfraCluster that ref names.
func (r *Reader) InfraCluster(ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference) (*InfraCluster, error) {
	object, err := r.Get(ctx, namespace, ref)
	if err != nil {
		return nil, err
	}
	return &InfraCluster{object}, nil
}

// ControlPlane gets the ControlPlane that ref names.
func (r *Reader) ControlPlane(ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference) (*ControlPlane, error) {
	object, err := r.Get(ctx, namespace, ref)
	if err != nil {
		return nil, err
	}
	return &ControlPlane{object}, nil
}
