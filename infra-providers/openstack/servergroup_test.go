// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack"
)

// TestFullGroupIsNoShortageOfTheFlavor fills a strict group until no host is left for it.
func TestFullGroupIsNoShortageOfTheFlavor(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	d := r.connect(t)
	spec := minimalSpec()
	spec.ServerGroup.Policy = "anti-affinity"
	for n := range 3 {
		mustCreate(t, d, newNumberedRequest(t, n, spec))
	}
	for range 5 {
		for _, err := range d.List(t.Context(), driver.Owner{}) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := d.Create(t.Context(), newNumberedRequest(t, 3, spec)); !driver.IsInsufficientCapacity(err) {
		t.Errorf("one more member: got %v, want an InsufficientCapacityError", err)
	}
	if _, err := d.Create(t.Context(), newNumberedRequest(t, 4, minimalSpec())); err != nil {
		t.Errorf("a server without a group: %v", err)
	}
}

// newNumberedRequest returns the request of the n-th machine of a Cluster.
func newNumberedRequest(t *testing.T, n int, spec infrav1.OpenStackMachineSpec) driver.CreateRequest[openstack.InstanceConfig] {
	t.Helper()
	req := newRequest(t, spec)
	req.Identity.UID = types.UID(fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", n))
	return req
}

func TestGroupQuota(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	r.LimitGroups(10)
	d := r.connect(t)
	spec := minimalSpec()
	spec.ServerGroup.Policy = "soft-anti-affinity"
	for n := range 10 {
		mustCreate(t, d, newNumberedRequest(t, n, spec))
	}
	if _, err := d.Create(t.Context(), newNumberedRequest(t, 10, spec)); !driver.IsQuotaExceeded(err) || driver.IsUnauthorized(err) {
		t.Errorf("got %v, want a QuotaExceededError", err)
	}
}

func TestFlavorWithoutADiskNeedsARootVolume(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	d := r.connect(t)
	spec := minimalSpec()
	spec.Flavor = "diskless"
	_, err := d.Create(t.Context(), newRequest(t, spec))
	if invalid, ok := errors.AsType[*driver.InvalidConfigurationError](err); !ok || invalid.Field != "spec.rootVolume" || driver.IsUnauthorized(err) {
		t.Errorf("got %v, want an InvalidConfigurationError of spec.rootVolume", err)
	}
	spec.RootVolume = infrav1.OpenStackVolume{SizeGiB: 20}
	mustCreate(t, d, newRequest(t, spec))
}

// TestGroupIsDeletedWithItsLastMember has two machines of a Cluster in one group.
func TestGroupIsDeletedWithItsLastMember(t *testing.T) {
	t.Parallel()
	r := newEnv(t)
	spec := minimalSpec()
	spec.ServerGroup.Policy = "soft-anti-affinity"
	d := r.connect(t)
	for n := range 2 {
		mustCreate(t, d, newNumberedRequest(t, n, spec))
	}
	r.awaitStates(t)
	for n, want := range []int{1, 0} {
		id := newNumberedRequest(t, n, spec).Identity
		for range 5 {
			if err := d.Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			r.awaitStates(t)
		}
		groups := slices.DeleteFunc(r.Leftovers(), func(name string) bool { return !strings.HasPrefix(name, "os-server-groups ") })
		if len(groups) != want {
			t.Errorf("after %d deletions: got groups %q, want %d", n+1, groups, want)
		}
	}
}
