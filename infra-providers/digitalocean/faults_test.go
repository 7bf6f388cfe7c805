// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package digitalocean_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/digitalocean"
	"drover.io/infra-providers/digitalocean/digitaloceanfake"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/faulttest"
	"drover.io/infra-providers/internal/testenv"
)

// TestFaultInjection creates and deletes machines, every other with volumes and a reserved IP, in a slow team whose lists are
// late, where every request may fail. At times a size is sold out in their region; another is not.
func TestFaultInjection(t *testing.T) {
	t.Parallel()
	faulttest.Run(t, testenv.New(t, "digitalocean"), func(t *testing.T, random *faulttest.Rand) faulttest.Environment[*infrav1.DigitalOceanMachine, digitalocean.InstanceConfig] {
		clock := &clockOfRun{now: time.Now()}
		cloud := newEnv(t, digitaloceanfake.Options{ActionDelay: 3, TagDelay: 2, ListDelay: 6, Limited: true, Now: clock.Now})
		described := digitalocean.Cloud(digitalocean.Options{})
		described.Connect = func(context.Context, driver.Account, driver.Credentials) (driver.Driver[digitalocean.InstanceConfig], error) {
			return connectAt(t, cloud, clock, &faulttest.FaultyTransport{Rand: random, Next: http.DefaultTransport, Refuse: refuse}), nil
		}
		hooks := conformanceEnv(t, cloud, fullSpec())
		hooks.Driver = connectAt(t, cloud, clock, http.DefaultTransport)
		hooks.Lose = cloud.Lose
		made := 0
		return faulttest.Environment[*infrav1.DigitalOceanMachine, digitalocean.InstanceConfig]{
			Cloud: described,
			Machine: func() *infrav1.DigitalOceanMachine {
				spec := minimalSpec()
				if made++; made%2 == 0 {
					spec = fullSpec()
					spec.VPCUUID = ""
				}
				spec.Fallbacks = []infrav1.DigitalOceanFallback{{Size: "s-4vcpu-8gb"}, {Region: "fra1"}}
				return &infrav1.DigitalOceanMachine{Spec: spec}
			},
			Hooks: hooks,
			Pass:  clock.pass,
		}
	})
}

// clockOfRun is the clock of a run, which the fake reads in its own goroutine.
type clockOfRun struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clockOfRun) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clockOfRun) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *clockOfRun) pass(passed time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(passed)
}

func refuse(fault faulttest.Fault) (status int, body string) {
	if fault == faulttest.Throttled {
		return http.StatusTooManyRequests, `{"id": "too_many_requests", "message": "API Rate limit exceeded."}`
	}
	return http.StatusInternalServerError, `{"id": "server_error", "message": "Unexpected server-side error"}`
}
