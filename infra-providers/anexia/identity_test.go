// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package anexia_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/anexia"
	"drover.io/infra-providers/anexia/anexiafake"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/inventory"
	"drover.io/infra-providers/internal/journal"
)

const otherUID types.UID = "0a1b2c3d-0000-4000-8000-0000000000aa"

// connectObject returns a driver whose journal is in an object with a UID of its own, and perhaps another in its annotation.
func connectObject(t *testing.T, w env, own, annotated types.UID) *anexia.Driver {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, infrav1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	owner := identity.Owner
	machine := &infrav1.AnexiaMachine{ObjectMeta: metav1.ObjectMeta{
		Namespace: owner.Namespace, Name: identity.Name, UID: own, Labels: map[string]string{clusterv1.ClusterNameLabel: owner.Name},
		Annotations: map[string]string{infrav1.IdentityAnnotation: string(annotated)},
	}}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name, UID: owner.UID}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(machine, cluster).Build()
	d := w.connect(t)
	d.UseJournal(journal.Journal[*infrav1.AnexiaMachine]{
		NewMachine:     func() *infrav1.AnexiaMachine { return &infrav1.AnexiaMachine{} },
		NewMachineList: func() driver.MachineList { return &infrav1.AnexiaMachineList{} },
		Client:         c, Live: c,
	})
	return d
}

func withUID(uid types.UID) driver.Identity {
	id := identity
	id.UID = uid
	return id
}

// TestRestoreBeforeProviderID: a machine that was moved or restored while it was being created has its journal under the UID of
// its annotation. The generic reconciler looks under that of the object first, under which there is nothing.
func TestRestoreBeforeProviderID(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{TaskReads: 2})
	d := connectObject(t, w, otherUID, identity.UID)
	request := newRequest(identity, newConfig(t, unchanged))
	if _, err := d.Create(t.Context(), request); !driver.IsUnfinished(err) {
		t.Fatalf("got %v, want an UnfinishedError", err)
	}
	for range 5 {
		if _, err := d.Get(t.Context(), withUID(otherUID)); !driver.IsNotFound(err) {
			t.Fatalf("under the UID of the object: got %v, want a NotFoundError", err)
		}
		if created, err := d.Create(t.Context(), request); err == nil {
			wantRequests(t, w, provisioning, 1)
			if created.Identity.UID != identity.UID {
				t.Errorf("got %+v", created.Identity)
			}
			return
		}
	}
	t.Error("it is not created")
}

// TestWrongIdentityAnnotation: the virtual machine that was created under the UID of the object is found under it, by a read
// and in the list, and nothing is requested under the UID of an annotation that was changed since.
func TestWrongIdentityAnnotation(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{TaskReads: 2})
	d := connectObject(t, w, identity.UID, otherUID)
	request := newRequest(identity, newConfig(t, unchanged))
	if _, err := d.Create(t.Context(), request); !driver.IsUnfinished(err) {
		t.Fatalf("got %v, want an UnfinishedError", err)
	}
	if _, err := d.Create(t.Context(), newRequest(withUID(otherUID), newConfig(t, unchanged))); err == nil || driver.IsUnfinished(err) {
		t.Errorf("under the UID of the annotation: got %v, want a failure", err)
	}
	w.cloud.Pass()
	w.cloud.Pass()
	w.cloud.Pass()
	created, err := d.Get(t.Context(), identity)
	if err != nil {
		t.Fatal(err)
	}
	wantRequests(t, w, provisioning, 1)
	for listed, err := range d.List(t.Context(), identity.Owner) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := created.Identity.Checked(listed); err != nil {
			t.Errorf("in the list: %v", err)
		}
		return
	}
	t.Error("the list of the owner does not have it")
}

// TestRestoreWithoutAnnotations: the object has another UID than its virtual machine, and neither an identity nor a journal. No list
// names the owner of the virtual machine then, and the inventory must not take it for another one's.
func TestRestoreWithoutAnnotations(t *testing.T) {
	t.Parallel()
	w := newEnv(t, anexiafake.Options{})
	created := create(t, w)
	restored := inventory.New[anexia.InstanceConfig](connectObject(t, w, otherUID, ""), inventory.Options{
		Interval: time.Minute, Unsettled: time.Second, Now: w.clock.Now, Changed: func(driver.Identity) {},
	})
	lost := created.Identity
	lost.UID = ""
	if found, err := restored.Get(t.Context(), lost); err != nil || found.Identity.UID != identity.UID {
		t.Errorf("got %+v and %v", found, err)
	}
}
