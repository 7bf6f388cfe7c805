// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package throttle

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
)

type bench struct {
	*Throttle[fake.Config]
	t     *testing.T
	cloud *fake.Cloud
	now   time.Time
	fails error
}

func newBench(t *testing.T, limits driver.Limits) *bench {
	b := &bench{t: t, now: time.Unix(1_000_000, 0)}
	b.cloud = fake.New(fake.Options{Faults: func(call fake.Call) fake.Fault {
		if call.Operation == "disk" {
			return fake.Fault{}
		}
		return fake.Fault{Err: b.fails}
	}})
	b.Throttle = New[fake.Config](b.cloud, Options[fake.Config]{
		Limits: limits,
		Place:  func(c fake.Config) (string, string) { return c.InstanceType, c.Zone },
		Now:    func() time.Time { return b.now },
		Jitter: func() float64 { return 1 },
	})
	return b
}

func (b *bench) create(n int, instanceType, zone string) error {
	_, err := b.Create(b.t.Context(), driver.Request[fake.Config]{
		Identity: driver.Identity{UID: types.UID(fmt.Sprint(n)), Name: "m"},
		Config:   fake.Config{InstanceType: instanceType, Zone: zone},
	})
	return err
}

func (b *bench) get() error {
	_, err := b.Get(b.t.Context(), driver.Identity{UID: "1", Name: "m"})
	return err
}

func (b *bench) calls(operation string) int { return b.cloud.Census().Calls[operation] }

func TestKeepsTheRate(t *testing.T) {
	t.Parallel()
	b := newBench(t, driver.Limits{PerSecond: 2, Burst: 3})
	for range 10 {
		_ = b.get()
	}
	if got := b.calls("get"); got != 3 {
		t.Errorf("%d calls in an instant, want the burst of 3", got)
	}
	err := b.get()
	if !driver.IsRateLimited(err) || driver.RetryAfter(err) != 500*time.Millisecond {
		t.Errorf("got %v after %s, want a RateLimitedError after 500ms", err, driver.RetryAfter(err))
	}
	b.now = b.now.Add(time.Second)
	for range 10 {
		_ = b.get()
	}
	if got := b.calls("get"); got != 5 {
		t.Errorf("%d calls after a second, want 5", got)
	}
}

func TestPausesWhenAsked(t *testing.T) {
	t.Parallel()
	b := newBench(t, driver.Limits{})
	b.fails = &driver.RateLimitedError{RetryAfter: time.Hour, Err: errors.New("slow down")}
	_ = b.get()
	b.fails = nil
	for range 5 {
		if err := b.get(); !driver.IsRateLimited(err) {
			t.Errorf("got %v, want a RateLimitedError", err)
		}
	}
	if got := b.calls("get"); got != 1 {
		t.Errorf("%d calls during the pause, want 1 before it", got)
	}
	b.now = b.now.Add(time.Hour)
	if err := b.get(); !driver.IsNotFound(err) {
		t.Errorf("got %v after the pause", err)
	}
}

func TestPausesLongerEachTime(t *testing.T) {
	t.Parallel()
	b := newBench(t, driver.Limits{})
	b.fails = &driver.RateLimitedError{Err: errors.New("slow down")}
	for _, want := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, 64 * time.Second, 2 * time.Minute, 2 * time.Minute} {
		_ = b.get()
		if got := driver.RetryAfter(b.get()); got != want {
			t.Errorf("paused for %s, want %s", got, want)
		}
		b.now = b.now.Add(want)
	}
}

func TestPutsAsideWhereThereIsNoRoom(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cause error
		is    func(error) bool
	}{
		"for lack of capacity": {&driver.InsufficientCapacityError{InstanceType: "small", Zone: "a", Err: errors.New("full")}, driver.IsInsufficientCapacity},
		"for lack of quota":    {&driver.QuotaExceededError{Err: errors.New("quota")}, driver.IsQuotaExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, driver.Limits{})
			b.fails = test.cause
			_ = b.create(1, "small", "a")
			b.fails = nil
			for n := range 3 {
				if err := b.create(n+2, "small", "a"); !test.is(err) {
					t.Errorf("got %v, want the same shortage", err)
				}
			}
			if got := b.calls("create"); got != 1 {
				t.Errorf("%d creations were tried, want 1", got)
			}
			if err := b.create(9, "small", "b"); err != nil {
				t.Errorf("another zone: %v", err)
			}
			if err := b.create(10, "large", "a"); err != nil {
				t.Errorf("another type: %v", err)
			}
			b.now = b.now.Add(time.Minute)
			if err := b.create(11, "small", "a"); err != nil {
				t.Errorf("after a minute: %v", err)
			}
		})
	}
}
