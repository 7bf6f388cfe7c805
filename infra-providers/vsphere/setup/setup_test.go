// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"errors"
	"testing"

	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vsphere/vcenter"
)

// TestIsForeign: the destruction of a virtual machine destroys every disk on it, so that foreign ones are detached first.
func TestIsForeign(t *testing.T) {
	t.Parallel()
	disk := func(uuid string) *types.VirtualDisk {
		return &types.VirtualDisk{VirtualDevice: types.VirtualDevice{Backing: &types.VirtualDiskFlatVer2BackingInfo{Uuid: uuid}}}
	}
	firstClass := disk("a")
	firstClass.VDiskId = &types.ID{Id: "fcd-1"}
	raw := &types.VirtualDisk{VirtualDevice: types.VirtualDevice{Backing: &types.VirtualDiskRawDiskMappingVer1BackingInfo{Uuid: "c"}}}
	withoutUUID := &types.VirtualDisk{VirtualDevice: types.VirtualDevice{Backing: &types.VirtualDiskFlatVer1BackingInfo{}}}
	recorded := []types.BaseOptionValue{&types.OptionValue{Key: "other", Value: "c"}, &types.OptionValue{Key: vcenter.DisksKey, Value: "a,b"}}
	for name, test := range map[string]struct {
		disk    *types.VirtualDisk
		options []types.BaseOptionValue
		want    bool
	}{
		"an initial disk":                                {disk("a"), recorded, false},
		"a disk that was attached later":                 {disk("c"), recorded, true},
		"a raw disk that was attached later":             {raw, recorded, true},
		"a disk without a UUID":                          {withoutUUID, recorded, false},
		"a first class disk, though it is recorded":      {firstClass, recorded, true},
		"a first class disk of one that never ran":       {firstClass, nil, true},
		"any other disk of one that never ran":           {disk("c"), nil, false},
		"a disk where no initial disk is in the record":  {disk("c"), []types.BaseOptionValue{&types.OptionValue{Key: vcenter.DisksKey, Value: ""}}, true},
		"a disk whose UUID is a part of a recorded UUID": {disk("aa"), recorded, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vm := VM{}
			vm.Config = &types.VirtualMachineConfigInfo{ExtraConfig: test.options}
			if got := isForeign(vm, test.disk); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

// TestOwnRule: whoever may change the settings of a virtual machine can write any rule into its record.
func TestOwnRule(t *testing.T) {
	t.Parallel()
	owner := driver.Owner{UID: "0a0b0c0d-0000", Namespace: "team", Name: "home"}
	tags := driver.Identity{UID: "u", Name: "m", Owner: owner}.Tags()
	incomplete := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: owner.UID, Namespace: "team"}}.Tags()
	own := RuleName(owner, "web")
	for name, test := range map[string]struct {
		record Record
		want   string
	}{
		"the rule of its Cluster":         {Record{Tags: tags, Rule: own}, own},
		"a rule of the operator":          {Record{Tags: tags, Rule: "databases-apart"}, ""},
		"the rule of another Cluster":     {Record{Tags: tags, Rule: RuleName(driver.Owner{UID: "x", Namespace: "team", Name: "away"}, "web")}, ""},
		"a rule where tags are missing":   {Record{Tags: incomplete, Rule: "drover-team--web"}, ""},
		"a rule in a record without tags": {Record{Rule: own}, ""},
		"no rule":                         {Record{Tags: tags}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := test.record.ownRule(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestRealFailure: a step that met another change of the virtual machine did not fail.
func TestRealFailure(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"success":                            {nil, false},
		"another task":                       {soap.WrapVimFault(&types.TaskInProgress{}), false},
		"another power state":                {soap.WrapVimFault(&types.InvalidPowerState{}), false},
		"no such virtual machine any more":   {soap.WrapVimFault(&types.ManagedObjectNotFound{}), false},
		"a fault of the step":                {soap.WrapVimFault(&types.InsufficientResourcesFault{}), true},
		"an error that is none of vCenter's": {errors.New("connection reset by peer"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := realFailure(test.err) != nil; got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}
