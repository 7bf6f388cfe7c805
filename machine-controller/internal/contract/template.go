// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/httplimit"
)

// Templates reads the templates that infrastructure and bootstrap objects are made from.
// They are read from the API server itself and only when something is to be created, so
// that they cost no memory and are never stale. Their metadata alone are cached, see [Reader.TemplateMetadata].
type Templates struct {
	Resolver *Resolver
	// Live reads from the API server itself, objects of at most [MaxElements].
	Live client.Reader
}

// Template is a provider's template, ready to make objects from.
type Template struct {
	*unstructured.Unstructured
}

// Get returns the referenced template; a missing one is a [*TemplateMissingError].
func (t *Templates) Get(ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference) (*Template, error) {
	if err := CheckTemplate(ref.GroupKind()); err != nil {
		return nil, err
	}
	object, err := t.read(ctx, namespace, ref)
	switch {
	case apierrors.IsNotFound(err):
		return nil, &TemplateMissingError{ref.Kind, client.ObjectKey{Namespace: namespace, Name: ref.Name}, err}
	case err != nil:
		return nil, err
	}
	return &Template{object}, nil
}

// Instance returns the referenced object, which is no template, from the API server itself.
func (t *Templates) Instance(ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference) (*unstructured.Unstructured, error) {
	if err := CheckInstance(ref.GroupKind()); err != nil {
		return nil, err
	}
	return t.read(ctx, namespace, ref)
}

func (t *Templates) read(ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference) (*unstructured.Unstructured, error) {
	gvk, _, err := t.Resolver.Resolve(ctx, ref.GroupKind())
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gvk)
	if err := t.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, object); err != nil {
		if apierrors.IsForbidden(err) {
			return nil, &ForbiddenError{GroupKind: ref.GroupKind(), Err: err}
		}
		if _, large := errors.AsType[*httplimit.TooManyElementsError](err); large {
			return nil, &TooLargeError{ref.GroupKind(), ref.Name}
		}
		return nil, fmt.Errorf("reading %s %q: %w", ref.Kind, ref.Name, err)
	}
	if err := CheckScope(ref.GroupKind(), object); err != nil {
		return nil, err
	}
	return object, nil
}

// Metadata is name, labels and owner of an object made from a template.
type Metadata struct {
	Name        string
	ClusterName string
	// Labels and Annotations are added to those of the template.
	Labels, Annotations map[string]string
	// Owner becomes the controller of the object.
	Owner metav1.OwnerReference
}

// Object makes the object that the template describes. Nothing is sent to the API server.
// It fails when the template has no spec.template.spec.
func (t *Template) Object(meta Metadata) (*unstructured.Unstructured, error) {
	spec, found, err := unstructured.NestedMap(t.Unstructured.Object, "spec", "template", "spec")
	if err != nil || !found {
		return nil, fmt.Errorf("%s %q has no spec.template.spec", t.GetKind(), t.GetName())
	}
	labels, _, _ := unstructured.NestedStringMap(t.Unstructured.Object, "spec", "template", "metadata", "labels")
	annotations, _, _ := unstructured.NestedStringMap(t.Unstructured.Object, "spec", "template", "metadata", "annotations")

	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(t.GroupVersionKind().GroupVersion().WithKind(strings.TrimSuffix(t.GetKind(), templateSuffix)))
	object.SetNamespace(t.GetNamespace())
	object.SetName(meta.Name)
	object.SetOwnerReferences([]metav1.OwnerReference{meta.Owner})
	object.SetLabels(merged(labels, meta.Labels, map[string]string{
		clusterv1.ClusterNameLabel: meta.ClusterName,
	}))
	object.SetAnnotations(merged(withoutReserved(annotations), withoutReserved(meta.Annotations), map[string]string{
		clusterv1.TemplateClonedFromNameAnnotation:      t.GetName(),
		clusterv1.TemplateClonedFromGroupKindAnnotation: t.GroupVersionKind().GroupKind().String(),
	}))
	return object, nil
}

// Ref is the reference by which the object made from the template under name is found.
func (t *Template) Ref(name string) clusterv1.ContractVersionedObjectReference {
	return RefFromTemplate(clusterv1.ContractVersionedObjectReference{APIGroup: t.GroupVersionKind().Group, Kind: t.GetKind()}, name)
}

// RefFromTemplate turns a reference to a template into the reference to the object made
// from it under name.
func RefFromTemplate(template clusterv1.ContractVersionedObjectReference, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{
		APIGroup: template.APIGroup,
		Kind:     strings.TrimSuffix(template.Kind, templateSuffix),
		Name:     name,
	}
}

// reservedAnnotations begin with the domain in which infrastructure providers record the instance of one machine. The
// annotations of a template are for all machines.
const reservedAnnotations = "infrastructure.drover.io/"

// IsReservedAnnotation reports whether the annotation of an infrastructure object belongs to its provider, so that it is
// neither copied from a template nor removed with it.
func IsReservedAnnotation(key string) bool { return strings.HasPrefix(key, reservedAnnotations) }

func withoutReserved(annotations map[string]string) map[string]string {
	allowed := maps.Clone(annotations)
	maps.DeleteFunc(allowed, func(key, _ string) bool { return IsReservedAnnotation(key) })
	return allowed
}

func merged(layers ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, layer := range layers {
		maps.Copy(all, layer)
	}
	return all
}
