// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetzner_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/hetzner"
	"drover.io/infra-providers/hetzner/hetznerfake"
	"drover.io/infra-providers/internal/faulttest"
	"drover.io/infra-providers/internal/testenv"
)

// TestFaultInjection creates and deletes machines with volumes and networks in a slow project, where every request may fail.
// At times their location has no capacity; another has.
func TestFaultInjection(t *testing.T) {
	t.Parallel()
	faulttest.Run(t, testenv.New(t, "hetzner"), func(t *testing.T, random *faulttest.Rand) faulttest.Environment[*infrav1.HetznerMachine, hetzner.InstanceConfig] {
		cloud := newEnv(t, hetznerfake.Options{ActionDelay: 3})
		now := time.Now()
		client := &http.Client{Transport: &faulttest.FaultyTransport{Rand: random, Next: http.DefaultTransport, Refuse: refuse}}
		cloudDescription := hetzner.Cloud(hetzner.Options{})
		cloudDescription.Connect = func(context.Context, driver.Account, driver.Credentials) (driver.Driver[hetzner.InstanceConfig], error) {
			return hetzner.New(hcloud.NewClient(
				hcloud.WithEndpoint(cloud.Endpoint), hcloud.WithToken(hetznerfake.Token), hcloud.WithHTTPClient(client), hcloud.WithRetryOpts(hcloud.RetryOpts{MaxRetries: 0}),
			), drivertest.ClockFunc(func() time.Time { return now })), nil
		}
		return faulttest.Environment[*infrav1.HetznerMachine, hetzner.InstanceConfig]{
			Cloud: cloudDescription,
			Machine: func() *infrav1.HetznerMachine {
				spec := newSpec()
				spec.Fallbacks = []infrav1.HetznerFallback{{ServerType: "cx43"}, {Location: "nbg1"}}
				return &infrav1.HetznerMachine{Spec: spec}
			},
			Hooks: conformanceEnv(t, cloud),
			Pass:  func(passed time.Duration) { now = now.Add(passed) },
		}
	})
}

func refuse(fault faulttest.Fault) (status int, body string) {
	if fault == faulttest.Throttled {
		return http.StatusTooManyRequests, `{"error": {"code": "rate_limit_exceeded", "message": "limit of 3600 requests per hour reached"}}`
	}
	return http.StatusServiceUnavailable, `{"error": {"code": "service_error", "message": "service unavailable"}}`
}
