// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestOvershootsExpire has owners with too many Machines that are deleted without being counted again.
func TestOvershootsExpire(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(noon)
	r := newReservations(clk)
	for i := range 1000 {
		r.recordOvershoot(types.UID(fmt.Sprint(i)), noon)
	}
	for range 3 {
		clk.SetTime(clk.Now().Add(overshootTTL - time.Minute))
		r.recordOvershoot("stays", noon)
	}
	if n := r.overshoots.Len(); n != 1 || !r.overshootSince("stays").Equal(noon) {
		t.Errorf("%d owners are kept, want 1; stays since %v, want %v", n, r.overshootSince("stays"), noon)
	}
	if r.recordOvershoot("stays", time.Time{}); !r.overshootSince("stays").IsZero() {
		t.Error("an overshoot that has ended is kept")
	}
}

func TestUnseenCreations(t *testing.T) {
	t.Parallel()
	machine := func(uid types.UID) *clusterv1.Machine {
		m := &clusterv1.Machine{}
		m.UID = uid
		return m
	}
	for name, test := range map[string]struct {
		reserved int
		observed []*clusterv1.Machine
		after    time.Duration
		dropped  bool
		want     int
	}{
		"it counts all while the cache shows none":        {reserved: 3, observed: []*clusterv1.Machine{machine("old")}, want: 3},
		"it does not count those that the cache shows":    {reserved: 3, observed: []*clusterv1.Machine{machine("old"), machine("new")}, want: 2},
		"it is never negative":                            {reserved: 1, observed: []*clusterv1.Machine{machine("new"), machine("newer")}, want: 0},
		"it counts none where none may be created":        {reserved: 0, want: 0},
		"it still counts them shortly before they expire": {reserved: 2, after: reservationTTL - time.Second, want: 2},
		"it expires":        {reserved: 2, after: reservationTTL, want: 0},
		"it can be dropped": {reserved: 2, dropped: true, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clk := clocktesting.NewFakePassiveClock(noon)
			r := newReservations(clk)
			r.reserveCreations("set", test.reserved, map[types.UID]bool{"old": true})
			clk.SetTime(noon.Add(test.after))
			if test.dropped {
				r.dropCreations("set")
			}
			if got := r.unseenCreations("set", test.observed); got != test.want {
				t.Errorf("%d are unseen, want %d", got, test.want)
			}
			if got := r.unseenCreations("other", nil); got != 0 {
				t.Errorf("%d are unseen of another set", got)
			}
		})
	}
}

func TestReplacementReservations(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakePassiveClock(noon)
	r := newReservations(clk)
	r.reserveReplacement("a")
	r.reserveReplacement("b")
	r.cancelReplacement("b")
	if !r.hasReplacement("a") || r.hasReplacement("b") || r.hasReplacement("c") {
		t.Errorf("a %t, b %t, c %t, want a alone", r.hasReplacement("a"), r.hasReplacement("b"), r.hasReplacement("c"))
	}
	if clk.SetTime(noon.Add(reservationTTL)); r.hasReplacement("a") {
		t.Error("a reservation does not expire")
	}
}
