// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/safety"
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
	refusals := 0
	r := reconcilerWith(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if _, is := o.(*clusterv1.MachineSet); is {
				refusals++
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
	clock := clocktesting.NewFakePassiveClock(epoch)
	r.refused.Clock = clock
	for i, pass := range []struct {
		after    time.Duration
		changed  bool // to another generation
		refusals int
	}{
		{0, false, 1},
		{0, false, 1},
		{safety.RetryPeriod - 1, false, 1},
		{safety.RetryPeriod, false, 2},
		{safety.RetryPeriod, false, 2},
		{safety.RetryPeriod, true, 3},
	} {
		clock.SetTime(epoch.Add(pass.after))
		r.get(t, md)
		if pass.changed {
			md.Spec.Replicas = new(int32(4))
			if err := r.Client.Update(t.Context(), md); err != nil {
				t.Fatal(err)
			}
		}
		written := md.ResourceVersion
		_, _ = r.Reconcile(t.Context(), md) // it fails, and is tried again after a while
		if r.get(t, md); i > 0 && !pass.changed && md.ResourceVersion != written {
			t.Errorf("pass %d: the MachineDeployment was written again", i)
		}
		if refusals != pass.refusals {
			t.Errorf("pass %d: the MachineSet was requested %d times, want %d", i, refusals, pass.refusals)
		}
	}
	if message := conditions.GetMessage(md, clusterv1.MachineDeploymentAvailableCondition); !strings.Contains(message, "exceeded quota") {
		t.Errorf("the condition Available has the message %q", message)
	}
}

// TestRefusedDeletionOfMachineSetsIsReported deletes a deployment with MachineSets that an admission policy protects. The first of them
// is named, in whatever order the cache has them.
func TestRefusedDeletionOfMachineSetsIsReported(t *testing.T) {
	t.Parallel()
	md := selecting()
	md.Finalizers = []string{clusterv1.MachineDeploymentFinalizer}
	funcs := (&protection{names: []string{"a", "b", "c"}}).funcs()
	funcs.List = func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		err := c.List(ctx, list, options...)
		if sets, is := list.(*clusterv1.MachineSetList); is {
			slices.Reverse(sets.Items)
		}
		return err
	}
	r := reconcilerWith(t, funcs, testenv.Cluster(""), md, setOf(md, "a", "v1.36.1"), setOf(md, "b", "v1.36.1"), setOf(md, "c", "v1.36.1"))
	r.setUp()
	if err := r.Client.Delete(t.Context(), md); err != nil {
		t.Fatal(err)
	}
	r.get(t, md)
	result, err := r.Reconcile(t.Context(), md)
	if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > safety.RetryPeriod {
		t.Errorf("it is reconciled again after %s, error %v; want %s at most, however often it is refused", result.RequeueAfter, err, safety.RetryPeriod)
	}
	r.get(t, md)
	if message := conditions.GetMessage(md, clusterv1.MachineDeploymentDeletingCondition); !strings.Contains(message, `"a" is forbidden: it is protected`) {
		t.Errorf("the condition Deleting has the message %q", message)
	}
}

// TestCountersOfADeploymentThatFailsAreCurrent has a MachineSet that can neither be updated nor deleted: the reconciles fail, each
// later than the one before, and the last status has just been written when the MachineSet counts differently.
func TestCountersOfADeploymentThatFailsAreCurrent(t *testing.T) {
	t.Parallel()
	for name, deleted := range map[string]bool{"updated": false, "deleted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := selecting()
			md.Finalizers = []string{clusterv1.MachineDeploymentFinalizer}
			set := setOf(md, "set", md.Spec.Template.Spec.Version)
			fail := func(o client.Object, otherwise func() error) error {
				if _, is := o.(*clusterv1.MachineSet); is {
					return apierrors.NewInternalError(errors.New("a webhook is not available"))
				}
				return otherwise()
			}
			r := reconcilerWith(t, interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
					return fail(o, func() error { return c.Patch(ctx, o, patch, options...) })
				},
				Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
					return fail(o, func() error { return c.Delete(ctx, o, options...) })
				},
			}, testenv.Cluster(""), md, set)
			r.setUp()
			if deleted {
				if err := r.Client.Delete(t.Context(), md); err != nil {
					t.Fatal(err)
				}
			}
			for _, available := range []int32{1, 2, 1} {
				r.get(t, set)
				set.Status.Replicas, set.Status.AvailableReplicas = new(int32(3)), &available
				if err := r.Client.Status().Update(t.Context(), set); err != nil {
					t.Fatal(err)
				}
				r.get(t, md)
				if _, err := r.Reconcile(t.Context(), md); err == nil {
					t.Error("the reconcile is not repeated")
				}
				if r.get(t, md); replicaCounts(md).Available != available {
					t.Errorf("status.availableReplicas is %d, want %d", replicaCounts(md).Available, available)
				}
			}
		})
	}
}

// TestDeletionWaitsForUnseenSets deletes a deployment just after it has created a MachineSet that the cache does not show.
func TestDeletionWaitsForUnseenSets(t *testing.T) {
	t.Parallel()
	md := selecting()
	md.Finalizers = []string{clusterv1.MachineDeploymentFinalizer}
	unseen := setOf(md, "unseen", "v1.36.2")
	r := reconcilerWith(t, interceptor.Funcs{}, md)
	r.tracker = &expectation.Tracker{Clock: r.Clock}
	r.tracker.Created(md.UID, unseen)
	if err := r.Client.Delete(t.Context(), md); err != nil {
		t.Fatal(err)
	}
	r.get(t, md)
	if _, err := r.finalize(t.Context(), md.DeepCopy(), &state{deployment: md, cluster: &clusterv1.Cluster{}}); err != nil {
		t.Fatal(err)
	}
	if r.get(t, md); len(md.Finalizers) != 1 {
		t.Errorf("the finalizers are %v", md.Finalizers)
	}
}

// TestAdoptionRequiresTheSameCluster has a MachineSet without a controller that matches the selector, in each of two Clusters.
func TestAdoptionRequiresTheSameCluster(t *testing.T) {
	t.Parallel()
	md := selecting()
	same, other := setOf(md, "same", "v1.36.2"), setOf(md, "other", "v1.36.2")
	for _, set := range []*clusterv1.MachineSet{same, other} {
		set.OwnerReferences, set.Labels = nil, map[string]string{"pool": "a"}
	}
	other.Spec.ClusterName, other.Spec.Template.Spec.ClusterName = "other", "other"
	r := reconcilerWith(t, interceptor.Funcs{}, md, same, other)
	if err := r.observe(t.Context(), &state{deployment: md}); err != nil {
		t.Fatal(err)
	}
	r.get(t, same)
	r.get(t, other)
	if !metav1.IsControlledBy(same, md) || metav1.GetControllerOf(other) != nil {
		t.Errorf("the owners are %v and %v", same.OwnerReferences, other.OwnerReferences)
	}
}
