// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"

	"drover.io/infra-providers/vsphere/clone"
	"drover.io/infra-providers/vsphere/guestinfo"
	"drover.io/infra-providers/vsphere/tasks"
	"drover.io/infra-providers/vsphere/vcenter"
)

// Task is a task of vCenter that was started; nil when none was.
type Task = *types.ManagedObjectReference

// Steps takes the steps that set up virtual machines, and those that remove them.
type Steps struct {
	Session *vcenter.Session
	// PageSize is for the lists that rules need.
	PageSize int32
	// Tasks are the tasks under way, by the UUID of their virtual machine.
	Tasks tasks.Tracker[struct{}]

	// changing is held from the read of a compute cluster to the start of its change.
	changing sync.Mutex
	// changes has the last task of each compute cluster whose rules or groups were changed.
	changes map[types.ManagedObjectReference]types.ManagedObjectReference
}

// VM is a virtual machine with the record and the plan that are written into it.
type VM struct {
	vcenter.VM
	Record Record
	Plan   *Plan
}

// Direction is where the steps lead.
type Direction bool

// Up is to a virtual machine that runs, Down to its removal.
const (
	Up   Direction = false
	Down Direction = true
)

// Progress is the state of the last step of a virtual machine. The zero value is one without a step.
type Progress struct {
	// Running is true while the task of the step is under way.
	Running bool
	// Paused is true while it is too early to take a step that failed once more.
	Paused bool
	// Failure is why the step before failed; empty when it did not.
	Failure string
}

// Due reports whether the next step may be taken.
func (p Progress) Due() bool { return !p.Running && !p.Paused }

// Observe reads the state of the last step of a virtual machine. It changes nothing in vCenter.
func (s *Steps) Observe(ctx context.Context, client *vim25.Client, uuid string) (Progress, error) {
	last, ok := s.Tasks.Get(uuid)
	if !ok || last.Task == nil {
		return s.Progress(uuid), nil
	}
	err := s.observe(ctx, client, map[string]types.ManagedObjectReference{uuid: *last.Task})
	return s.Progress(uuid), err
}

// ObserveAll is Observe for all virtual machines with a step under way, in one call.
func (s *Steps) ObserveAll(ctx context.Context, client *vim25.Client) error {
	running := map[string]types.ManagedObjectReference{}
	for uuid, last := range s.Tasks.All() {
		if last.Task != nil {
			running[uuid] = *last.Task
		}
	}
	return s.observe(ctx, client, running)
}

func (s *Steps) observe(ctx context.Context, client *vim25.Client, running map[string]types.ManagedObjectReference) error {
	infos, err := vcenter.Results(ctx, client, slices.Collect(maps.Values(running))...)
	if err != nil {
		return err
	}
	for uuid, task := range running {
		if info := infos[task]; !vcenter.Running(info) {
			s.Tasks.Finish(uuid, task, realFailure(vcenter.Failure(info)))
		}
	}
	return nil
}

// Progress is what the last Observe or Next found.
func (s *Steps) Progress(uuid string) Progress {
	last, _ := s.Tasks.Get(uuid)
	progress := Progress{Running: last.Task != nil, Paused: s.Tasks.Paused(uuid)}
	if last.Err != nil {
		progress.Failure = last.Err.Error()
	}
	return progress
}

// Next starts the next task of a virtual machine, unless one is under way or failed a moment ago. A failure does not
// fail the call, because the virtual machine exists: it becomes part of the progress.
func (s *Steps) Next(ctx context.Context, client *vim25.Client, vm VM, to Direction) (Progress, error) {
	uuid := strings.ToLower(vm.Config.InstanceUuid)
	progress, err := s.Observe(ctx, client, uuid)
	if err != nil || !progress.Due() {
		return progress, err
	}
	next := s.up
	if to == Down {
		next = s.down
	}
	task, err := next(ctx, client, vm)
	switch {
	case task != nil:
		s.Tasks.Start(uuid, *task, struct{}{})
	case realFailure(err) != nil:
		s.Tasks.Fail(uuid, err)
	case errors.Is(err, errChanging): // it says nothing about a failure before
	case err != nil:
		s.Tasks.End(uuid)
	}
	return s.Progress(uuid), ctx.Err()
}

