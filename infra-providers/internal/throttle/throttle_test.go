// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package throttle

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
)

type env struct {
	*Throttle[fake.Config]
	t     *testing.T
	cloud *fake.Cloud
	now   time.Time
	fails error
}

func newEnv(t *testing.T, limits driver.Limits) *env {
	b := &env{t: t, now: time.Unix(1_000_000, 0)}
	b.cloud = fake.New(fake.Options{Faults: func(call fake.Call) fake.Fault {
		if call.Operation == "disk" {
			return fake.Fault{}
		}
		return fake.Fault{Err: b.fails}
	}})
	b.Throttle = New[fake.Config](b.cloud, Options[fake.Config]{
		Limits:   limits,
		Offering: func(c fake.Config) (string, string) { return c.InstanceType, c.Zone },
		Now:      func() time.Time { return b.now },
		Jitter:   func() float64 { return 1 },
	})
	return b
}

func (b *env) create(n int, instanceType, zone string) error {
	_, err := b.Create(b.t.Context(), driver.CreateRequest[fake.Config]{
		Identity: driver.Identity{UID: types.UID(fmt.Sprint(n)), Name: "m", Owner: driver.Owner{Namespace: "n", Name: "home"}},
		Config:   fake.Config{InstanceType: instanceType, Zone: zone},
	})
	return err
}

func (b *env) get() error {
	_, err := b.Get(b.t.Context(), driver.Identity{UID: "1", Name: "m"})
	return err
}

func (b *env) calls(operation string) int { return b.cloud.Snapshot().Calls[operation] }

func TestRateLimit(t *testing.T) {
	t.Parallel()
	b := newEnv(t, driver.Limits{PerSecond: 2, Burst: 3})
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

func TestPauseAfterARateLimit(t *testing.T) {
	t.Parallel()
	b := newEnv(t, driver.Limits{})
	b.fails = &driver.RateLimitedError{RetryAfter: time.Minute * 9, Err: errors.New("slow down")}
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
	b.now = b.now.Add(time.Minute * 9)
	if err := b.get(); !driver.IsNotFound(err) {
		t.Errorf("got %v after the pause", err)
	}
}

// TestPauseIsBounded: a maintenance page may request a day.
func TestPauseIsBounded(t *testing.T) {
	t.Parallel()
	b := newEnv(t, driver.Limits{})
	b.fails = &driver.RateLimitedError{RetryAfter: 24 * time.Hour, Err: errors.New("maintenance")}
	_ = b.get()
	b.fails = nil
	if err := b.get(); !driver.IsRateLimited(err) || driver.RetryAfter(err) != driver.MaxRetryAfter {
		t.Errorf("got %v after %s, want a RateLimitedError after %s", err, driver.RetryAfter(err), driver.MaxRetryAfter)
	}
	b.now = b.now.Add(driver.MaxRetryAfter)
	if err := b.get(); !driver.IsNotFound(err) {
		t.Errorf("got %v after the pause", err)
	}
}

func TestPauseGrows(t *testing.T) {
	t.Parallel()
	b := newEnv(t, driver.Limits{})
	b.fails = &driver.RateLimitedError{Err: errors.New("slow down")}
	for _, want := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, 64 * time.Second, 2 * time.Minute, 2 * time.Minute} {
		_ = b.get()
		if got := driver.RetryAfter(b.get()); got != want {
			t.Errorf("paused for %s, want %s", got, want)
		}
		b.now = b.now.Add(want)
	}
}

// TestSuccessDuringAPauseDoesNotEndIt: it is that of a call that began before the cloud requested the pause.
func TestSuccessDuringAPauseDoesNotEndIt(t *testing.T) {
	t.Parallel()
	limited := &driver.RateLimitedError{RetryAfter: time.Minute, Err: errors.New("slow down")}
	for name, refused := range map[string][]string{"of the namespace": {"n"}, "of all": {"", "n"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newEnv(t, driver.Limits{})
			if err := b.Do("n", func() error {
				for _, namespace := range refused { // while this call is under way
					_ = b.Do(namespace, func() error { return limited })
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if err := b.Do("n", func() error { return nil }); driver.RetryAfter(err) != time.Minute {
				t.Errorf("got %v after %s, want a RateLimitedError after a minute", err, driver.RetryAfter(err))
			}
			b.now = b.now.Add(time.Minute)
			if err := b.Do("n", func() error { return nil }); err != nil {
				t.Errorf("after the pause: got %v", err)
			}
		})
	}
}

// TestRefusalsAtOncePauseOnce: the calls of all workers are under way when the cloud limits them.
func TestRefusalsAtOncePauseOnce(t *testing.T) {
	t.Parallel()
	b := newEnv(t, driver.Limits{})
	limited := &driver.RateLimitedError{Err: errors.New("slow down")}
	var refuse func(left int) error
	refuse = func(left int) error {
		if left > 0 {
			_ = b.Do("n", func() error { return refuse(left - 1) })
		}
		return limited
	}
	for _, want := range []time.Duration{2 * time.Second, 4 * time.Second} {
		_ = b.Do("n", func() error { return refuse(9) })
		if got := driver.RetryAfter(b.Do("n", func() error { return nil })); got != want {
			t.Errorf("paused for %s after ten refusals, want %s", got, want)
		}
		b.now = b.now.Add(want)
	}
}

func TestShortage(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{
		"for lack of capacity": &driver.InsufficientCapacityError{InstanceType: "small", Zone: "a", Err: errors.New("full")},
		"for lack of quota":    &driver.QuotaExceededError{Err: errors.New("quota")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newEnv(t, driver.Limits{})
			b.fails = cause
			_ = b.create(1, "small", "a")
			want := UnavailableOffering{Offering: Offering{"small", "a"}, Cause: cause, Until: b.now.Add(time.Minute), Left: time.Minute}
			b.wantShortage("small", "a", want)
			b.wantShortage("small", "b", UnavailableOffering{Offering: Offering{"small", "b"}})
			b.wantShortage("large", "a", UnavailableOffering{Offering: Offering{"large", "a"}})
			b.now = b.now.Add(time.Minute)
			want.Left = 0
			b.wantShortage("small", "a", want)
			b.fails = nil
			if err := b.create(2, "small", "a"); err != nil {
				t.Fatal(err)
			}
			b.wantShortage("small", "a", UnavailableOffering{Offering: Offering{"small", "a"}})
		})
	}
}

func TestShortageGrows(t *testing.T) {
	t.Parallel()
	b := newEnv(t, driver.Limits{})
	b.fails = &driver.InsufficientCapacityError{InstanceType: "small", Zone: "a", Err: errors.New("full")}
	for n, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 30 * time.Minute, 30 * time.Minute} {
		for m := range 5 { // many machines are refused at once
			_ = b.create(10*n+m, "small", "a")
		}
		if got := b.UnavailableOffering("n", fake.Config{InstanceType: "small", Zone: "a"}).Left; got != want {
			t.Errorf("put shortages for %s the %d. time, want %s", got, n+1, want)
		}
		b.now = b.now.Add(want)
	}
	b.now = b.now.Add(time.Hour)
	_ = b.create(99, "small", "a")
	if got := b.UnavailableOffering("n", fake.Config{InstanceType: "small", Zone: "a"}).Left; got != time.Minute {
		t.Errorf("put shortages for %s long after the last time, want 1m", got)
	}
}

