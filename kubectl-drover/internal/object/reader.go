// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/runtime/spelling"
)

// chunk is how many objects one answer of the API server has.
const chunk = 500

// Scheme has all kinds that the commands read.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), clusterv1.AddToScheme(s),
		droverpolicyv1.AddToScheme(s), bootstrapv1.AddToScheme(s), infrav1.AddToScheme(s), metav1.AddMetaToScheme(s))
}

// Reader reads the objects of one API server.
type Reader struct {
	Client client.Client
	Mapper meta.RESTMapper
}

// NewReader returns a reader for the API server of a configuration. A nil mapper is made from its discovery.
func NewReader(config *rest.Config, mapper meta.RESTMapper) (*Reader, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, err
	}
	return &Reader{c, c.RESTMapper()}, nil
}

// Get reads an object. A missing one is reported with the nearest name in its namespace.
func (r *Reader) Get(ctx context.Context, kind Kind, key client.ObjectKey, into client.Object) error {
	err := r.Client.Get(ctx, key, into)
	if apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		return r.notFound(ctx, kind, key)
	}
	return r.Explain(err, kind, key.Namespace)
}

// NotFoundError means that an object does not exist.
type NotFoundError struct {
	Kind string
	Key  client.ObjectKey
	// Near is a name that does exist; empty if none is near.
	Near string
	// Elsewhere is a namespace that has the name; empty if there is none, if several have it, or if Near is set.
	Elsewhere string
}

// Error implements error.
func (e *NotFoundError) Error() string {
	text := fmt.Sprintf("there is no %s %q", e.Kind, e.Key.Name)
	if e.Key.Namespace != "" {
		text += fmt.Sprintf(" in namespace %q", e.Key.Namespace)
	}
	switch {
	case e.Near != "":
		text += fmt.Sprintf("; did you mean %q?", e.Near)
	case e.Elsewhere != "":
		text += fmt.Sprintf("; there is one in namespace %q", e.Elsewhere)
	}
	return text
}

// IsNotFound reports whether an error is that of an object that does not exist.
func IsNotFound(err error) bool {
	_, is := errors.AsType[*NotFoundError](err)
	return is
}

// notFound is the error of an object that does not exist, with what may have been meant. Both are offers: without permission
// there is none.
func (r *Reader) notFound(ctx context.Context, kind Kind, key client.ObjectKey) error {
	near, err := r.nearest(ctx, kind, key)
	missing := &NotFoundError{Kind: kind.Kind, Key: key, Near: near}
	if err == nil && near == "" && key.Namespace != "" {
		missing.Elsewhere = r.elsewhere(ctx, kind, key.Name)
	}
	return missing
}

// elsewhere is the one namespace that has an object of the name.
func (r *Reader) elsewhere(ctx context.Context, kind Kind, name string) string {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(listKind(kind.GroupVersionKind))
	if err := r.Client.List(ctx, list, client.MatchingFields{"metadata.name": name}, client.Limit(chunk)); err != nil || len(list.Items) != 1 {
		return ""
	}
	return list.Items[0].Namespace
}

