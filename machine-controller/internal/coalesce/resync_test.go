// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package coalesce

import (
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
)

func TestResyncLimiterDelaysOnlyObjectsWithManyMachines(t *testing.T) {
	t.Parallel()
	for machines, want := range map[int]time.Duration{0: 0, 200: 0, 400: 0, 402: time.Millisecond, 1000: 300 * time.Millisecond, 5000: 2300 * time.Millisecond} {
		l := &ResyncLimiter{}
		l.Clock = testingclock.NewFakePassiveClock(time.Unix(0, 0))
		l.MarkReconciled("set", machines)
		if remaining := l.Remaining("set"); remaining != want {
			t.Errorf("an object with %d Machines is reconciled again in %s, want %s", machines, remaining, want)
		}
	}
}

func TestResyncLimiterCountsFromTheLastReconcile(t *testing.T) {
	t.Parallel()
	now := testingclock.NewFakePassiveClock(time.Unix(0, 0))
	l := &ResyncLimiter{}
	l.Clock = now
	l.MarkReconciled("set", 1000)
	now.SetTime(now.Now().Add(200 * time.Millisecond))
	if remaining := l.Remaining("set"); remaining != 100*time.Millisecond {
		t.Errorf("after 200ms %s remain, want 100ms", remaining)
	}
	if remaining := l.Remaining("other"); remaining != 0 {
		t.Errorf("another object waits %s", remaining)
	}
	l.MarkReconciled("set", 1000)
	now.SetTime(now.Now().Add(300 * time.Millisecond))
	if remaining := l.Remaining("set"); remaining != 0 {
		t.Errorf("after the period %s remain", remaining)
	}
}
