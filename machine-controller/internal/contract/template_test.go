// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/runtime/httplimit"
)

// templatesWith reads templates from an API server that answers reads of objects with an error, or an empty object.
func templatesWith(err error, namespaced bool) *Templates {
	return &Templates{
		Resolver: &Resolver{Reader: &api{labels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1"}}},
		Live: interceptor.NewClient(nil, interceptor.Funcs{
			Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
				if object.SetName(key.Name); namespaced {
					object.SetNamespace(key.Namespace)
				}
				return err
			},
		}),
	}
}

// isMissing reports whether an error is that of a template that does not exist, which the API server's own answer is in.
func isMissing(err error) bool {
	missing, is := errors.AsType[*TemplateMissingError](err)
	return is && missing.Kind == "ThingTemplate" && missing.Key == client.ObjectKey{Namespace: "ns", Name: "t"} && apierrors.IsNotFound(err)
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: "g", Resource: "thingtemplates"}
	reference := func(group, kind string) clusterv1.ContractVersionedObjectReference {
		return clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: kind, Name: "t"}
	}
	template, instance := reference("g", "ThingTemplate"), reference("g", "Thing")
	for name, test := range map[string]struct {
		ref          clusterv1.ContractVersionedObjectReference
		readErr      error
		clusterScope bool
		template     func(error) bool // nil: no error
		instance     func(error) bool
	}{
		"reads a template, which is no instance":     {ref: template, instance: IsInvalidReference},
		"reads an instance, which is no template":    {ref: instance, template: IsInvalidReference},
		"refuses kinds of Cluster API":               {ref: reference(clusterv1.GroupVersion.Group, "MachineTemplate"), template: IsInvalidReference, instance: IsInvalidReference},
		"names a missing template":                   {ref: template, readErr: apierrors.NewNotFound(resource, "t"), template: isMissing, instance: IsInvalidReference},
		"names a missing instance":                   {ref: instance, readErr: apierrors.NewNotFound(resource, "t"), template: IsInvalidReference, instance: apierrors.IsNotFound},
		"names a missing permission":                 {ref: template, readErr: apierrors.NewForbidden(resource, "t", nil), template: IsMisconfigured, instance: IsInvalidReference},
		"refuses a template of no namespace":         {ref: template, clusterScope: true, template: IsInvalidReference, instance: IsInvalidReference},
		"refuses an instance of no namespace":        {ref: instance, clusterScope: true, template: IsInvalidReference, instance: IsInvalidReference},
		"names a template that is too large":         {ref: template, readErr: fmt.Errorf("reading body: %w", &httplimit.TooManyElementsError{Limit: MaxElements}), template: IsMisconfigured, instance: IsInvalidReference},
		"returns an error that a retry can overcome": {ref: template, readErr: errors.New("boom"), template: func(err error) bool { return err != nil && !IsMisconfigured(err) }, instance: IsInvalidReference},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			templates := templatesWith(test.readErr, !test.clusterScope)
			got, err := templates.Get(t.Context(), "ns", test.ref)
			if test.template == nil && (err != nil || got.GetName() != "t" || got.GetNamespace() != "ns") || test.template != nil && !test.template(err) {
				t.Errorf("template %v, error %v", got, err)
			}
			object, err := templates.Instance(t.Context(), "ns", test.ref)
			if test.instance == nil && (err != nil || object.GetName() != "t") || test.instance != nil && !test.instance(err) {
				t.Errorf("instance %v, error %v", object, err)
			}
		})
	}
}

// TestMessagesNameTheCorrection checks the errors that a user has to correct.
func TestMessagesNameTheCorrection(t *testing.T) {
	t.Parallel()
	gk := schema.GroupKind{Group: "g", Kind: "Thing"}
	for want, err := range map[string]error{
		`no CustomResourceDefinition "things.g" for kind Thing.g: install the provider that serves it or correct the reference`:      &MissingCRDError{gk, "things.g"},
		`not allowed to read kind Thing.g: give the provider a ClusterRole labelled cluster.x-k8s.io/aggregate-to-manager=true (no)`: &ForbiddenError{gk, errors.New("no")},
		`Thing.g cannot be referenced here: name a template`:                                                                         &InvalidReferenceError{gk, "a template"},
		`Thing "t" has more than 20000 elements: make it smaller`:                                                                    &TooLargeError{gk, "t"},
	} {
		if got := err.Error(); got != want || !IsMisconfigured(err) {
			t.Errorf("message %q, want %q", got, want)
		}
	}
}

// TestObjectHasNoRecordsOfTheProvider: an identity from a template would make all machines claim one instance.
func TestObjectHasNoRecordsOfTheProvider(t *testing.T) {
	t.Parallel()
	reserved := map[string]any{"infrastructure.drover.io/identity": "x"}
	template := &Template{&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "g/v1", "kind": "ThingTemplate", "metadata": map[string]any{"name": "t", "namespace": "ns"},
		"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": reserved}, "spec": map[string]any{}}},
	}}}
	object, err := template.Object(Metadata{Name: "m", ClusterName: "c", Annotations: map[string]string{"infrastructure.drover.io/account": "x", "kept": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	for key := range object.GetAnnotations() {
		if IsReservedAnnotation(key) {
			t.Errorf("the object has the annotation %s", key)
		}
	}
	if object.GetAnnotations()["kept"] != "1" {
		t.Errorf("annotations %v", object.GetAnnotations())
	}
}