// nearest looks for a name among the first objects of the namespace, and then for one that begins with it, as a Machine's does with that of its
// MachineDeployment.
func (r *Reader) nearest(ctx context.Context, kind Kind, key client.ObjectKey) (string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(listKind(kind.GroupVersionKind))
	if err := r.Client.List(ctx, list, client.InNamespace(key.Namespace), client.Limit(chunk)); err != nil {
		return "", err
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	if near, found := spelling.Nearest(key.Name, names); found {
		return near, nil
	}
	for _, name := range names {
		if strings.HasPrefix(name, key.Name+"-") {
			return name, nil
		}
	}
	return "", nil
}

func listKind(kind schema.GroupVersionKind) schema.GroupVersionKind {
	kind.Kind += "List"
	return kind
}

// maxChunks is how many chunks a list may have, so that the API server of a tenant cannot keep a command for ever.
const maxChunks = 2000

// Each calls a function with each chunk of a list, so that no more than one is in memory.
func Each[L client.ObjectList](ctx context.Context, r *Reader, kind Kind, list L, visit func(L) error, options ...client.ListOption) error {
	in := &client.ListOptions{}
	in.ApplyOptions(options)
	next := ""
	for range maxChunks {
		page, ok := list.DeepCopyObject().(L)
		if !ok {
			return fmt.Errorf("%T is no list", list)
		}
		err := r.Client.List(ctx, page, append(options, client.Limit(chunk), client.Continue(next))...)
		if err != nil {
			return r.Explain(err, kind, in.Namespace)
		}
		if err := visit(page); err != nil {
			return err
		}
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
	return fmt.Errorf("the API server has more than %d %s", maxChunks*chunk, kind.Resource)
}

// Explain says in one line what is missing in an API server, or what the user may not do there.
func (r *Reader) Explain(err error, kind Kind, namespace string) error {
	switch {
	case err == nil:
		return nil
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err) && strings.Contains(err.Error(), "could not find the requested resource"):
		return r.missingKind(kind)
	case apierrors.IsForbidden(err):
		where := "in all namespaces"
		if namespace != "" {
			where = fmt.Sprintf("in namespace %q", namespace)
		}
		return &ForbiddenError{fmt.Sprintf("you may not read %s %s: %v", kind.Resource, where, err)}
	}
	return err
}

// ForbiddenError means that the user may not read something.
type ForbiddenError struct{ text string }

// Error implements error.
func (e *ForbiddenError) Error() string { return e.text }

// IsForbidden reports whether an error is about a permission.
func IsForbidden(err error) bool {
	_, is := errors.AsType[*ForbiddenError](err)
	return is || apierrors.IsForbidden(err)
}

// MissingKindError means that an API server does not serve a kind.
type MissingKindError struct{ text string }

// Error implements error.
func (e *MissingKindError) Error() string { return e.text }

func (r *Reader) missingKind(kind Kind) error {
	others, err := r.Mapper.RESTMappings(kind.GroupKind())
	if err == nil && len(others) > 0 {
		return &MissingKindError{fmt.Sprintf("this cluster serves %s only as %s: its Cluster API is older than Drover, which needs %s",
			kind.Kind, others[0].GroupVersionKind.GroupVersion(), kind.GroupVersion())}
	}
	return &MissingKindError{fmt.Sprintf("this cluster has no %s of %s: Drover is not installed there; --context chooses another cluster", kind.Kind, kind.GroupVersion())}
}

// IsMissingKind reports whether an error is about a kind that is not served.
func IsMissingKind(err error) bool {
	_, is := errors.AsType[*MissingKindError](err)
	return is
}

// Machines visits the Machines of a Cluster, or of a namespace if the Cluster is empty, in chunks.
func (r *Reader) Machines(ctx context.Context, namespace, cluster string, visit func([]clusterv1.Machine) error) error {
	options := []client.ListOption{client.InNamespace(namespace)}
	if cluster != "" {
		options = append(options, client.MatchingLabels{clusterv1.ClusterNameLabel: cluster})
	}
	return Each(ctx, r, Machine, &clusterv1.MachineList{}, func(page *clusterv1.MachineList) error { return visit(page.Items) }, options...)
}

// Unstructured reads an object of any kind.
func (r *Reader) Unstructured(ctx context.Context, kind Kind, key client.ObjectKey) (*unstructured.Unstructured, error) {
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(kind.GroupVersionKind)
	return found, r.Get(ctx, kind, key, found)
}

// Referenced reads the object that a Machine or Cluster refers to, by the version that the API server prefers; nil without a
// reference.
func (r *Reader) Referenced(ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference) (*unstructured.Unstructured, error) {
	if !ref.IsDefined() {
		return nil, nil
	}
	mapping, err := r.Mapper.RESTMapping(schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind})
	if err != nil {
		return nil, err
	}
	return r.Unstructured(ctx, Kind{mapping.GroupVersionKind, mapping.Resource.Resource, nil}, client.ObjectKey{Namespace: namespace, Name: ref.Name})
}

// Conditions returns those of an object of any kind; what cannot be read is left out.
func Conditions(object *unstructured.Unstructured) []metav1.Condition {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	var all []metav1.Condition
	for _, item := range list {
		fields, is := item.(map[string]any)
		if !is {
			continue
		}
		var condition metav1.Condition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &condition); err == nil {
			all = append(all, condition)
		}
	}
	return all
}

// NodeConditions is a convenience for the conditions of a Node, which have no observed generation.
func NodeConditions(node *corev1.Node) []metav1.Condition {
	all := make([]metav1.Condition, 0, len(node.Status.Conditions))
	for _, c := range node.Status.Conditions {
		all = append(all, metav1.Condition{Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message, LastTransitionTime: c.LastTransitionTime})
	}
	return all
}
