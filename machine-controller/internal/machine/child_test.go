// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func reference(kind, name string, controller *bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: kind, Name: name, UID: ownerUID(name), Controller: controller, BlockOwnerDeletion: controller}
}

// child is an object, as a provider's, with these owners and this cluster label.
func child(cluster string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("v1")
	o.SetKind("ConfigMap")
	o.SetName("t")
	if len(owners) > 0 {
		o.SetOwnerReferences(owners)
	}
	if cluster != "" {
		o.SetLabels(map[string]string{clusterv1.ClusterNameLabel: cluster})
	}
	return o
}

func adopter() *clusterv1.Machine {
	return &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: ownerUID("m")}, Spec: clusterv1.MachineSpec{ClusterName: "c"},
	}
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	mine, foreign := reference("Machine", "m", new(true)), reference("Tenant", "x", nil)
	for name, test := range map[string]struct {
		before *unstructured.Unstructured
		owners []metav1.OwnerReference
		writes int
	}{
		"leaves what is the machine's already":        {child("c", mine), []metav1.OwnerReference{mine}, 0},
		"takes what nobody owns":                      {child("c"), []metav1.OwnerReference{mine}, 1},
		"puts a lost label back":                      {child("", mine), []metav1.OwnerReference{mine}, 1},
		"corrects a label that names another cluster": {child("other", mine), []metav1.OwnerReference{mine}, 1},
		"keeps owners of another kind":                {child("c", foreign), []metav1.OwnerReference{mine, foreign}, 1},
		"takes over from the MachineSet that made it": {child("c", reference("MachineSet", "s", new(true))), []metav1.OwnerReference{mine}, 1},
		"becomes the controller of what it only owns": {child("c", reference("Machine", "m", nil)), []metav1.OwnerReference{mine}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			writes := 0
			c := interceptor.NewClient(shared.management.Client(t), interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
					writes++
					return c.Patch(ctx, o, p, options...)
				},
			})
			read := test.before
			read.SetNamespace(shared.management.Namespace(t))
			if err := c.Create(t.Context(), read); err != nil {
				t.Fatal(err)
			}
			if err := adopt(t.Context(), c, adopter(), read); err != nil {
				t.Fatal(err)
			}
			got := child("")
			got.SetNamespace(read.GetNamespace())
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(got), got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.owners, got.GetOwnerReferences()); diff != "" {
				t.Error(diff)
			}
			if got.GetLabels()[clusterv1.ClusterNameLabel] != "c" || writes != test.writes {
				t.Errorf("labels %v after %d writes, want the cluster's after %d", got.GetLabels(), writes, test.writes)
			}
		})
	}
}

func TestAdoptRefuses(t *testing.T) {
	t.Parallel()
	c := shared.management.Client(t)
	if err := adopt(t.Context(), c, adopter(), child("c", reference("Machine", "other", new(true)))); err == nil {
		t.Error("an object of another Machine was taken")
	}
	stale := child("c")
	stale.SetNamespace(shared.management.Namespace(t))
	if err := c.Create(t.Context(), stale); err != nil {
		t.Fatal(err)
	}
	stale.SetResourceVersion("1")
	if err := adopt(t.Context(), c, adopter(), stale); !apierrors.IsConflict(errors.Unwrap(err)) {
		t.Errorf("an object that has changed since it was read was taken: %v", err)
	}
}
