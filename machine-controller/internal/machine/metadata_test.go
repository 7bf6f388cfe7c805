// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// clusterOwner is the reference that a machine standing alone has.
var clusterOwner = metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c", UID: "c-uid"}

func TestMetadata(t *testing.T) {
	t.Parallel()
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "o", UID: "o-uid"}
	set := metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "s", UID: "s-uid", Controller: new(true)}
	finalizer := []string{clusterv1.MachineFinalizer}
	label := map[string]string{clusterv1.ClusterNameLabel: "c"}
	gone := metav1.Now()
	for name, test := range map[string]struct {
		given   metav1.ObjectMeta
		cluster metav1.ObjectMeta
		want    metav1.ObjectMeta
	}{
		"gives finalizer, label and owner to a stand-alone machine": {
			cluster: metav1.ObjectMeta{Name: "c", UID: "c-uid"},
			want:    metav1.ObjectMeta{Finalizers: finalizer, Labels: label, OwnerReferences: []metav1.OwnerReference{clusterOwner}},
		},
		"puts a wrong label right": {
			given:   metav1.ObjectMeta{Labels: map[string]string{clusterv1.ClusterNameLabel: "x", "mine": "1"}},
			cluster: metav1.ObjectMeta{Name: "c", UID: "c-uid"},
			want: metav1.ObjectMeta{
				Finalizers: finalizer, Labels: map[string]string{clusterv1.ClusterNameLabel: "c", "mine": "1"},
				OwnerReferences: []metav1.OwnerReference{clusterOwner},
			},
		},
		"keeps the other owners and finalizers": {
			given:   metav1.ObjectMeta{Finalizers: []string{"mine/x"}, OwnerReferences: []metav1.OwnerReference{other}},
			cluster: metav1.ObjectMeta{Name: "c", UID: "c-uid"},
			want: metav1.ObjectMeta{
				Finalizers: []string{"mine/x", clusterv1.MachineFinalizer}, Labels: label,
				OwnerReferences: []metav1.OwnerReference{other, clusterOwner},
			},
		},
		"leaves a machine of a MachineSet to it": {
			given:   metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{set}},
			cluster: metav1.ObjectMeta{Name: "c", UID: "c-uid"},
			want:    metav1.ObjectMeta{Finalizers: finalizer, Labels: label, OwnerReferences: []metav1.OwnerReference{set}},
		},
		"leaves a machine that a MachineSet is about to adopt to it": {
			given:   metav1.ObjectMeta{Labels: map[string]string{clusterv1.MachineSetNameLabel: "s"}},
			cluster: metav1.ObjectMeta{Name: "c", UID: "c-uid"},
			want:    metav1.ObjectMeta{Finalizers: finalizer, Labels: map[string]string{clusterv1.ClusterNameLabel: "c", clusterv1.MachineSetNameLabel: "s"}},
		},
		"does not add a finalizer to a machine that is being deleted": {
			given:   metav1.ObjectMeta{DeletionTimestamp: &gone},
			cluster: metav1.ObjectMeta{Name: "c", UID: "c-uid"},
			want:    metav1.ObjectMeta{DeletionTimestamp: &gone, Labels: label, OwnerReferences: []metav1.OwnerReference{clusterOwner}},
		},
		"names no owner when the Cluster is gone": {
			given:   metav1.ObjectMeta{DeletionTimestamp: &gone, Finalizers: finalizer},
			cluster: metav1.ObjectMeta{Name: "c"},
			want:    metav1.ObjectMeta{DeletionTimestamp: &gone, Finalizers: finalizer, Labels: label},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &state{
				machine: &clusterv1.Machine{ObjectMeta: test.given, Spec: clusterv1.MachineSpec{ClusterName: "c"}},
				cluster: &clusterv1.Cluster{ObjectMeta: test.cluster},
			}
			for range 2 { // the second time finds nothing to do
				if _, err := (metadata{unchanged{}}).run(context.Background(), s); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(test.want, s.machine.ObjectMeta); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWithOwnerRenewsItsReference(t *testing.T) {
	t.Parallel()
	old := clusterOwner
	old.APIVersion = "cluster.x-k8s.io/v1beta1"
	got := withOwner([]metav1.OwnerReference{old}, clusterOwner)
	if diff := cmp.Diff([]metav1.OwnerReference{clusterOwner}, got); diff != "" {
		t.Error(diff)
	}
}

// unchanged returns every object as it is given.
type unchanged struct{ client.Reader }

func (unchanged) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

// replaced finds another object of every name.
type replaced struct{ client.Reader }

func (replaced) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	object.SetUID("another")
	return nil
}

// TestAClusterThatIsGoneOwnsNothing has a cache that shows the Cluster before the one that exists: what it would own is garbage.
func TestAClusterThatIsGoneOwnsNothing(t *testing.T) {
	t.Parallel()
	s := &state{machine: &clusterv1.Machine{}, cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "before"}}}
	result, err := metadata{replaced{}}.run(t.Context(), s)
	if err != nil || result.RequeueAfter == 0 || len(s.machine.OwnerReferences) != 0 {
		t.Errorf("owners are %v, %v, %v; want none, and another attempt", s.machine.OwnerReferences, result, err)
	}
}