func (b *env) wantShortage(instanceType, zone string, want UnavailableOffering) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.UnavailableOffering("n", fake.Config{InstanceType: instanceType, Zone: zone}), cmp.Comparer(sameError)); diff != "" {
		b.t.Errorf("shortage of %s in %s (-want +got):\n%s", instanceType, zone, diff)
	}
}

// TestShortageOfARequest: what only a price, a subnet or a placement group lacks is no evidence about other requests
// for the same type in the same zone.
func TestShortageOfARequest(t *testing.T) {
	t.Parallel()
	b := newEnv(t, driver.Limits{})
	b.fails = &driver.InsufficientCapacityError{InstanceType: "small", Zone: "a", OfRequest: true, Err: errors.New("the price is too low")}
	_ = b.create(1, "small", "a")
	b.wantShortage("small", "a", UnavailableOffering{Offering: Offering{"small", "a"}, Cause: b.fails, Until: b.now.Add(time.Minute), Left: time.Minute})
	if got := b.UnavailableOffering("n", fake.Config{InstanceType: "small", Zone: "a", Image: "another"}); got.Left > 0 || got.Cause != nil {
		t.Errorf("another request: got %+v", got)
	}
	b.fails = &driver.QuotaExceededError{Err: errors.New("quota")}
	_, _ = b.Create(t.Context(), driver.CreateRequest[fake.Config]{
		Identity: driver.Identity{UID: "2", Name: "m", Owner: driver.Owner{Namespace: "n", Name: "home"}},
		Config:   fake.Config{InstanceType: "small", Zone: "a", Image: "another"},
	})
	if got := b.UnavailableOffering("n", fake.Config{InstanceType: "small", Zone: "a"}); got.Left != time.Minute {
		t.Errorf("a shortage of the place: got %+v", got)
	}
}

// TestShortageIsOfOneNamespace: the words of the cloud about machines of one namespace are for no other.
func TestShortageIsOfOneNamespace(t *testing.T) {
	t.Parallel()
	b := newEnv(t, driver.Limits{})
	for _, b.fails = range []error{
		&driver.InsufficientCapacityError{InstanceType: "small", Zone: "a", Err: errors.New("full")},
		&driver.QuotaExceededError{Err: errors.New("quota")},
	} {
		_ = b.create(1, "small", "a")
		if got := b.UnavailableOffering("other", fake.Config{InstanceType: "small", Zone: "a"}); got.Left > 0 || got.Cause != nil {
			t.Errorf("got %+v", got)
		}
	}
}

// TestShortagesAreBounded: whoever writes a spec names them, and the server of the account chooses its words.
func TestShortagesAreBounded(t *testing.T) {
	t.Parallel()
	b := newEnv(t, driver.Limits{})
	b.fails = &driver.QuotaExceededError{Err: errors.New(strings.Repeat("x", 1<<20))}
	for n := range maxUnavailable + 100 {
		_ = b.create(n, "small", fmt.Sprint(n))
	}
	if got := b.unavailable.Len(); got > maxUnavailable {
		t.Errorf("%d places are kept, want %d at most", got, maxUnavailable)
	}
	if kept := b.UnavailableOffering("n", fake.Config{InstanceType: "small", Zone: fmt.Sprint(maxUnavailable)}).Cause; !driver.IsQuotaExceeded(kept) || len(kept.Error()) > 4096 {
		t.Errorf("%d bytes of an error are kept", len(kept.Error()))
	}
	b.now = b.now.Add(unavailableMin + unavailableMax)
	if got := b.unavailable.Len(); got != 0 {
		t.Errorf("%d places are kept long after they were short", got)
	}
}

// sameError compares kinds and texts, which is what is kept of an error.
func sameError(a, b error) bool {
	return fmt.Sprintf("%[1]T %[1]v", a) == fmt.Sprintf("%[1]T %[1]v", b)
}
