// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package tasks_test

import (
	"errors"
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"drover.io/infra-providers/vsphere/tasks"
)

// TestAFailureIsLeftForAWhile: each time for twice as long, up to a limit, until it is forgotten.
func TestAFailureIsLeftForAWhile(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	book := &tasks.Tracker[string]{Now: func() time.Time { return now }}
	cause := errors.New("cause")
	for _, pause := range []time.Duration{5, 10, 20, 40, 80, 160, 300, 300} {
		book.Start("k", types.ManagedObjectReference{Value: "t"}, "w")
		book.Fail("k", cause)
		known, ok := book.Get("k")
		if !ok || known.Task != nil || known.What != "w" || !errors.Is(known.Err, cause) {
			t.Fatalf("got %+v", known)
		}
		now = now.Add(pause*time.Second - 1)
		if !book.Paused("k") {
			t.Errorf("it is tried again within %ds", pause)
		}
		if now = now.Add(1); book.Paused("k") {
			t.Errorf("it is still left after %ds", pause)
		}
	}
	book.End("k")
	if _, ok := book.Get("k"); ok || book.Paused("k") || len(book.All()) > 0 {
		t.Error("it was not forgotten")
	}
}
