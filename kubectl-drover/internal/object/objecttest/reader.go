// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package objecttest has readers over given objects, for tests of what the commands make of them. What an API server decides,
// as schemas, defaults and permissions, is tested with a real one in package command.
package objecttest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/kubectl-drover/internal/object"
)

// Reader reads the given objects, through the functions that are not nil.
func Reader(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *object.Reader {
	t.Helper()
	scheme, err := object.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(scheme.PrioritizedVersionsAllGroups())
	for gvk := range scheme.AllKnownTypes() {
		mapper.Add(gvk, meta.RESTScopeNamespace)
	}
	mapper.Add(object.Node.GroupVersionKind, meta.RESTScopeRoot)
	c := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(objects...).WithInterceptorFuncs(funcs).
		WithIndex(&corev1.Pod{}, "spec.nodeName", nodeName).WithIndex(&corev1.Event{}, "involvedObject.uid", involved).
		WithIndex(&clusterv1.Machine{}, "metadata.name", nameOf).Build()
	return &object.Reader{Client: c, Mapper: mapper}
}

func nodeName(o client.Object) []string {
	if pod, is := o.(*corev1.Pod); is {
		return []string{pod.Spec.NodeName}
	}
	return nil
}

func nameOf(o client.Object) []string { return []string{o.GetName()} }

func involved(o client.Object) []string {
	if event, is := o.(*corev1.Event); is {
		return []string{string(event.InvolvedObject.UID)}
	}
	return nil
}