// Retag starts the task that writes other ownership tags into the record of a virtual machine, unless a task of it
// is under way: vCenter takes one at a time.
func (s *Steps) Retag(ctx context.Context, client *vim25.Client, vm VM, tags map[string]string) error {
	key := strings.ToLower(vm.Config.InstanceUuid)
	if last, ok := s.Tasks.Get(key); ok && last.Task != nil {
		infos, err := vcenter.Results(ctx, client, *last.Task)
		if err != nil || vcenter.Running(infos[*last.Task]) {
			return err
		}
	}
	record := vm.Record
	record.Tags = tags
	who, err := json.Marshal(record)
	if err != nil {
		return err
	}
	task, err := start(object.NewVirtualMachine(client, vm.Self).Reconfigure(ctx, types.VirtualMachineConfigSpec{
		ExtraConfig: clone.Options(map[string]string{vcenter.RecordKey: string(who)}),
	}))
	if err != nil {
		return err
	}
	s.Tasks.Start(key, *task, struct{}{})
	return nil
}

// Drop removes what is recorded of the tasks of a virtual machine.
func (s *Steps) Drop(uuid string) { s.Tasks.End(uuid) }

// realFailure returns a failure of a step that counts. That the virtual machine or its compute cluster was changed meanwhile, is
// busy or does not exist any more does not: the next read shows what is left to do.
func realFailure(err error) error {
	if err == nil || errors.Is(err, errChanging) || fault.Is(err, &types.TaskInProgress{}) || fault.Is(err, &types.InvalidPowerState{}) || fault.Is(err, &types.ManagedObjectNotFound{}) {
		return nil
	}
	return err
}

// up starts the next task of a virtual machine's plan. A step whose aim is reached starts none.
func (s *Steps) up(ctx context.Context, client *vim25.Client, vm VM) (Task, error) {
	if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn {
		// Another account or tool may have written members that it had read before this one joined.
		if task, err := s.join(ctx, client, vm); task != nil || err != nil {
			return task, err
		}
		return start(object.NewVirtualMachine(client, vm.Self).Reconfigure(ctx, types.VirtualMachineConfigSpec{
			ExtraConfig: clone.Options(map[string]string{vcenter.PlanKey: ""}),
		}))
	}
	for _, step := range []func(context.Context, *vim25.Client, VM) (Task, error){
		s.reconfigure,     // CPUs, memory, UUIDs and metadata are as planned
		s.upgradeHardware, // the hardware version is new enough
		s.join,            // the DRS rule and the VM group have it as a member
		s.tag,             // tags and custom attributes are attached
		s.powerOn,         // it runs
	} {
		if task, err := step(ctx, client, vm); task != nil || err != nil {
			return task, err
		}
	}
	return nil, nil
}

// down starts the next task that removes a virtual machine.
func (s *Steps) down(ctx context.Context, client *vim25.Client, vm VM) (Task, error) {
	if task, err := s.leave(ctx, client, vm); task != nil || err != nil {
		return task, err
	}
	machine := object.NewVirtualMachine(client, vm.Self)
	if vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOff {
		return start(machine.PowerOff(ctx))
	}
	if task, err := detachForeignDisks(ctx, client, vm); task != nil || err != nil {
		return task, err
	}
	return start(machine.Destroy(ctx))
}

func start(task *object.Task, err error) (Task, error) {
	if err != nil {
		return nil, err
	}
	ref := task.Reference()
	if err := vcenter.CheckReference(ref); err != nil {
		return nil, err
	}
	return &ref, nil
}

