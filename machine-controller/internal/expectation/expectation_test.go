// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package expectation

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
		"counts a deletion while its object is alive":    {nil, machines{machine("a")}, []machines{{machine("a")}, {machine("a")}, {deleting("a")}, {machine("a")}}, []int{1, 1, 0, 0}},
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
	tracker.Forget("owner", "a")
	if count, doubtful := Unseen(tracker, "owner", []*clusterv1.Machine{}); count != 1 || doubtful != nil {
		t.Errorf("%d unseen and %v doubtful after forgetting", count, doubtful)
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
			t.Errorf("step %d: known is %t, want %t", i, got, step.want)
		}
	}
	if count, _ := Unseen(tracker, "owner", []*clusterv1.Machine{}); count != 0 {
		t.Errorf("%d unseen after the owner was dropped", count)
	}
}

// TestOwnersExpire has owners whose finalizers somebody takes off, so that none is ever dropped.
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
			t.Error("what is asked about was forgotten")
		}
	}
	if left := len(tracker.owners); left != 1 {
		t.Errorf("%d owners are remembered, want 1", left)
	}
}
