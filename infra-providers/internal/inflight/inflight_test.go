// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inflight_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/inflight"
)

var id = driver.Identity{UID: "u", Name: "worker", Owner: driver.Owner{UID: "c", Namespace: "team", Name: "home"}}

func TestCreationMayAppear(t *testing.T) {
	t.Parallel()
	now := testclock.NewFakePassiveClock(time.Now())
	creations := inflight.New(now)
	creations.Set(id, "instance", inflight.Creation{Key: "k"})
	sent, ok := creations.Get(id, "instance")
	if !ok || !creations.MayAppear(sent) || !creations.InStartupWindow() {
		t.Errorf("got %+v", sent)
	}
	now.SetTime(now.Now().Add(inflight.Window))
	if creations.MayAppear(sent) || creations.InStartupWindow() {
		t.Error("it may still appear after the window")
	}
	sent.Operation = "o"
	if !creations.MayAppear(sent) {
		t.Error("it may not appear although its operation is known")
	}
	creations.Keep(id, "instance", sent)
	if kept, _ := creations.Get(id, "instance"); !kept.Sent.Equal(sent.Sent) {
		t.Errorf("it was sent at %s, want %s", kept.Sent, sent.Sent)
	}
}

func TestFailureCountsAndRemembersTheObject(t *testing.T) {
	t.Parallel()
	now := testclock.NewFakePassiveClock(time.Now())
	creations := inflight.New(now)
	for _, object := range []string{"first", "second"} {
		creations.Set(id, "disk a", inflight.Creation{Key: "k", Operation: "o", ID: object})
		creations.Fail(id, "disk a")
	}
	if got := creations.Attempt(id, "disk a"); got != 2 {
		t.Errorf("%d attempts have failed, want 2", got)
	}
	creations.Set(id, "instance", inflight.Creation{Key: "k"})
	creations.Fail(id, "instance") // which has no object
	var got []string
	for _, failed := range creations.Failed(id) {
		got = append(got, failed.ID)
	}
	if !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("got %q", got)
	}
	now.SetTime(now.Now().Add(inflight.Window))
	if got := creations.Failed(id); len(got) > 0 {
		t.Errorf("after the window: got %+v", got)
	}
	now.SetTime(now.Now().Add(20 * time.Hour))
	if got := creations.Attempt(id, "disk a"); got != 2 {
		t.Errorf("%d attempts after some hours, while a cloud may remember their keys, want 2", got)
	}
	creations.Forget(id)
	if got := creations.Attempt(id, "disk a"); got != 0 {
		t.Errorf("%d attempts of a machine that is gone", got)
	}
}

// TestSeriesAreCountedAlone, and without an end they are not.
func TestSeriesAreCountedAlone(t *testing.T) {
	t.Parallel()
	creations := inflight.New(testclock.NewFakePassiveClock(time.Now()))
	for range 2 {
		creations.Set(id, "instance", inflight.Creation{Key: "k", Series: "small"})
		creations.Fail(id, "instance")
	}
	creations.Count(id, "large")
	for series, want := range map[string]int{"small": 2, "large": 1, "instance": 0} {
		if got := creations.Attempt(id, series); got != want {
			t.Errorf("%d attempts of %s have failed, want %d", got, series, want)
		}
	}
	for n := range 100 {
		creations.Count(id, fmt.Sprint(n))
	}
	if got := creations.Attempt(id, "small"); got != 0 {
		t.Errorf("%d attempts are still counted after a hundred other series", got)
	}
	if got := creations.Attempt(id, "99"); got != 1 {
		t.Errorf("%d attempts of the last series, want 1", got)
	}
}

// TestMachinesAreSeparate: the author of a machine may choose its UID; the Cluster's may change.
func TestMachinesAreSeparate(t *testing.T) {
	t.Parallel()
	creations := inflight.New(testclock.NewFakePassiveClock(time.Now()))
	creations.Set(id, "instance", inflight.Creation{Key: "k"})
	other, moved := id, id
	other.Owner.Namespace = "other"
	moved.Owner.UID, moved.ProviderID = "d", "yandex://fhm"
	if _, ok := creations.Get(other, "instance"); ok {
		t.Error("another machine has the creation")
	}
	if _, ok := creations.Get(moved, "instance"); !ok {
		t.Error("the machine lost the creation")
	}
}
