// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"testing"
	"time"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack"
	"drover.io/infra-providers/openstack/openstackfake"
)

// TestARequestSlowerThanItsClaimComesToNothing lets a request arrive after another process took over.
func TestARequestSlowerThanItsClaimComesToNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	later := func(later time.Duration) driver.Driver[openstack.Config] {
		cloud := openstack.Cloud(openstack.Options{Transport: r.faults, Now: func() time.Time { return time.Now().Add(later) }})
		driven, err := cloud.Connect(t.Context(), driver.Account{SecretName: "cloud"}, r.secret)
		if err != nil {
			t.Fatal(err)
		}
		return driven
	}
	arrive := r.faults.Hold(openstackfake.Creates("servers"))
	if _, err := later(0).Create(t.Context(), asking(t, small())); err == nil {
		t.Fatal("nothing was held")
	}
	made := insist(t, later(time.Hour), asking(t, small()))
	if err := arrive(); err != nil {
		t.Fatal(err)
	}
	r.settle(t)
	if left := r.only(t, "servers"); left["id"] != made.ID {
		t.Errorf("left is server %q, want %q", left["id"], made.ID)
	}
	wantLeft(t, r, worker)
}

// TestTheOlderOfTwoServersCounts has two, as clocks that differ by more than the age of a claim may make them.
func TestTheOlderOfTwoServersCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := insist(t, r.connect(t), asking(t, small()))
	r.Double()
	for range 3 {
		if again := insist(t, r.connect(t), asking(t, small())); again.ID != first.ID {
			t.Errorf("got server %q, want the older, %q", again.ID, first.ID)
		}
	}
	r.settle(t)
	if left := r.only(t, "servers"); left["id"] != first.ID {
		t.Errorf("left is server %q, want %q", left["id"], first.ID)
	}
	wantLeft(t, r, worker)
}
