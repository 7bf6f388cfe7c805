// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vcenter

import (
	"context"
	"fmt"
	"slices"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/task"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// Advanced parameters of a virtual machine that hold the data of the driver.
const (
	// RecordKey holds the identity.
	RecordKey = "drover.record"
	// PlanKey holds what is still to be done before it may run.
	PlanKey = "drover.plan"
	// DisksKey holds the UUIDs of the disks that it had before it first ran.
	DisksKey = "drover.disks"
)

// VM is a virtual machine as it was read. Config is nil while it is being cloned.
type VM struct {
	mo.VirtualMachine
	// Record and Plan are the values of those advanced parameters, or empty.
	Record, Plan string
}

// brief is what lists read. Advanced parameters are requested one by one, because user data is among them.
var brief = []string{
	"name", "parent", "config.instanceUuid", "config.uuid", "config.template", "config.createDate", "resourcePool",
	"runtime.powerState", "guest.net", "guest.hostName", "guest.ipAddress",
	keyed(RecordKey), keyed(PlanKey),
}

// full is what a read of one virtual machine requests besides.
var full = append([]string{"config.hardware", "config.version", "config.extraConfig", "customValue"}, brief[:len(brief)-2]...)

func keyed(key string) string { return fmt.Sprintf("config.extraConfig[%q]", key) }

// Find returns the virtual machines with an instance UUID.
func (s *Session) Find(ctx context.Context, client *vim25.Client, uuid string) ([]VM, error) {
	instance := true
	found, err := search(ctx, client, uuid, &instance)
	for _, vm := range found {
		s.recordFolder(vm)
	}
	return found, err
}

// FindBIOS returns the virtual machines with a BIOS UUID.
func FindBIOS(ctx context.Context, client *vim25.Client, uuid string) ([]VM, error) {
	instance := false
	return search(ctx, client, uuid, &instance)
}

func search(ctx context.Context, client *vim25.Client, uuid string, instance *bool) ([]VM, error) {
	refs, err := object.NewSearchIndex(client).FindAllByUuid(ctx, nil, uuid, true, instance)
	if err != nil {
		return nil, err
	}
	var found []VM
	for _, ref := range refs {
		vm, err := Read(ctx, client, ref.Reference())
		if fault.Is(err, &types.ManagedObjectNotFound{}) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, vm)
	}
	return found, nil
}

// Read returns everything about one virtual machine.
func Read(ctx context.Context, client *vim25.Client, ref types.ManagedObjectReference) (VM, error) {
	content, err := retrieve(ctx, client, full, ref)
	if err != nil {
		return VM{}, err
	}
	if len(content) == 0 {
		return VM{}, soap.WrapVimFault(&types.ManagedObjectNotFound{Obj: ref})
	}
	return decode(content[0])
}

// Results returns the state of each task. A task that the server has no longer is missing.
func Results(ctx context.Context, client *vim25.Client, refs ...types.ManagedObjectReference) (map[types.ManagedObjectReference]types.TaskInfo, error) {
	known := map[types.ManagedObjectReference]types.TaskInfo{}
	if len(refs) == 0 {
		return known, nil
	}
	content, err := retrieve(ctx, client, []string{"info"}, refs...)
	if fault.Is(err, &types.ManagedObjectNotFound{}) {
		// One task that does not exist any more fails the call for all.
		if len(refs) == 1 {
			return known, nil
		}
		for _, ref := range refs {
			one, err := Results(ctx, client, ref)
			if err != nil {
				return nil, err
			}
			for ref, info := range one {
				known[ref] = info
			}
		}
		return known, nil
	}
	for _, one := range content {
		for _, property := range one.PropSet {
			if info, ok := property.Val.(types.TaskInfo); ok {
				known[one.Obj] = info
			}
		}
	}
	return known, err
}

// Failure returns why a task failed; nil when it did not.
func Failure(info types.TaskInfo) error {
	if info.State != types.TaskInfoStateError || info.Error == nil {
		return nil
	}
	return task.Error{LocalizedMethodFault: info.Error}
}

// Running reports whether a task is queued or under way.
func Running(info types.TaskInfo) bool {
	return info.State == types.TaskInfoStateQueued || info.State == types.TaskInfoStateRunning
}

func retrieve(ctx context.Context, client *vim25.Client, paths []string, refs ...types.ManagedObjectReference) ([]types.ObjectContent, error) {
	filter := types.PropertyFilterSpec{PropSet: []types.PropertySpec{{Type: refs[0].Type, PathSet: paths}}}
	for _, ref := range refs {
		filter.ObjectSet = append(filter.ObjectSet, types.ObjectSpec{Obj: ref})
	}
	res, err := methods.RetrieveProperties(ctx, client, &types.RetrieveProperties{
		This:    client.ServiceContent.PropertyCollector,
		SpecSet: []types.PropertyFilterSpec{filter},
	})
	if err != nil {
		return nil, err
	}
	return res.Returnval, nil
}

// decode takes the keyed properties out, because the SDK's types have no place for them. That most virtual
// machines have no such parameter is no failure, which is what the SDK makes of a property that is missing.
func decode(content types.ObjectContent) (VM, error) {
	vm := VM{}
	plain := content
	plain.PropSet = nil
	plain.MissingSet = slices.DeleteFunc(slices.Clone(content.MissingSet), func(missing types.MissingProperty) bool {
		return missing.Path == keyed(RecordKey) || missing.Path == keyed(PlanKey)
	})
	for _, property := range content.PropSet {
		option, ok := property.Val.(types.OptionValue)
		switch value, _ := option.Value.(string); {
		case ok && property.Name == keyed(RecordKey):
			vm.Record = value
		case ok && property.Name == keyed(PlanKey):
			vm.Plan = value
		default:
			plain.PropSet = append(plain.PropSet, property)
		}
	}
	if err := mo.LoadObjectContent([]types.ObjectContent{plain}, &vm.VirtualMachine); err != nil {
		return VM{}, err
	}
	vm.Self = content.Obj
	return withRecord(vm), nil
}

// withRecord takes the record and the plan out of the advanced parameters, if those were read.
func withRecord(vm VM) VM {
	if vm.Config == nil {
		return vm
	}
	for _, option := range vm.Config.ExtraConfig {
		value, _ := option.GetOptionValue().Value.(string)
		switch option.GetOptionValue().Key {
		case RecordKey:
			vm.Record = value
		case PlanKey:
			vm.Plan = value
		}
	}
	return vm
}
