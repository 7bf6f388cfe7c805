// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine_test

import (
	"errors"
	"testing"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
)

// TestShortageDelaysNoOtherNamespace: both use the provider's own account, and the cloud refuses what the machines of
// one of them request.
func TestShortageDelaysNoOtherNamespace(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	foreign := r.home
	namespace, err := cluster.Namespace(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	other, err := cluster.Cluster(t.Context(), namespace, "home")
	if err != nil {
		t.Fatal(err)
	}
	r.alternatives = []fake.Config{}
	r.faults = func(call fake.Call) fake.Fault {
		if call.Operation == "create" && call.Identity.Owner.Namespace == foreign.Namespace {
			return fake.Fault{Err: &driver.InsufficientCapacityError{InstanceType: "small", Err: errors.New("there are no free addresses in their subnet")}}
		}
		return fake.Fault{}
	}
	r.restart()
	refused, _ := r.machine("refused")
	for range 3 {
		if _, err := r.reconcile(refused); err != nil {
			t.Fatal(err)
		}
	}
	r.wantCreations(1)
	r.home = other
	machine, _ := r.machine("worker")
	r.settle(machine)
	if machine.Spec.ProviderID == "" {
		t.Errorf("the machine of the other namespace waits: %+v", machine.Status.Conditions)
	}
}
