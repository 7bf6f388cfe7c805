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

// TestARequestSlowerThanItsClaimIsUndone lets a request arrive after another process took over. Nova makes
// both servers and gives both the port, as the real one was seen to.
func TestARequestSlowerThanItsClaimIsUndone(t *testing.T) {
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
	first := insist(t, later(time.Hour), asking(t, small()))
	if err := arrive(); err != nil {
		t.Fatal(err)
	}
	r.Change("servers", func(server map[string]any) {
		if server["id"] != first.ID {
			server["created"] = time.Now().Add(time.Minute).UTC().Format("2006-01-02T15:04:05Z")
		}
	})
	r.settle(t)
	running := 0
	for instance, err := range r.connect(t).List(t.Context(), driver.Owner{}) {
		if err != nil {
			t.Fatal(err)
		}
		if instance.State == driver.Running {
			running++
		}
	}
	if running != 2 {
		t.Fatalf("%d servers run, want 2, so this proves nothing", running)
	}
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
