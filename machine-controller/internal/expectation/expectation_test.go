// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package expectation

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func machine(uid string) *clusterv1.Machine {
	return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m-" + uid, UID: types.UID(uid)}}
}

func deleting(uid string) *clusterv1.Machine {
	m := machine(uid)
	m.DeletionTimestamp = new(metav1.NewTime(epoch))
	return m
}

func TestUnseen(t *testing.T) {
	t.Parallel()
	type machines = []*clusterv1.Machine
	for name, test := range map[string]struct {
		created, deleted machines
		shown            []machines
		want             []int
	}{
		"counts nothing that was not written":            {nil, nil, []machines{{machine("a")}}, []int{0}},
		"counts a creation until it is shown":            {machines{machine("a"), machine("b")}, nil, []machines{{}, {machine("a")}, {machine("a"), machine("b")}}, []int{2, 1, 0}},
		"does not wait again once it was shown":          {machines{machine("a")}, nil, []machines{{machine("a")}, {}}, []int{0, 0}},
		"takes a creation that is deleting for shown":    {machines{machine("a")}, nil, []machines{{deleting("a")}}, []int{0}},
		"counts a deletion while its object exists":      {nil, machines{machine("a")}, []machines{{machine("a")}, {machine("a")}, {deleting("a")}, {machine("a")}}, []int{1, 1, 0, 0}},
		"takes a deletion whose object is gone for seen": {nil, machines{machine("a")}, []machines{{machine("b")}}, []int{0}},
		"counts both": {machines{machine("b")}, machines{machine("a")}, []machines{{machine("a")}}, []int{2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tracker := &Tracker{Clock: testingclock.NewFakePassiveClock(epoch)}
			for _, m := range test.created {
				tracker.Created("owner", m)
			}
			for _, m := range test.deleted {
				tracker.Deleted("owner", m)
			}
			for i, shown := range test.shown {
				if got, _ := Unseen(tracker, "owner", shown); got != test.want[i] {
					t.Errorf("look %d: %d unseen, want %d", i, got, test.want[i])
				}
			}
			if got, _ := Unseen(tracker, "another", machines{machine("a")}); got != 0 {
				t.Errorf("another owner has %d unseen", got)
			}
		})
	}
}

func TestLongUnseenCreationIsReported(t *testing.T) {
	t.Parallel()
	clk := testingclock.NewFakePassiveClock(epoch)
	tracker := &Tracker{Clock: clk}
	tracker.Created("owner", machine("a"))
	clk.SetTime(epoch.Add(verifyAfter))
	tracker.Created("owner", machine("b"))
	if _, doubtful := Unseen(tracker, "owner", []*clusterv1.Machine{}); doubtful != nil {
		t.Errorf("doubts %v too early", doubtful)
	}
	clk.SetTime(epoch.Add(verifyAfter + 1))
	want := map[types.UID]client.ObjectKey{"a": {Namespace: "ns", Name: "m-a"}}
	count, doubtful := Unseen(tracker, "owner", []*clusterv1.Machine{})
	if diff := cmp.Diff(want, doubtful); diff != "" || count != 2 {
		t.Errorf("%d unseen, doubtful: %s", count, diff)
	}
	tracker.Remove("owner", "a")
	if count, doubtful := Unseen(tracker, "owner", []*clusterv1.Machine{}); count != 1 || doubtful != nil {
		t.Errorf("%d unseen and %v doubtful after removal", count, doubtful)
	}
}

func TestVerified(t *testing.T) {
	t.Parallel()
	tracker := &Tracker{Clock: testingclock.NewFakePassiveClock(epoch)}
	for i, step := range []struct {
		do   func()
		want bool
	}{
		{func() {}, false},
		{func() { tracker.SetVerified("owner") }, true},
		{func() { tracker.Created("owner", machine("a")) }, true},
		{func() { tracker.Unverify("owner") }, false},
		{func() { tracker.SetVerified("owner") }, true},
		{func() { tracker.Drop("owner") }, false},
	} {
		step.do()
		if got := tracker.Verified("owner"); got != step.want {
			t.Errorf("step %d: verified is %t, want %t", i, got, step.want)
		}
	}
	if count, _ := Unseen(tracker, "owner", []*clusterv1.Machine{}); count != 0 {
		t.Errorf("%d unseen after the owner was dropped", count)
	}
}

// TestOwnersExpire has owners whose finalizers are removed by another client, so that none is dropped.
func TestOwnersExpire(t *testing.T) {
	t.Parallel()
	clk := testingclock.NewFakePassiveClock(epoch)
	tracker := &Tracker{Clock: clk}
	for i := range 1000 {
		tracker.Created(types.UID(fmt.Sprint(i)), machine("a"))
	}
	tracker.SetVerified("stays")
	for range 3 {
		clk.SetTime(clk.Now().Add(ownerTTL - time.Minute))
		if !tracker.Verified("stays") {
			t.Error("an owner that is used was dropped")
		}
	}
	if left := tracker.owners.Len(); left != 1 {
		t.Errorf("%d owners are kept, want 1", left)
	}
}

// reader has one Machine, or fails.
type reader struct {
	client.Reader
	machine *metav1.PartialObjectMetadata
	err     error
}

func (r reader) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if r.err != nil {
		return r.err
	}
	found, _ := object.(*metav1.PartialObjectMetadata)
	r.machine.DeepCopyInto(found)
	return nil
}

func TestResolve(t *testing.T) {
	t.Parallel()
	owned := func(uid, owner types.UID) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: uid, OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: new(true)}}}}
	}
	resource := clusterv1.GroupVersion.WithResource("machines").GroupResource()
	for name, test := range map[string]struct {
		reader reader
		unseen int
	}{
		"it awaits an object that exists":                {reader{machine: owned("m", "owner")}, 1},
		"it awaits an object that cannot be read":        {reader{err: apierrors.NewTimeoutError("slow", 1)}, 1},
		"it drops an object that does not exist":         {reader{err: apierrors.NewNotFound(resource, "m")}, 0},
		"it drops an object whose name another one has":  {reader{machine: owned("another", "owner")}, 0},
		"it drops an object of another owner":            {reader{machine: owned("m", "another")}, 0},
		"it drops an object that has no controller left": {reader{machine: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: "m"}}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clk := testingclock.NewFakePassiveClock(epoch)
			tracker := &Tracker{Clock: clk}
			tracker.Created("owner", machine("m"))
			clk.SetTime(epoch.Add(verifyAfter + time.Second))
			_, unverified := Unseen(tracker, "owner", []*clusterv1.Machine{})
			if len(unverified) != 1 {
				t.Fatalf("%d objects are unverified, want 1", len(unverified))
			}
			tracker.Resolve(t.Context(), test.reader, clusterv1.GroupVersion.WithKind("Machine"), "owner", unverified)
			if unseen, _ := Unseen(tracker, "owner", []*clusterv1.Machine{}); unseen != test.unseen {
				t.Errorf("%d objects are unseen, want %d", unseen, test.unseen)
			}
		})
	}
}
