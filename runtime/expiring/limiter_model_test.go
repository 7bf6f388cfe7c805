// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package expiring

import (
	"math/rand/v2"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// TestLimiterBehavesLikeItsModel compares the Limiter after every step of a random sequence with a map of times that is never
// bounded or pruned.
func TestLimiterBehavesLikeItsModel(t *testing.T) {
	t.Parallel()
	for seed := range byte(20) {
		r := rand.New(rand.NewChaCha8([32]byte{seed}))
		clock := clocktesting.NewFakePassiveClock(start)
		l := &Limiter[int]{Clock: clock, Period: time.Minute}
		next := map[int]time.Time{}
		waits := func(key int) time.Duration { return max(0, next[key].Sub(clock.Now())) }
		for step := range 2000 {
			key := r.IntN(5)
			switch r.IntN(6) {
			case 0:
				clock.SetTime(clock.Now().Add(time.Duration(r.IntN(40)) * time.Second))
			case 1, 2:
				want := waits(key) == 0
				if want {
					next[key] = clock.Now().Add(time.Minute)
				}
				if got := l.Allow(key); got != want {
					t.Fatalf("seed %d, step %d: allowed is %t, want %t", seed, step, got, want)
				}
			case 3:
				l.Mark(key)
				next[key] = clock.Now().Add(time.Minute)
			case 4:
				period := time.Duration(r.IntN(180)-30) * time.Second
				l.MarkFor(key, period)
				next[key] = clock.Now().Add(period)
			case 5:
				l.Reset(key)
				delete(next, key)
			}
			waiting := 0
			for key := range 5 {
				if got, want := l.Remaining(key), waits(key); got != want {
					t.Fatalf("seed %d, step %d: %s remain of key %d, want %s", seed, step, got, key, want)
				}
				if waits(key) > 0 {
					waiting++
				}
			}
			if got := l.Len(); got != waiting {
				t.Fatalf("seed %d, step %d: %d keys wait, want %d", seed, step, got, waiting)
			}
		}
	}
}

// TestFullLimiterForgetsTheKeyThatIsDueFirst has keys with periods of their own: the one with the longest stays.
func TestFullLimiterForgetsTheKeyThatIsDueFirst(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(2)
	l.MarkFor("hour", time.Hour)
	l.MarkFor("second", time.Second)
	l.MarkFor("minute", time.Minute)
	if l.Remaining("second") != 0 || l.Remaining("hour") != time.Hour || l.Remaining("minute") != time.Minute || l.Len() != 2 {
		t.Errorf("%s, %s and %s remain", l.Remaining("second"), l.Remaining("hour"), l.Remaining("minute"))
	}
	if !l.Allow("second") || l.Remaining("minute") != 0 {
		t.Errorf("a step of the key that was forgotten is not allowed, or %s of another remain", l.Remaining("minute"))
	}
}

// TestPeriodsThatArePastAllowTheNextStep has a clock that goes back, and periods of no length.
func TestPeriodsThatArePastAllowTheNextStep(t *testing.T) {
	t.Parallel()
	l, clock := newLimiter(0)
	for _, period := range []time.Duration{0, -time.Second} {
		l.Mark("a")
		l.MarkFor("a", period)
		if l.Remaining("a") != 0 || l.Len() != 0 {
			t.Errorf("after a period of %s %s remain", period, l.Remaining("a"))
		}
	}
	if !l.Allow("a") {
		t.Error("the step is not allowed")
	}
	clock.SetTime(start.Add(-time.Hour))
	if l.Allow("a") || l.Remaining("a") != time.Hour+time.Minute {
		t.Errorf("after the clock went back %s remain", l.Remaining("a"))
	}
}
