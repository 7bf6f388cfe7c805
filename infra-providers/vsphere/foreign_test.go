// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere_test

import (
	"fmt"
	"testing"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/utils/ptr"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vsphere"
)

// listed returns the instance of a UUID from a list.
func listed(t *testing.T, d *vsphere.Driver, uuid string) (found driver.Instance) {
	t.Helper()
	for each, err := range d.List(t.Context(), driver.Owner{}) {
		if err != nil {
			t.Fatal(err)
		}
		if each.ID == uuid {
			found = each
		}
	}
	return found
}

// TestForeignPlanIsNotCarriedOut: whoever may change the settings of a virtual machine can write a plan into it, and name
// any DRS rule there. Neither a list nor a step of a machine that it is not changes anything.
func TestForeignPlanIsNotCarriedOut(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	cluster, err := w.finder.ClusterComputeResource(t.Context(), "DC0_C0")
	if err != nil {
		t.Fatal(err)
	}
	var apart []types.ManagedObjectReference
	for _, name := range []string{"DC0_H0_VM0", "DC0_H0_VM1"} {
		apart = append(apart, w.find(name).Reference())
	}
	const rule = "operators-databases-apart"
	w.do(cluster.Reconfigure(t.Context(), &types.ClusterConfigSpecEx{RulesSpec: []types.ClusterRuleSpec{{
		ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationAdd},
		Info:            &types.ClusterAntiAffinityRuleSpec{ClusterRuleInfo: types.ClusterRuleInfo{Name: rule, Enabled: ptr.To(true)}, Vm: apart},
	}}}, true))
	vm := w.find("DC0_C0_RP0_VM1")
	var about mo.VirtualMachine
	if err := vm.Properties(t.Context(), vm.Reference(), []string{"config"}, &about); err != nil {
		t.Fatal(err)
	}
	uuid := about.Config.InstanceUuid
	record := fmt.Sprintf(`{"tags":{"drover.io/machine-uid":%q,"drover.io/machine":"x","drover.io/cluster":"none","drover.io/cluster-namespace":"none","drover.io/cluster-uid":"none"},"rule":%q}`, uuid, rule)
	plan := fmt.Sprintf(`{"uuid":%q,"name":"x","cpus":1,"memoryMiB":32}`, about.Config.Uuid)
	w.do(object.NewVirtualMachine(w.admin.Client, vm.Reference()).Reconfigure(t.Context(), types.VirtualMachineConfigSpec{ExtraConfig: []types.BaseOptionValue{
		&types.OptionValue{Key: "drover.record", Value: record}, &types.OptionValue{Key: "drover.plan", Value: plan},
	}}))
	d := w.connect()
	for range 4 {
		if found := listed(t, d, uuid); !found.StepDue || found.State != driver.Pending {
			t.Errorf("listed as %+v, want a Pending one with a step due", found)
		}
		other := identity("1")
		other.ProviderID = "vsphere://" + uuid
		if _, err := d.Provision(t.Context(), other); !driver.IsNotOwned(err) {
			t.Errorf("provisioning as another machine: got %v, want a NotOwnedError", err)
		}
	}
	if state, err := vm.PowerState(t.Context()); err != nil || state != types.VirtualMachinePowerStatePoweredOff {
		t.Errorf("it is %s, %v", state, err)
	}
	for _, known := range w.cluster("DC0_C0").Rule {
		if at := known.(*types.ClusterAntiAffinityRuleSpec); at.Name != rule || len(at.Vm) != len(apart) {
			t.Errorf("the rule became %+v", at)
		}
	}
}
