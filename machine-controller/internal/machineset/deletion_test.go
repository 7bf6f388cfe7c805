// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/machineset/creation"
	"drover.io/machine-controller/internal/machineset/deletion"
	"drover.io/machine-controller/internal/testenv"
)

// One Machine whose deletion is refused keeps none of the others, of which there are more than go at once.
func TestDeleteMachinesContinuesAfterAnError(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "set", UID: "set"}}
	var machines []*clusterv1.Machine
	var objects []client.Object
	for i := range 3 * deletion.MaxParallel {
		m := testenv.Machine("ns", fmt.Sprint("m", i))
		machines, objects = append(machines, m), append(objects, m)
	}
	r, inner := reconcilerWith(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			if object.GetName() == "m3" {
				return refused
			}
			return c.Delete(ctx, object, options...)
		},
	}, objects...)
	if err := r.deleter.DeleteAll(t.Context(), set, machines, deletion.ReasonScaleDown); !errors.Is(err, refused) {
		t.Errorf("error %v, want the refusal", err)
	}
	left := &clusterv1.MachineList{}
	if err := inner.List(t.Context(), left, client.InNamespace(machines[0].Namespace)); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range left.Items {
		names = append(names, m.Name)
	}
	if diff := cmp.Diff([]string{"m3"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestFailedDeletionIsVerifiedLive(t *testing.T) {
	t.Parallel()
	group := clusterv1.GroupVersion.WithResource("machines").GroupResource()
	for name, test := range map[string]struct {
		err     error
		trusted bool
	}{
		"after a lost answer":           {errors.New("connection reset"), false},
		"after a timeout":               {apierrors.NewTimeoutError("slow", 1), false},
		"not after a refusal":           {apierrors.NewForbidden(group, "m", errors.New("policy")), true},
		"not after a conflict":          {apierrors.NewConflict(group, "m", errors.New("changed")), true},
		"not for one that is gone":      {apierrors.NewNotFound(group, "m"), true},
		"not after one that is deleted": {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := interceptor.NewClient(nil, interceptor.Funcs{
				Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return test.err },
			})
			for how, remove := range map[string]func(*deletion.Deleter, *clusterv1.MachineSet, *clusterv1.Machine) error{
				"all": func(d *deletion.Deleter, set *clusterv1.MachineSet, m *clusterv1.Machine) error {
					return d.DeleteAll(t.Context(), set, []*clusterv1.Machine{m}, deletion.ReasonScaleDown)
				},
				"if unchanged": func(d *deletion.Deleter, set *clusterv1.MachineSet, m *clusterv1.Machine) error {
					_, err := d.DeleteIfUnchanged(t.Context(), set, m, deletion.ReasonRemediation)
					return err
				},
			} {
				set, m := machineSet("ns"), testenv.Machine("ns", "m")
				set.UID = "set-uid"
				d := &deletion.Deleter{Client: c, Tracker: &expectation.Tracker{Clock: clock.RealClock{}}}
				d.Tracker.SetVerified(set.UID)
				if err := remove(d, set, m); err != nil && !errors.Is(err, test.err) {
					t.Errorf("%s: error %v", how, err)
				}
				if trusted := d.Tracker.Verified(set.UID); trusted != test.trusted {
					t.Errorf("%s: the cache is trusted %t", how, trusted)
				}
			}
		})
	}
}

// TestNoOtherMachineIsDeletedAfterALostAnswer has a cache that does not show yet that a Machine is being deleted. The MachineSet may
// have changed meanwhile, and so have another order of deletion.
func TestNoOtherMachineIsDeletedAfterALostAnswer(t *testing.T) {
	t.Parallel()
	cluster, set := clusterAndSet()
	before := []*clusterv1.Machine{creation.NewMachine(set, "a"), creation.NewMachine(set, "b")}
	lost := errors.New("connection reset")
	r, _ := reconcilerWith(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			if err := c.Delete(ctx, object, options...); err != nil {
				return err
			}
			return lost
		},
	}, cluster, set, before[0], before[1])
	r.tracker.SetVerified(set.UID)
	if err := r.deleter.DeleteAll(t.Context(), set, before[:1], deletion.ReasonScaleDown); !errors.Is(err, lost) {
		t.Fatalf("error %v", err)
	}
	if current, err := r.cacheCurrent(t.Context(), &state{set: set, machines: before}); err != nil || current {
		t.Errorf("the cache counts as current %t, error %v", current, err)
	}
}
