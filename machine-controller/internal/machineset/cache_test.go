// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/index/indextest"
	"drover.io/machine-controller/internal/machineset/creation"
	"drover.io/machine-controller/internal/testenv"
)

// reconcilerWith has these objects in a namespace of their own, and sends every request but those of its guard through funcs.
func reconcilerWith(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) (*Reconciler, client.WithWatch) {
	t.Helper()
	inner := indextest.NewClient(t, unmanaged.Client(t))
	indextest.Create(t, inner, unmanaged.Namespace(t), objects...)
	clk := testingclock.NewFakePassiveClock(epoch)
	r := &Reconciler{Client: interceptor.NewClient(inner, funcs), Live: inner, Guard: newGuard(inner), Events: events.NewFakeRecorder(100), Clock: clk, Templates: &contract.Templates{}}
	r.setUp()
	return r, inner
}

func TestFailedCreationIsVerifiedLive(t *testing.T) {
	t.Parallel()
	group := clusterv1.GroupVersion.WithResource("machines").GroupResource()
	for name, err := range map[string]error{
		"after a lost answer":                  errors.New("connection reset"),
		"after a timeout":                      apierrors.NewTimeoutError("slow", 1),
		"after an internal error":              apierrors.NewInternalError(errors.New("panic")),
		"after an unavailable server":          apierrors.NewServiceUnavailable("going down"),
		"after a name that is taken, maybe by": apierrors.NewAlreadyExists(group, "m"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := reconcilerWith(t, interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return err },
			})
			set := machineSet("ns")
			set.UID = "set-uid"
			r.tracker.SetVerified(set.UID)
			if got := r.creator.Create(t.Context(), set, creation.Templates{}); !errors.Is(got, err) {
				t.Fatalf("error is %v", got)
			}
			if r.tracker.Verified(set.UID) {
				t.Error("the cache is still trusted")
			}
		})
	}
}

// clusterAndSet is a Cluster "c" and a MachineSet "s" that counts 3 Machines.
func clusterAndSet() (*clusterv1.Cluster, *clusterv1.MachineSet) {
	set := machineSet("ns")
	set.UID, set.Spec.Replicas, set.Status.Replicas = "set-uid", new(int32(3)), new(int32(3))
	return testenv.Cluster("ns"), set
}

func TestFailedObservationKeepsStatus(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, funcs := range map[string]interceptor.Funcs{
		"when listing fails": {List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, ok := list.(*clusterv1.MachineList); ok {
				return boom
			}
			return c.List(ctx, list, options...)
		}},
		"when adopting fails": {Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			if o.GetObjectKind().GroupVersionKind().Kind == "Machine" {
				return boom
			}
			return c.Patch(ctx, o, patch, options...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, set := clusterAndSet()
			stray := testenv.Machine("ns", "m")
			stray.Labels = map[string]string{"pool": "a"}
			r, inner := reconcilerWith(t, funcs, cluster, set, stray)
			if _, err := r.Reconcile(t.Context(), set.DeepCopy()); !errors.Is(err, boom) {
				t.Fatalf("error is %v, want %v", err, boom)
			}
			got := &clusterv1.MachineSet{}
			if err := inner.Get(t.Context(), client.ObjectKeyFromObject(set), got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(new(int32(3)), got.Status.Replicas); diff != "" {
				t.Errorf("replicas: %s", diff)
			}
		})
	}
}

// staleCache is a client whose cache lacks the Machines that the API server has.
func staleCache() interceptor.Funcs {
	return interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, ok := list.(*clusterv1.MachineList); ok {
			return nil
		}
		return c.List(ctx, list, options...)
	}}
}

func TestDeletedSetWaitsForUnseenMachines(t *testing.T) {
	t.Parallel()
	cluster, set := clusterAndSet()
	set.Finalizers = []string{clusterv1.MachineSetFinalizer}
	unseen := creation.NewMachine(set, "m")
	r, inner := reconcilerWith(t, staleCache(), cluster, set, unseen)
	if err := inner.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if err := inner.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
		t.Fatal(err)
	}
	result, err := r.Reconcile(t.Context(), set.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	if err := inner.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil || result.RequeueAfter == 0 {
		t.Errorf("the MachineSet went (%v) before its Machine, next look %s", err, result.RequeueAfter)
	}
}

func TestSetIsNotScaledOnStaleCache(t *testing.T) {
	t.Parallel()
	cluster, set := clusterAndSet()
	funcs := staleCache()
	funcs.Create = func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		t.Error("something was created")
		return nil
	}
	r, _ := reconcilerWith(t, funcs, cluster, set, creation.NewMachine(set, "m"))
	if result, err := r.Reconcile(t.Context(), set.DeepCopy()); err != nil || result.RequeueAfter == 0 {
		t.Errorf("next look %s, error %v", result.RequeueAfter, err)
	}
}

func TestSetWithoutReplicasIsNotScaled(t *testing.T) {
	t.Parallel()
	cluster, set := clusterAndSet()
	own := creation.NewMachine(set, "m")
	r, inner := reconcilerWith(t, interceptor.Funcs{}, cluster, set, own)
	set.Spec.Replicas = nil // as only a CRD without the default admits it
	if _, err := r.Reconcile(t.Context(), set.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if err := inner.Get(t.Context(), client.ObjectKeyFromObject(own), own); err != nil || own.DeletionTimestamp != nil {
		t.Errorf("its Machine was deleted, or not found: %v", err)
	}
}
