// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
)

// TestAddressesOfAGuestDoNotStopTheStatus: root in a guest reports any number of addresses and a name of any length, and
// the API server accepts 256 of each.
func TestAddressesOfAGuestDoNotStopTheStatus(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	machine, _ := r.machine("worker")
	given := clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: "192.0.2.1"}
	reported := []clusterv1.MachineAddress{{Type: clusterv1.MachineHostName, Address: strings.Repeat("x", 300)}, {Type: clusterv1.MachineHostName}}
	for n := range 300 {
		reported = append(reported, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: fmt.Sprintf("10.0.%d.%d", n/100, n%100)})
	}
	for range 5 {
		if _, err := r.reconcile(machine); err != nil {
			t.Fatal(err)
		}
		r.cloud.Set(machine.UID, func(i *driver.Instance) {
			i.State, i.Addresses, i.Reported = driver.Running, []clusterv1.MachineAddress{given}, reported
		})
	}
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceRunningReason)
	if !ptr.Deref(machine.Status.Initialization.Provisioned, false) || len(machine.Status.Addresses) != 256 || machine.Status.Addresses[0] != given {
		t.Errorf("the status has %d addresses, want 256 of which the first is the cloud's: %+v", len(machine.Status.Addresses), machine.Status.Initialization)
	}
	if want := []string{given.Address}; !slices.Equal(machine.Status.CloudAddresses, want) {
		t.Errorf("the cloud gave %q, want %q", machine.Status.CloudAddresses, want)
	}
}
