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
	"drover.io/infra-providers/hetzner"
	"drover.io/infra-providers/hetzner/hetznerfake"
	"drover.io/infra-providers/hetzner/inflight"
)

// clock is one that a test moves.
type clock struct{ passed atomic.Int64 }

func (c *clock) now() time.Time       { return time.Unix(c.passed.Load(), 0) }
func (c *clock) pass(d time.Duration) { c.passed.Add(int64(d / time.Second)) }

// wantUnknown fails if a read proves that there is no server.
func wantUnknown(t *testing.T, d *hetzner.Driver, id driver.Identity) {
	t.Helper()
	if found, err := d.Get(t.Context(), id); err == nil || driver.IsNotFound(err) || driver.IsInvalidConfiguration(err) {
		t.Fatalf("got %+v and %v, want an error that passes", found, err)
	}
}

func wantGone(t *testing.T, d *hetzner.Driver, id driver.Identity) {
	t.Helper()
	if _, err := d.Get(t.Context(), id); !driver.IsNotFound(err) {
		t.Fatalf("got %v, want a NotFoundError", err)
	}
}

// TestADeletionWaitsForWhatIsInFlight: a request without an answer is carried out after the machine was deleted.
func TestADeletionWaitsForWhatIsInFlight(t *testing.T) {
	t.Parallel()
	plain := infrav1.HetznerMachineSpec{ServerType: "cx33", Location: "fsn1", Image: "ubuntu-24.04"}
	for name, test := range map[string]struct {
		operation string
		spec      infrav1.HetznerMachineSpec
		// next is who deletes.
		next func(cloud *hetznerfake.Cloud, asked *hetzner.Driver, watch *clock) *hetzner.Driver
	}{
		"a server": {"POST /servers", plain, func(_ *hetznerfake.Cloud, asked *hetzner.Driver, _ *clock) *hetzner.Driver { return asked }},
		"a server, after a restart": {"POST /servers", plain, func(cloud *hetznerfake.Cloud, _ *hetzner.Driver, watch *clock) *hetzner.Driver {
			return connectAt(cloud, watch.now)
		}},
		"a volume": {"POST /volumes", everything(), func(_ *hetznerfake.Cloud, asked *hetzner.Driver, _ *clock) *hetzner.Driver { return asked }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud, watch := start(t, hetznerfake.Options{}), &clock{}
			d, id := connectAt(cloud, watch.now), identity("m")
			watch.pass(inflight.Window)
			arrive := cloud.Hold(test.operation)
			if _, err := d.Create(t.Context(), request(t, "m", test.spec)); err == nil {
				t.Fatal("the request was answered")
			}
			d = test.next(cloud, d, watch)
			if err := d.Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			wantUnknown(t, d, id)
			if err := arrive(); err != nil {
				t.Fatal(err)
			}
			if err := d.Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			wantNothing(t, cloud)
			watch.pass(inflight.Window - 1)
			wantUnknown(t, d, id)
			watch.pass(inflight.Window)
			wantGone(t, d, id)
		})
	}
}

// TestAnAnswerLeavesNothingInFlight: who knows that there is no server does not wait.
func TestAnAnswerLeavesNothingInFlight(t *testing.T) {
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
			cloud, watch := start(t, hetznerfake.Options{}), &clock{}
			d := connectAt(cloud, watch.now)
			watch.pass(inflight.Window)
			cloud.RefuseServer(refused.status, refused.code, "")
			if _, err := d.Create(t.Context(), request(t, "m", everything())); err == nil {
				t.Fatal("the creation succeeded")
			}
			wantGone(t, d, identity("m"))
		})
	}
}

// TestAServerThatIsKnownIsMissedAtOnce: its request was answered.
func TestAServerThatIsKnownIsMissedAtOnce(t *testing.T) {
	t.Parallel()
	cloud, watch := start(t, hetznerfake.Options{}), &clock{}
	d := connectAt(cloud, watch.now)
	made, err := d.Create(t.Context(), request(t, "m", infrav1.HetznerMachineSpec{ServerType: "cx33", Location: "fsn1", Image: "ubuntu-24.04"}))
	if err != nil {
		t.Fatal(err)
	}
	cloud.Remove("m")
	wantGone(t, d, made.Identity)
}
