// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"errors"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/infra-providers/internal/throttle"
)

// TestSweepWaitsForItsTurn: objects of another namespace use the rate of the account as often as they can, and a sweep
// requests one deletion.
func TestSweepWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakeClock(time.Unix(1_000_000, 0))
	cloud := throttle.New(driver.Driver[fake.Config](fake.New(fake.Options{})), throttle.Options[fake.Config]{
		Limits: driver.Limits{PerSecond: 2, Burst: 2}, Now: now.Now, Jitter: func() float64 { return 0 },
	})
	exhaust := func() {
		for cloud.Do("loops", func() error { return nil }) == nil {
		}
	}
	exhaust()
	c := &Collector[*infrav1.SimMachine, fake.Config]{Clock: now}
	done := make(chan error, 1)
	go func() {
		id := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "c", Namespace: "quiet", Name: "c"}}
		done <- c.inTurn(t.Context(), func() error { return cloud.Delete(t.Context(), id) })
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
			if now.HasWaiters() {
				now.Step(100 * time.Millisecond)
				exhaust()
			}
		}
	}
}

func TestSweepWaitsForNothingElse(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx context.Context
		err error
	}{
		"a pause that is long":   {t.Context(), &driver.RateLimitedError{RetryAfter: 2 * turnTime, Err: errors.New("slow down")}},
		"another failure":        {t.Context(), errors.New("down")},
		"a turn after the sweep": {ended, &driver.RateLimitedError{RetryAfter: turnTime, Err: errors.New("slow down")}},
		"no failure":             {t.Context(), nil},
	} {
		calls := 0
		c := &Collector[*infrav1.SimMachine, fake.Config]{Clock: clocktesting.NewFakeClock(time.Unix(1_000_000, 0))}
		if err := c.inTurn(test.ctx, func() error { calls++; return test.err }); !errors.Is(err, test.err) || calls != 1 {
			t.Errorf("%s: %d calls, the last with %v", name, calls, err)
		}
	}
}
