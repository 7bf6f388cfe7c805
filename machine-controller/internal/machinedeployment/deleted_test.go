// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/testenv"
)

// TestDeletedDeploymentAdoptsNothing deletes a MachineDeployment with --cascade=orphan, as the garbage collector does,
// and reconciles it once more from a cache that does not show that yet: its MachineSet would be garbage, with its Machines.
func TestDeletedDeploymentAdoptsNothing(t *testing.T) {
	t.Parallel()
	md := selecting()
	set := setOf(md, "set", "v1.36.1")
	set.Labels = map[string]string{"pool": "a"}
	r := reconcilerWith(t, interceptor.Funcs{}, testenv.Cluster(""), md, set)
	r.setUp()
	r.get(t, md)
	r.get(t, set)
	set.OwnerReferences = nil
	if err := r.Client.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	stale := md.DeepCopy()
	if err := r.Client.Delete(t.Context(), md); err != nil {
		t.Fatal(err)
	}
	_, _ = r.Reconcile(t.Context(), stale) // nothing that it writes can succeed
	r.get(t, set)
	if owner := metav1.GetControllerOf(set); owner != nil {
		t.Errorf("the MachineSet is controlled by MachineDeployment %s, which does not exist", owner.UID)
	}
}

// TestDeletedClusterIsNoOwner has a cache that shows the Cluster before the one that exists.
func TestDeletedClusterIsNoOwner(t *testing.T) {
	t.Parallel()
	md := selecting()
	r := reconcilerWith(t, interceptor.Funcs{}, testenv.Cluster(""), md)
	r.setUp()
	r.Client = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, o, options...)
			if _, is := o.(*clusterv1.Cluster); is && err == nil {
				o.SetUID("before")
			}
			return err
		},
	})
	r.get(t, md)
	result, err := r.Reconcile(t.Context(), md)
	if r.get(t, md); err != nil || result.RequeueAfter == 0 || len(md.OwnerReferences) != 0 {
		t.Errorf("owners are %v, %v, %v; want none, and another attempt", md.OwnerReferences, result, err)
	}
}

// TestRefusedMachineSetIsReported has a quota, which admits no MachineSet.
func TestRefusedMachineSetIsReported(t *testing.T) {
	t.Parallel()
	md := selecting()
	md.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.test.io", Kind: "ThingMachineTemplate", Name: "t"}
	r := reconcilerWith(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if _, is := o.(*clusterv1.MachineSet); is {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "machinesets"}, o.GetName(), errors.New("exceeded quota"))
			}
			return c.Create(ctx, o, options...)
		},
	}, testenv.Cluster(""), md)
	r.setUp()
	template := definition("infrastructure.test.io", "ThingMachineTemplate")
	template.SetNamespace(md.Namespace)
	if err := r.Client.Create(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r.get(t, md)
		_, _ = r.Reconcile(t.Context(), md) // it fails each time, and is tried again
	}
	r.get(t, md)
	if message := conditions.GetMessage(md, clusterv1.MachineDeploymentAvailableCondition); !strings.Contains(message, "exceeded quota") {
		t.Errorf("the condition Available has the message %q", message)
	}
}
