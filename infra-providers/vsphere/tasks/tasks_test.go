// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package tasks_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vsphere/tasks"
)

// TestPauseAfterFailure doubles with each failure, up to a limit, until the key is dropped.
func TestPauseAfterFailure(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	tracker := &tasks.Tracker[string]{Now: func() time.Time { return now }}
	cause := errors.New("cause")
	for _, pause := range []time.Duration{5, 10, 20, 40, 80, 160, 300, 300} {
		tracker.Start("k", types.ManagedObjectReference{Value: "t"}, "w")
		tracker.Fail("k", cause)
		known, ok := tracker.Get("k")
		if !ok || known.Task != nil || known.What != "w" || known.Err.Error() != cause.Error() {
			t.Fatalf("got %+v", known)
		}
		now = now.Add(pause*time.Second - 1)
		if !tracker.Paused("k") {
			t.Errorf("it is tried again after less than %ds", pause)
		}
		if now = now.Add(1); tracker.Paused("k") {
			t.Errorf("it is still paused after %ds", pause)
		}
	}
	tracker.End("k")
	if _, ok := tracker.Get("k"); ok || tracker.Paused("k") || len(tracker.All()) > 0 {
		t.Error("it was not dropped")
	}
}

// TestFinishOfAnEarlierTask changes nothing: another caller may have seen its end before and started the next one.
func TestFinishOfAnEarlierTask(t *testing.T) {
	t.Parallel()
	tracker := &tasks.Tracker[string]{Now: time.Now}
	earlier, later := types.ManagedObjectReference{Value: "t1"}, types.ManagedObjectReference{Value: "t2"}
	tracker.Start("k", later, "w")
	for _, err := range []error{nil, errors.New("cause")} {
		tracker.Finish("k", earlier, err)
		if known, ok := tracker.Get("k"); !ok || known.Task == nil || *known.Task != later || known.Err != nil || tracker.Paused("k") {
			t.Errorf("got %+v, want the later task to be under way", known)
		}
	}
	tracker.Finish("k", later, errors.New("cause"))
	if known, ok := tracker.Get("k"); !ok || known.Task != nil || known.Err == nil || !tracker.Paused("k") {
		t.Errorf("got %+v, want a failure and a pause", known)
	}
	tracker.Start("k", later, "w")
	tracker.Finish("k", later, nil)
	if _, ok := tracker.Get("k"); ok {
		t.Error("a task that succeeded is still recorded")
	}
	tracker.Finish("unknown", later, errors.New("cause"))
	if len(tracker.All()) > 0 {
		t.Error("a task that was never started is recorded")
	}
}

// TestFailuresTakeLittleMemory: a server that a Secret names chooses why the tasks of any number of machines failed.
func TestFailuresTakeLittleMemory(t *testing.T) {
	t.Parallel()
	tracker := &tasks.Tracker[string]{Now: time.Now}
	long := errors.New(strings.Repeat("x", 1<<20))
	tracker.Fail("k", &driver.InvalidConfigurationError{Field: "spec", Err: long})
	known, _ := tracker.Get("k")
	if !driver.IsInvalidConfiguration(known.Err) || errors.Is(known.Err, long) || len(known.Err.Error()) > 8<<10 {
		t.Errorf("kept a %T of %d bytes", known.Err, len(known.Err.Error()))
	}
}
