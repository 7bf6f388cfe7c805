// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack"
)

// TestAStrictGroupPutsNobodyElseAside fills a group until no host is left for it.
func TestAStrictGroupPutsNobodyElseAside(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	driven := r.connect(t)
	spec := small()
	spec.ServerGroup.Policy = "anti-affinity"
	for n := range 3 {
		insist(t, driven, numbered(t, n, spec))
	}
	for range 5 {
		for _, err := range driven.List(t.Context(), driver.Owner{}) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := driven.Create(t.Context(), numbered(t, 3, spec)); !driver.IsInsufficientCapacity(err) {
		t.Errorf("one more member: got %v, want an InsufficientCapacityError", err)
	}
	if _, err := driven.Create(t.Context(), numbered(t, 4, small())); err != nil {
		t.Errorf("a server without a group: %v", err)
	}
}

// numbered asks for the n-th machine of a Cluster.
func numbered(t *testing.T, n int, spec infrav1.OpenStackMachineSpec) driver.Request[openstack.Config] {
	t.Helper()
	req := asking(t, spec)
	req.Identity.UID = types.UID(fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", n))
	return req
}

func TestAGroupHasItsQuota(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.LimitGroups(10)
	driven := r.connect(t)
	spec := small()
	spec.ServerGroup.Policy = "soft-anti-affinity"
	for n := range 10 {
		insist(t, driven, numbered(t, n, spec))
	}
	if _, err := driven.Create(t.Context(), numbered(t, 10, spec)); !driver.IsQuotaExceeded(err) || driver.IsUnauthorized(err) {
		t.Errorf("got %v, want a QuotaExceededError", err)
	}
}

func TestAFlavorWithoutADiskWantsAVolume(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	driven := r.connect(t)
	spec := small()
	spec.Flavor = "diskless"
	_, err := driven.Create(t.Context(), asking(t, spec))
	if invalid, ok := errors.AsType[*driver.InvalidConfigurationError](err); !ok || invalid.Field != "spec.rootVolume" || driver.IsUnauthorized(err) {
		t.Errorf("got %v, want an InvalidConfigurationError of spec.rootVolume", err)
	}
	spec.RootVolume = infrav1.OpenStackVolume{SizeGiB: 20}
	insist(t, driven, asking(t, spec))
}
