// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// live is an API server with one MachineSet ns/set, or with an error.
func live(uid types.UID, deleting bool, err error) client.Reader {
	return interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
			if err != nil || key != (client.ObjectKey{Namespace: "ns", Name: "set"}) {
				return errors.Join(err, errors.New("reading "+key.String()))
			}
			object.SetUID(uid)
			if object.SetDeletionTimestamp(nil); deleting {
				object.SetDeletionTimestamp(new(metav1.Now()))
			}
			return nil
		},
	})
}

func TestOwners(t *testing.T) {
	t.Parallel()
	notFound := apierrors.NewNotFound(corev1.Resource("machinesets"), "set")
	boom := errors.New("boom")
	cached := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "set", UID: "uid"}}
	for name, test := range map[string]struct {
		live             client.Reader
		canAdopt, exists bool
		err              error
	}{
		"is an object that exists":                    {live: live("uid", false, nil), canAdopt: true, exists: true},
		"is not adopted by an object being deleted":   {live: live("uid", true, nil), exists: true},
		"is no object that was replaced":              {live: live("another", false, nil)},
		"is no object that was replaced and deleted":  {live: live("another", true, nil)},
		"is no object that was deleted":               {live: live("", false, notFound)},
		"is unknown when the API server gives errors": {live: live("", false, boom), err: boom},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			canAdopt, err := CanAdopt(t.Context(), test.live, cached)
			if canAdopt != test.canAdopt || !errors.Is(err, test.err) || (err != nil) != (test.err != nil) {
				t.Errorf("can adopt is %t, error %v", canAdopt, err)
			}
			exists, err := Exists(t.Context(), test.live, cached)
			if exists != test.exists || (err != nil) != (test.err != nil) {
				t.Errorf("exists is %t, error %v", exists, err)
			}
			gone, err := Gone(t.Context(), test.live, []metav1.OwnerReference{{UID: "other"}}, cached)
			if test.err == nil && gone == test.exists || (err != nil) != (test.err != nil) {
				t.Errorf("gone is %t, error %v", gone, err)
			}
		})
	}
	if cached.DeletionTimestamp != nil || cached.UID != "uid" {
		t.Errorf("the object from the cache was changed: %+v", cached.ObjectMeta)
	}
}

func TestGoneReadsNothingForAnExistingReference(t *testing.T) {
	t.Parallel()
	cached := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "set", UID: "uid"}}
	gone, err := Gone(t.Context(), nil, []metav1.OwnerReference{{UID: "other"}, {UID: "uid"}}, cached)
	if gone || err != nil {
		t.Errorf("gone is %t, error %v", gone, err)
	}
}

func TestControlled(t *testing.T) {
	t.Parallel()
	cluster := metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c", UID: "c"}
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}
	plain := metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "s", UID: "s"}
	controller := plain
	controller.Controller = new(true)
	got := Controlled([]metav1.OwnerReference{cluster, other, plain}, controller)
	if diff := cmp.Diff([]metav1.OwnerReference{other, controller}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
