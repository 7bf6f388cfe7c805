// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

const uid types.UID = "0a1b2c3d-0000-4000-8000-000000000001"

var identity = driver.Identity{UID: uid, Name: "m", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}}

// newJournal returns a journal over a machine that was moved here and has another UID than its instance.
func newJournal(t *testing.T) Journal[*infrav1.AnexiaMachine] {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, infrav1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	machine := &infrav1.AnexiaMachine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "m", UID: "another", Labels: map[string]string{clusterv1.ClusterNameLabel: "home"},
		Annotations: map[string]string{infrav1.IdentityAnnotation: string(uid)},
	}}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "home", UID: "c"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(machine, cluster).Build()
	return Journal[*infrav1.AnexiaMachine]{
		NewMachine:     func() *infrav1.AnexiaMachine { return &infrav1.AnexiaMachine{} },
		NewMachineList: func() driver.MachineList { return &infrav1.AnexiaMachineList{} },
		Client:         c, Live: c,
	}
}

func mustRead(t *testing.T, j Journal[*infrav1.AnexiaMachine]) driver.Entry {
	t.Helper()
	entry, err := j.Read(t.Context(), identity)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

func TestWriteAndRead(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	empty := mustRead(t, j)
	if empty.Data != "" {
		t.Errorf("a new journal has %q", empty.Data)
	}
	written, err := j.Write(t.Context(), identity, empty, "one")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(mustRead(t, j), written); diff != "" {
		t.Errorf("entry (-read +written):\n%s", diff)
	}
	if _, err := j.Write(t.Context(), identity, written, "two"); err != nil {
		t.Errorf("writing what was written: %v", err)
	}
	all, err := j.List(t.Context())
	own := identity
	own.UID = "another"
	if diff := cmp.Diff([]driver.MachineEntry{{Identity: own, Data: "two"}, {Identity: identity, Data: "two"}}, all); diff != "" || err != nil {
		t.Errorf("list: %v, (-want +got):\n%s", err, diff)
	}
}

// TestOneOfTwoCallersWrites, also if both have read the same.
func TestOneOfTwoCallersWrites(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	read := mustRead(t, j)
	if _, err := j.Write(t.Context(), identity, read, "first"); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Write(t.Context(), identity, read, "second"); err == nil || driver.IsNotFound(err) {
		t.Errorf("the second caller got %v, want an error that passes", err)
	}
	if got := mustRead(t, j).Data; got != "first" {
		t.Errorf("the journal has %q", got)
	}
}

// TestOtherChangesDoNotCount: the labels of the object may change at any time.
func TestOtherChangesDoNotCount(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	read := mustRead(t, j)
	machine := j.NewMachine()
	if err := j.Client.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "m"}, machine); err != nil {
		t.Fatal(err)
	}
	machine.Labels["zone"] = "a"
	if err := j.Client.Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Write(t.Context(), identity, read, "one"); err != nil {
		t.Errorf("writing: %v", err)
	}
}

func TestOtherMachinesHaveNoJournal(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	own := identity
	own.UID = "another"
	if entry, err := j.Read(t.Context(), own); err != nil || entry.OtherUID != identity.UID {
		t.Errorf("under the UID of the object: other UID %q and %v, want %q", entry.OtherUID, err, identity.UID)
	}
	if other := mustRead(t, j).OtherUID; other != own.UID {
		t.Errorf("under the UID of the annotation: other UID %q, want %q", other, own.UID)
	}
	for what, change := range map[string]func(*driver.Identity){
		"name":      func(id *driver.Identity) { id.Name = "n" },
		"namespace": func(id *driver.Identity) { id.Owner.Namespace = "other" },
		"UID":       func(id *driver.Identity) { id.UID = "0a1b2c3d-0000-4000-8000-000000000002" },
		"no UID":    func(id *driver.Identity) { id.UID = "" },
	} {
		other := identity
		change(&other)
		if _, err := j.Read(t.Context(), other); !driver.IsNotFound(err) {
			t.Errorf("another %s: got %v, want a NotFoundError", what, err)
		}
	}
}
