// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package throttle_test

import (
	"testing"
	"time"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/infra-providers/internal/throttle"
)

// In one account of the provider's own credentials: a call for team-a takes too long, such as the look-up of
// spec.template "/DC0/vm/..." in a large vCenter. team-b is paused.
func TestSlowCallOfOneNamespacePausesNoOther(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	shared := throttle.New(driver.Driver[fake.Config](fake.New(fake.Options{})), throttle.Options[fake.Config]{Now: func() time.Time { return now }, Jitter: func() float64 { return 0 }})
	for range 8 {
		_ = shared.Do("team-a", func() error { return &throttle.TimeoutError{Limit: 2 * time.Minute} })
		now = now.Add(2 * time.Minute) // team-a tries again as soon as it may
	}
	_ = shared.Do("team-a", func() error { return &throttle.TimeoutError{Limit: 2 * time.Minute} })
	id := driver.Identity{UID: "b", Name: "m", Owner: driver.Owner{UID: "c", Namespace: "team-b", Name: "c"}}
	if err := shared.Delete(t.Context(), id); driver.IsRateLimited(err) {
		t.Errorf("team-b waits %s: %v", driver.RetryAfter(err), err)
	}
	if _, err := shared.Get(t.Context(), driver.Identity{UID: "a", Owner: driver.Owner{Namespace: "team-a"}}); !driver.IsRateLimited(err) {
		t.Errorf("team-a is not paused: %v", err)
	}
	_ = shared.Do("team-b", func() error { return &throttle.TimeoutError{Limit: 2 * time.Minute} })
	if err := shared.Do("team-c", func() error { return nil }); !driver.IsRateLimited(err) {
		t.Errorf("the cloud answers to no namespace, and team-c gets %v", err)
	}
}
