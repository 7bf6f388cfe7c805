// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package expiring

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func newLimiter(limit int) (*Limiter[string], *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(start)
	return &Limiter[string]{Clock: clock, Period: time.Minute, Max: limit}, clock
}

func TestLimiterAllowsOneStepPerPeriodAndKey(t *testing.T) {
	t.Parallel()
	l, clock := newLimiter(0)
	for i, step := range []struct {
		at   time.Duration
		key  string
		want bool
	}{
		{0, "a", true},
		{0, "a", false},
		{0, "b", true},
		{time.Minute - 1, "a", false},
		{time.Minute, "a", true},
		{90 * time.Second, "a", false},
		{90 * time.Second, "b", true},
		{time.Hour, "a", true},
	} {
		after(clock, step.at)
		if got := l.Allow(step.key); got != step.want {
			t.Errorf("step %d, %s after %s: allowed is %t, want %t", i, step.key, step.at, got, step.want)
		}
	}
}

func TestLimiterStepThatWasNotAllowedDoesNotExtendThePeriod(t *testing.T) {
	t.Parallel()
	l, clock := newLimiter(0)
	l.Allow("a")
	after(clock, 40*time.Second)
	l.Allow("a")
	if got := l.Remaining("a"); got != 20*time.Second {
		t.Errorf("%s remain, want 20s", got)
	}
}

func TestLimiterRemaining(t *testing.T) {
	t.Parallel()
	l, clock := newLimiter(0)
	remaining := func(key string, want time.Duration) {
		t.Helper()
		if got := l.Remaining(key); got != want {
			t.Errorf("%s of %q remain, want %s", got, key, want)
		}
	}
	remaining("a", 0)
	l.Mark("a")
	l.MarkFor("b", time.Hour)
	remaining("a", time.Minute)
	remaining("b", time.Hour)
	after(clock, 45*time.Second)
	remaining("a", 15*time.Second)
	l.Mark("b")
	remaining("b", time.Minute)
	after(clock, time.Minute)
	remaining("a", 0)
	l.Reset("b")
	remaining("b", 0)
	l.MarkFor("a", 0)
	remaining("a", 0)
	if l.Len() != 0 {
		t.Errorf("%d keys are kept", l.Len())
	}
}

func TestLimiterWithoutPeriodAllowsEveryStep(t *testing.T) {
	t.Parallel()
	l := &Limiter[string]{}
	for range 2 {
		if !l.Allow("a") || l.Remaining("a") != 0 {
			t.Error("a step is not due")
		}
	}
}

func TestLimiterIsBounded(t *testing.T) {
	t.Parallel()
	l, clock := newLimiter(2)
	for i, key := range []string{"a", "b", "c"} {
		after(clock, time.Duration(i)*time.Second)
		l.Mark(key)
	}
	if l.Len() != 2 || l.Remaining("a") != 0 || l.Remaining("b") == 0 || l.Remaining("c") == 0 {
		t.Errorf("%d keys are kept; a waits %s, b %s, c %s", l.Len(), l.Remaining("a"), l.Remaining("b"), l.Remaining("c"))
	}
}

func TestLimiterAllowsOneOfManyAtTheSameTime(t *testing.T) {
	t.Parallel()
	l := &Limiter[string]{Period: time.Hour}
	var group sync.WaitGroup
	var allowed atomic.Int32
	for range 8 {
		group.Go(func() {
			if l.Allow("a") {
				allowed.Add(1)
			}
		})
	}
	group.Wait()
	if allowed.Load() != 1 {
		t.Errorf("%d steps were allowed", allowed.Load())
	}
}
