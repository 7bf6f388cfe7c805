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

	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/index/indextest"
	"drover.io/machine-controller/internal/statuswriter"
	"drover.io/machine-controller/internal/testenv"
)

// reconcilerWith has these objects in a namespace of their own, and sends every request but those of its guard through funcs.
func reconcilerWith(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) (*Reconciler, client.WithWatch) {
	t.Helper()
	inner := indextest.NewClient(t, unmanaged.Client(t))
	indextest.Create(t, inner, unmanaged.Namespace(t), objects...)
	clk := testingclock.NewFakePassiveClock(epoch)
	r := &Reconciler{Client: interceptor.NewClient(inner, funcs), Live: inner, Guard: newGuard(inner), Events: events.NewFakeRecorder(100), Clock: clk, tracker: &expectation.Tracker{Clock: clk}}
	r.creator = &machineCreator{client: r.Client, tracker: r.tracker}
	r.statusWriter = statuswriter.New(r.Client, clk)
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
			if got := r.creator.create(t.Context(), set, templates{}); !errors.Is(got, err) {
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
	unseen := newMachine(set, "m")
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
	r, _ := reconcilerWith(t, funcs, cluster, set, newMachine(set, "m"))
	if result, err := r.Reconcile(t.Context(), set.DeepCopy()); err != nil || result.RequeueAfter == 0 {
		t.Errorf("next look %s, error %v", result.RequeueAfter, err)
	}
}

func TestSetWithoutReplicasIsNotScaled(t *testing.T) {
	t.Parallel()
	cluster, set := clusterAndSet()
	own := newMachine(set, "m")
	r, inner := reconcilerWith(t, interceptor.Funcs{}, cluster, set, own)
	set.Spec.Replicas = nil // as only a CRD without the default lets it in
	if _, err := r.Reconcile(t.Context(), set.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if err := inner.Get(t.Context(), client.ObjectKeyFromObject(own), own); err != nil || own.DeletionTimestamp != nil {
		t.Errorf("its Machine was deleted, or not found: %v", err)
	}
}

func TestMachineUpToDateMatchesPropagate(t *testing.T) {
	t.Parallel()
	set := setOf(map[string]string{"l": "1"}, map[string]string{"a": "1"})
	set.Spec.Template.Spec.MinReadySeconds = new(int32(1))
	for name, change := range map[string]func(*clusterv1.Machine){
		"nothing":              func(*clusterv1.Machine) {},
		"a label of its own":   func(m *clusterv1.Machine) { m.Labels["mine"] = "1" },
		"a label lost":         func(m *clusterv1.Machine) { delete(m.Labels, "l") },
		"a label changed":      func(m *clusterv1.Machine) { m.Labels[clusterv1.ClusterNameLabel] = "x" },
		"an annotation lost":   func(m *clusterv1.Machine) { delete(m.Annotations, "a") },
		"no memory":            func(m *clusterv1.Machine) { delete(m.Annotations, labelsFromTemplate) },
		"memory of a key more": func(m *clusterv1.Machine) { m.Annotations[labelsFromTemplate] = "gone,l" },
		"another spec":         func(m *clusterv1.Machine) { m.Spec.MinReadySeconds = nil },
		"a taint more":         func(m *clusterv1.Machine) { m.Spec.Taints = []clusterv1.MachineTaint{{Key: "k"}} },
		"a deletion timeout":   func(m *clusterv1.Machine) { m.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(1)) },
		"no annotations":       func(m *clusterv1.Machine) { m.Annotations = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := newMachine(set, "m")
			change(machine)
			wanted := machine.DeepCopy()
			propagate(wanted, set)
			if got, want := machineUpToDate(machine, set, machineLabels(set)), cmp.Equal(machine, wanted); got != want {
				t.Errorf("carries is %t, but propagate changes: %s", got, cmp.Diff(machine, wanted))
			}
		})
	}
}
