// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/internal/statedir"
	"drover.io/infra-providers/sim"
	"drover.io/infra-providers/sim/hypervisor"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, func(t *testing.T) drivertest.Environment[sim.InstanceConfig] { return newEnv(t, openHypervisor(t)) })
}

func openHypervisor(t *testing.T) *hypervisor.Hypervisor {
	t.Helper()
	hosts, err := hypervisor.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hosts.Close(); err != nil {
			t.Error(err)
		}
	})
	return hosts
}

func newEnv(t *testing.T, hosts *hypervisor.Hypervisor) drivertest.Environment[sim.InstanceConfig] {
	t.Helper()
	return drivertest.Environment[sim.InstanceConfig]{
		Driver:              connect(t, hosts),
		NormalizeProviderID: sim.Cloud(hosts).NormalizeProviderID,
		Config:              newConfig(t, &infrav1.SimMachine{}),
		Reconnect:           func() driver.Driver[sim.InstanceConfig] { return connect(t, hosts) },
		Leftovers: func() (left []string) {
			for _, instance := range hosts.List() {
				left = append(left, instance.ID)
			}
			return left
		},
		Write: func(created driver.Instance, output string) {
			if err := statedir.AppendBounded(hosts.ConsoleFile(created.ID), []byte(output), driver.MaxConsole/2); err != nil {
				t.Error(err)
			}
		},
	}
}

func TestToError(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		faults infrav1.SimFaults
		is     func(error) bool
	}{
		"quota":    {infrav1.SimFaults{QuotaExceeded: ptr.To(true)}, driver.IsQuotaExceeded},
		"capacity": {infrav1.SimFaults{InsufficientCapacity: ptr.To(true)}, driver.IsInsufficientCapacity},
		"error":    {infrav1.SimFaults{CreateError: "boom"}, func(err error) bool { return err != nil && err.Error() == "boom" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hosts, err := hypervisor.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer hosts.Close() //nolint:errcheck // nothing runs
			req := driver.CreateRequest[sim.InstanceConfig]{
				Identity: driver.Identity{UID: "u", Name: "m"},
				Config:   newConfig(t, &infrav1.SimMachine{Spec: infrav1.SimMachineSpec{Faults: test.faults}}),
			}
			if _, err := connect(t, hosts).Create(t.Context(), req); !test.is(err) {
				t.Errorf("got %v", err)
			}
			if left := hosts.List(); len(left) > 0 {
				t.Errorf("the failed creation left %v", left)
			}
		})
	}
}

func TestNewInstanceConfig(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec infrav1.SimMachineSpec
		zone string
		want [2]string
	}{
		"defaults everything":                       {infrav1.SimMachineSpec{}, "", [2]string{"small", "zone-a"}},
		"uses the zone of the spec":                 {infrav1.SimMachineSpec{Zone: "zone-b"}, "", [2]string{"small", "zone-b"}},
		"prefers the failure domain of the Machine": {infrav1.SimMachineSpec{Zone: "zone-b"}, "zone-c", [2]string{"small", "zone-c"}},
		"uses the type of the spec":                 {infrav1.SimMachineSpec{InstanceType: "large"}, "", [2]string{"large", "zone-a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := newConfig(t, &infrav1.SimMachine{Spec: test.spec})
			if test.zone != "" {
				var err error
				if got, err = sim.NewInstanceConfig(&infrav1.SimMachine{Spec: test.spec}, test.zone); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(test.want, [2]string{got.InstanceType, got.Zone}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNewConfigRefusesAnUnknownType(t *testing.T) {
	t.Parallel()
	_, err := sim.NewInstanceConfig(&infrav1.SimMachine{Spec: infrav1.SimMachineSpec{InstanceType: "huge"}}, "")
	if !driver.IsInvalidConfiguration(err) {
		t.Errorf("got %v, want an InvalidConfigurationError", err)
	}
}

func connect(t *testing.T, hosts *hypervisor.Hypervisor) driver.Driver[sim.InstanceConfig] {
	t.Helper()
	connected, err := sim.Cloud(hosts).Connect(t.Context(), driver.Account{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return connected
}

func newConfig(t *testing.T, machine *infrav1.SimMachine) sim.InstanceConfig {
	t.Helper()
	config, err := sim.NewInstanceConfig(machine, "")
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// TestTagKeepsTheUID: the identity of a machine may lack its UID.
func TestTagKeepsTheUID(t *testing.T) {
	t.Parallel()
	d := connect(t, openHypervisor(t))
	id := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "c", Namespace: "n", Name: "home"}}
	created, err := d.Create(t.Context(), driver.CreateRequest[sim.InstanceConfig]{Identity: id, Config: newConfig(t, &infrav1.SimMachine{})})
	if err != nil {
		t.Fatal(err)
	}
	withoutUID := id
	withoutUID.UID, withoutUID.ProviderID = "", created.ProviderID
	if err := d.(driver.Tagger).Tag(t.Context(), withoutUID); err != nil {
		t.Fatal(err)
	}
	got, err := d.Get(t.Context(), id)
	id.ProviderID = created.ProviderID
	if diff := cmp.Diff(id, got.Identity); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
