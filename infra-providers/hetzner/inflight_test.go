// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package hetzner_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/hetzner"
	"drover.io/infra-providers/hetzner/hetznerfake"
	"drover.io/infra-providers/internal/inflight"
)

// fakeClock is a clock that the test advances.
type fakeClock struct{ passed atomic.Int64 }

func (c *fakeClock) now() time.Time          { return time.Unix(c.passed.Load(), 0) }
func (c *fakeClock) advance(d time.Duration) { c.passed.Add(int64(d / time.Second)) }

// wantTransientError requires that a read neither finds a server nor proves its absence.
func wantTransientError(t *testing.T, d *hetzner.Driver, id driver.Identity) {
	t.Helper()
	if found, err := d.Get(t.Context(), id); err == nil || driver.IsNotFound(err) || driver.IsInvalidConfiguration(err) {
		t.Fatalf("got %+v and %v, want a transient error", found, err)
	}
}

func wantNotFound(t *testing.T, d *hetzner.Driver, id driver.Identity) {
	t.Helper()
	if _, err := d.Get(t.Context(), id); !driver.IsNotFound(err) {
		t.Fatalf("got %v, want a NotFoundError", err)
	}
}

// TestUnansweredRequestIsNotAbsent: a request without an answer is carried out after the machine was deleted.
func TestUnansweredRequestIsNotAbsent(t *testing.T) {
	t.Parallel()
	plain := infrav1.HetznerMachineSpec{ServerType: "cx33", Location: "fsn1", Image: "ubuntu-24.04"}
	for name, test := range map[string]struct {
		operation string
		spec      infrav1.HetznerMachineSpec
		// next returns the driver that deletes.
		next func(cloud *hetznerfake.Cloud, requester *hetzner.Driver, watch *fakeClock) *hetzner.Driver
	}{
		"a server": {"POST /servers", plain, func(_ *hetznerfake.Cloud, requester *hetzner.Driver, _ *fakeClock) *hetzner.Driver { return requester }},
		"a server, after a restart": {"POST /servers", plain, func(cloud *hetznerfake.Cloud, _ *hetzner.Driver, watch *fakeClock) *hetzner.Driver {
			return connectRestarted(cloud, drivertest.ClockFunc(watch.now))
		}},
		"a volume": {"POST /volumes", newSpec(), func(_ *hetznerfake.Cloud, requester *hetzner.Driver, _ *fakeClock) *hetzner.Driver { return requester }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud, watch := newEnv(t, hetznerfake.Options{}), &fakeClock{}
			d, id := connectRestarted(cloud, drivertest.ClockFunc(watch.now)), identity("m")
			watch.advance(inflight.Window)
			release := cloud.Hold(test.operation)
			if _, err := d.Create(t.Context(), newRequest(t, "m", test.spec)); err == nil {
				t.Fatal("the request was answered")
			}
			d = test.next(cloud, d, watch)
			if err := d.Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			wantTransientError(t, d, id)
			if err := release(); err != nil {
				t.Fatal(err)
			}
			if err := d.Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			wantNoLeftovers(t, cloud)
			watch.advance(inflight.Window - 1)
			wantTransientError(t, d, id)
			watch.advance(inflight.Window)
			wantNotFound(t, d, id)
		})
	}
}

// TestRefusedRequestIsNotInFlight: a refused request created no server.
func TestRefusedRequestIsNotInFlight(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]struct {
		status int
		code   string
	}{
		"no room":     {http.StatusPreconditionFailed, "resource_unavailable"},
		"no quota":    {http.StatusForbidden, "resource_limit_exceeded"},
		"bad input":   {http.StatusUnprocessableEntity, "invalid_input"},
		"a conflict":  {http.StatusConflict, "conflict"},
		"a bad token": {http.StatusUnauthorized, "unauthorized"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud, watch := newEnv(t, hetznerfake.Options{}), &fakeClock{}
			d := connectRestarted(cloud, drivertest.ClockFunc(watch.now))
			watch.advance(inflight.Window)
			cloud.RefuseServer(refused.status, refused.code, "")
			if _, err := d.Create(t.Context(), newRequest(t, "m", newSpec())); err == nil {
				t.Fatal("the creation succeeded")
			}
			wantNotFound(t, d, identity("m"))
		})
	}
}

// TestServerWithProviderIDIsNotInFlight: its request was answered.
func TestServerWithProviderIDIsNotInFlight(t *testing.T) {
	t.Parallel()
	cloud, watch := newEnv(t, hetznerfake.Options{}), &fakeClock{}
	d := connectRestarted(cloud, drivertest.ClockFunc(watch.now))
	created, err := d.Create(t.Context(), newRequest(t, "m", infrav1.HetznerMachineSpec{ServerType: "cx33", Location: "fsn1", Image: "ubuntu-24.04"}))
	if err != nil {
		t.Fatal(err)
	}
	cloud.Remove("m")
	wantNotFound(t, d, created.Identity)
}
