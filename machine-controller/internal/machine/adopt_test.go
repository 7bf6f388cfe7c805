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

	"drover.io/machine-controller/internal/ownership"
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
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "m", UID: ownerUID("m"), OwnerReferences: []metav1.OwnerReference{reference("MachineSet", "s", new(true))},
		},
		Spec: clusterv1.MachineSpec{ClusterName: "c"},
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
		"adopts what has no owner":                    {child("c"), []metav1.OwnerReference{mine}, 1},
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
			if err := adopt(t.Context(), c, adopter(), read, "spec.x"); err != nil {
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
	c := interceptor.NewClient(shared.management.Client(t), interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			t.Error("a refused object was written")
			return nil
		},
	})
	for name, owners := range map[string][]metav1.OwnerReference{
		"what another Machine controls":              {reference("Machine", "other", new(true))},
		"what another Machine only owns":             {reference("Machine", "other", nil)},
		"what another Machine owns beside it":        {reference("Machine", "m", new(true)), reference("Machine", "other", nil)},
		"what a MachineSet not its own made":         {reference("MachineSet", "other", new(true))},
		"what something unheard of controls":         {reference("Tenant", "other", new(true))},
		"what a Machine of its name controlled once": {{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m", UID: "older", Controller: new(true)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := adopt(t.Context(), c, adopter(), child("c", owners...), "spec.x"); !ownership.IsRefused(err) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestAdoptFailsOnAConflict(t *testing.T) {
	t.Parallel()
	c := shared.management.Client(t)
	stale := child("c")
	stale.SetNamespace(shared.management.Namespace(t))
	if err := c.Create(t.Context(), stale); err != nil {
		t.Fatal(err)
	}
	stale.SetResourceVersion("1")
	if err := adopt(t.Context(), c, adopter(), stale, "spec.x"); !apierrors.IsConflict(errors.Unwrap(err)) || metav1.IsControlledBy(stale, adopter()) {
		t.Errorf("an object that has changed since it was read was taken: %v", err)
	}
}

// TestAdoptLabelsForTheSameManager has objects with and without the machine's watch-filter label.
func TestAdoptLabelsForTheSameManager(t *testing.T) {
	t.Parallel()
	machine := adopter()
	machine.Labels = map[string]string{clusterv1.WatchLabel: "own"}
	c, writes := shared.management.Client(t), 0
	counting := interceptor.NewClient(c, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			writes++
			return c.Patch(ctx, o, p, options...)
		},
	})
	read := child("c", reference("Machine", "m", new(true)))
	read.SetNamespace(shared.management.Namespace(t))
	if err := c.Create(t.Context(), read); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := adopt(t.Context(), counting, machine, read, "spec.x"); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(read), read); err != nil {
			t.Fatal(err)
		}
	}
	if read.GetLabels()[clusterv1.WatchLabel] != "own" || writes != 1 {
		t.Errorf("after %d writes the labels are %v", writes, read.GetLabels())
	}
}

func TestAdoptLeavesAnObjectThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	c := interceptor.NewClient(nil, interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errors.New("an object that is being deleted was patched")
		},
	})
	o := child("c")
	o.SetDeletionTimestamp(new(metav1.Now()))
	if err := adopt(t.Context(), c, adopter(), o, "spec.x"); err != nil || len(o.GetOwnerReferences()) != 0 {
		t.Errorf("owners %v, error %v", o.GetOwnerReferences(), err)
	}
}
