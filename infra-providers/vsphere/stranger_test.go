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

// listed is what a list says of a UUID.
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

// TestAListCarriesOutNobodysPlan: whoever may change the settings of a virtual machine can write a plan into it, and name
// any DRS rule there.
func TestAListCarriesOutNobodysPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
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
		if found := listed(t, d, uuid); !found.Unread || found.State != driver.Pending {
			t.Errorf("listed as %+v, want a Pending one that its owner has to read", found)
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

// TestAListGoesOnWithWhatWasRead: after a restart somebody has to read a half-made machine once.
func TestAListGoesOnWithWhatWasRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := identity("1")
	if _, err := w.connect().Create(t.Context(), req(w, id)); err != nil {
		t.Fatal(err)
	}
	made := await(t, w.restart(), id, driver.Pending)
	restarted := w.restart()
	if found := listed(t, restarted, made.ID); !found.Unread {
		t.Fatalf("listed as %+v, want one that its owner has to read", found)
	}
	if _, err := restarted.Get(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	until(t, "Running, by lists", func() bool {
		found := listed(t, restarted, made.ID)
		return found.State == driver.Running && !found.Unread
	})
}
