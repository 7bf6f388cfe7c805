// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"testing"
	"time"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/openstack"
	"drover.io/infra-providers/openstack/openstackfake"
)

// TestRequestAfterItsClaimExpiredCreatesNoServer carries out a request after another process has taken over.
func TestRequestAfterItsClaimExpiredCreatesNoServer(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	connectAfter := func(offset time.Duration) driver.Driver[openstack.InstanceConfig] {
		cloud := openstack.Cloud(openstack.Options{Transport: r.faults, Clock: drivertest.ClockFunc(func() time.Time { return time.Now().Add(offset) })})
		d, err := cloud.Connect(t.Context(), driver.Account{SecretName: "cloud"}, r.secret)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	release := r.faults.Hold(openstackfake.Creates("servers"))
	if _, err := connectAfter(0).Create(t.Context(), newRequest(t, minimalSpec())); err == nil {
		t.Fatal("no request was held")
	}
	created := mustCreate(t, connectAfter(time.Hour), newRequest(t, minimalSpec()))
	if err := release(); err != nil {
		t.Fatal(err)
	}
	r.awaitStates(t)
	if left := r.only(t, "servers"); left["id"] != created.ID {
		t.Errorf("left is server %q, want %q", left["id"], created.ID)
	}
	wantLeftovers(t, r, worker)
}

// TestNewerDuplicateIsDeleted has two servers, which clocks that differ by more than the time of a claim may cause.
func TestNewerDuplicateIsDeleted(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	first := mustCreate(t, r.connect(t), newRequest(t, minimalSpec()))
	r.DuplicateServer()
	for range 3 {
		if again := mustCreate(t, r.connect(t), newRequest(t, minimalSpec())); again.ID != first.ID {
			t.Errorf("got server %q, want the older, %q", again.ID, first.ID)
		}
	}
	r.awaitStates(t)
	if left := r.only(t, "servers"); left["id"] != first.ID {
		t.Errorf("left is server %q, want %q", left["id"], first.ID)
	}
	wantLeftovers(t, r, worker)
}
