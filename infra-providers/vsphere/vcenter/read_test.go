// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcenter

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmware/govmomi/vim25/types"
)

// TestDecodeVirtualMachine reads what a vCenter may return for the parameters that contain a record and a plan.
func TestDecodeVirtualMachine(t *testing.T) {
	t.Parallel()
	self := types.ManagedObjectReference{Type: "VirtualMachine", Value: "vm-1"}
	named := types.DynamicProperty{Name: "name", Val: "worker"}
	missing := func(path string) types.MissingProperty {
		return types.MissingProperty{Path: path, Fault: types.LocalizedMethodFault{Fault: &types.InvalidProperty{Name: path}}}
	}
	type read struct {
		Name, Record, Plan string
		Failed             bool
	}
	for name, test := range map[string]struct {
		content types.ObjectContent
		want    read
	}{
		"takes parameters that were asked for one by one": {types.ObjectContent{PropSet: []types.DynamicProperty{
			named, {Name: keyed(RecordKey), Val: types.OptionValue{Key: RecordKey, Value: "r"}}, {Name: keyed(PlanKey), Val: types.OptionValue{Key: PlanKey, Value: "p"}},
		}}, read{Name: "worker", Record: "r", Plan: "p"}},
		"takes parameters out of all": {types.ObjectContent{PropSet: []types.DynamicProperty{named, {Name: "config.extraConfig", Val: types.ArrayOfOptionValue{
			OptionValue: []types.BaseOptionValue{&types.OptionValue{Key: "other", Value: "o"}, &types.OptionValue{Key: RecordKey, Value: "r"}},
		}}}}, read{Name: "worker", Record: "r"}},
		"returns virtual machines that have none": {types.ObjectContent{PropSet: []types.DynamicProperty{named}}, read{Name: "worker"}},
		"returns virtual machines whose properties are reported as missing": {types.ObjectContent{
			PropSet: []types.DynamicProperty{named}, MissingSet: []types.MissingProperty{missing(keyed(RecordKey)), missing(keyed(PlanKey))},
		}, read{Name: "worker"}},
		"fails when anything else is missing": {types.ObjectContent{MissingSet: []types.MissingProperty{missing("name")}}, read{Failed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.content.Obj = self
			vm, err := decode(test.content)
			if diff := cmp.Diff(test.want, read{vm.Name, vm.Record, vm.Plan, err != nil}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestKeyed(t *testing.T) {
	t.Parallel()
	if got := keyed(RecordKey); got != `config.extraConfig["drover.record"]` {
		t.Errorf("got %s", got)
	}
}