// reconfigure corrects what the clone did not apply, and writes the metadata of the guest with the addresses of its network
// cards, which do not exist before.
func (s *Steps) reconfigure(ctx context.Context, client *vim25.Client, vm VM) (Task, error) {
	plan := vm.Plan
	spec := types.VirtualMachineConfigSpec{}
	wrong := false
	if vm.Config.Uuid != plan.UUID {
		spec.Uuid, wrong = plan.UUID, true
	}
	if vm.Config.Hardware.NumCPU != plan.CPUs {
		spec.NumCPUs, wrong = plan.CPUs, true
	}
	if plan.CoresPerSocket > 0 && (vm.Config.Hardware.NumCoresPerSocket == nil || *vm.Config.Hardware.NumCoresPerSocket != plan.CoresPerSocket) {
		spec.NumCoresPerSocket, wrong = &plan.CoresPerSocket, true
	}
	if int64(vm.Config.Hardware.MemoryMB) != plan.MemoryMiB {
		spec.MemoryMB, wrong = plan.MemoryMiB, true
	}
	values, err := metadata(vm)
	if err != nil {
		return nil, err
	}
	values[vcenter.DisksKey] = initialDisks(vm)
	if !holds(vm.Config.ExtraConfig, values) {
		spec.ExtraConfig, wrong = clone.Options(values), true
	}
	if !wrong {
		return nil, nil
	}
	return start(object.NewVirtualMachine(client, vm.Self).Reconfigure(ctx, spec))
}

func metadata(vm VM) (map[string]string, error) {
	if !vm.Plan.CloudInit {
		return map[string]string{}, nil
	}
	macs, err := addresses(vm.Config.Hardware.Device, len(vm.Plan.Networks))
	if err != nil {
		return nil, err
	}
	return guestinfo.Metadata(guestinfo.Host{
		InstanceID: vm.Plan.UUID,
		Name:       vm.Plan.Name,
		ProviderID: vm.Plan.ProviderID,
		Networks:   vm.Plan.Networks,
		MACs:       macs,
	})
}

// addresses returns the MAC addresses of the cards in the order they were requested.
func addresses(devices object.VirtualDeviceList, count int) ([]string, error) {
	if count == 0 {
		return nil, nil
	}
	cards := devices.SelectByType((*types.VirtualEthernetCard)(nil))
	slices.SortFunc(cards, func(a, b types.BaseVirtualDevice) int {
		return cmp.Compare(a.GetVirtualDevice().Key, b.GetVirtualDevice().Key)
	})
	if len(cards) != count {
		return nil, fmt.Errorf("there are %d network cards and not %d", len(cards), count)
	}
	macs := make([]string, count)
	for i, device := range cards {
		macs[i] = strings.ToLower(device.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard().MacAddress)
		if macs[i] == "" {
			return nil, errors.New("a network card has no address yet")
		}
	}
	return macs, nil
}

func holds(options []types.BaseOptionValue, values map[string]string) bool {
	found := 0
	for _, option := range options {
		value, ok := option.GetOptionValue().Value.(string)
		if wanted, requested := values[option.GetOptionValue().Key]; requested && ok && wanted == value {
			found++
		}
	}
	return found == len(values)
}

func (s *Steps) upgradeHardware(ctx context.Context, client *vim25.Client, vm VM) (Task, error) {
	now, err := strconv.Atoi(strings.TrimPrefix(vm.Config.Version, "vmx-"))
	if vm.Plan.Hardware == 0 || err == nil && int32(now) >= vm.Plan.Hardware {
		return nil, nil
	}
	return start(object.NewVirtualMachine(client, vm.Self).UpgradeVM(ctx, fmt.Sprintf("vmx-%02d", vm.Plan.Hardware)))
}

func (s *Steps) tag(ctx context.Context, client *vim25.Client, vm VM) (Task, error) {
	if err := s.Session.Attach(ctx, vm.Plan.Tags, vm.Self); err != nil {
		return nil, err
	}
	known := map[int32]string{}
	for _, value := range vm.CustomValue {
		if text, ok := value.(*types.CustomFieldStringValue); ok {
			known[text.Key] = text.Value
		}
	}
	for key, value := range vm.Plan.Attributes {
		if known[key] == value {
			continue
		}
		if err := object.NewCustomFieldsManager(client).Set(ctx, vm.Self, key, value); err != nil {
			return nil, fmt.Errorf("setting custom attribute: %w", err)
		}
	}
	return nil, nil
}

func (s *Steps) powerOn(ctx context.Context, client *vim25.Client, vm VM) (Task, error) {
	return start(object.NewVirtualMachine(client, vm.Self).PowerOn(ctx))
}
