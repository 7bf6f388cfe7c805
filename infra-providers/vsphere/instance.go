// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/vim25/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/vsphere/setup"
	"drover.io/infra-providers/vsphere/vcenter"
)

const (
	// providerIDPrefix starts a providerID as vSphere's cloud controller manager writes it.
	providerIDPrefix = "vsphere://"
	// taskPollInterval is for a virtual machine with a task under way or a step due.
	taskPollInterval = 3 * time.Second
	// addressPollInterval is for one whose addresses VMware Tools has not reported yet.
	addressPollInterval = 15 * time.Second
)

// instanceID is the UUID of the virtual machine of an identity, known before there is one. A UID that is no
// UUID gets one that derives from it.
func instanceID(id driver.Identity) string {
	if rest, ok := strings.CutPrefix(id.ProviderID, providerIDPrefix); ok {
		return strings.ToLower(rest)
	}
	if known, err := uuid.Parse(string(id.UID)); err == nil {
		return known.String()
	}
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("drover.io/"+string(id.UID))).String()
}

// normalizeProviderID returns the provider ID in lower case: a UUID is the same in any case.
func normalizeProviderID(providerID string) string { return strings.ToLower(providerID) }

// parse reads the record and the plan in a virtual machine. Only a virtual machine that has the UUID of its record is
// ours: copies of it carry the record too.
func parse(vm vcenter.VM) (setup.VM, driver.Identity, error) {
	record, plan, err := setup.Parse(vm)
	if err != nil {
		return setup.VM{}, driver.Identity{}, err
	}
	full := setup.VM{VM: vm, Record: record, Plan: plan}
	found := driver.Identity{}
	if vm.Config != nil {
		found.ProviderID = providerIDPrefix + strings.ToLower(vm.Config.InstanceUuid)
	}
	id, ok := driver.FromTags(record.Tags)
	if !ok || vm.Config == nil || vm.Config.Template || instanceID(id) != strings.ToLower(vm.Config.InstanceUuid) {
		return full, found, nil
	}
	id.ProviderID = found.ProviderID
	return full, id, nil
}

// checkTemplate refuses a machine as the template of another: its disks hold keys, and whoever writes a spec may name
// any virtual machine that the account can read. A copy of a machine is no machine.
func checkTemplate(place vcenter.Placement) error {
	_, id, err := parse(place.Source)
	if err == nil && id.UID == "" {
		return nil
	}
	return &driver.InvalidConfigurationError{Field: "spec.template", Err: fmt.Errorf("virtual machine %q is a machine, and its disks are its own: make a template of a copy", place.Source.Name)}
}

// toInstance converts a virtual machine, with the progress of its set-up or removal.
func toInstance(vm setup.VM, id driver.Identity, deleting bool, progress setup.Progress) driver.Instance {
	found := driver.Instance{
		ID:            instanceID(id),
		ProviderID:    id.ProviderID,
		Identity:      id,
		Reported:      toReportedAddresses(vm.Guest),
		FailureDomain: vm.Record.Zone,
		Created:       vm.Record.Created,
		Message:       progress.Failure,
		StepDue:       (deleting || vm.Plan != nil) && progress.Due(),
	}
	switch {
	case deleting:
		found.State, found.PollAfter = driver.Stopping, taskPollInterval
	case vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn:
		found.State = driver.Running
		if vm.Plan != nil {
			found.PollAfter = taskPollInterval
		} else if len(found.Reported) == 0 {
			found.PollAfter = addressPollInterval
		}
	case vm.Plan != nil:
		found.State, found.PollAfter = driver.Pending, taskPollInterval
	default:
		found.State = driver.Stopped
		if vm.Runtime.PowerState == types.VirtualMachinePowerStateSuspended {
			found.Message = "it is suspended"
		}
	}
	return found
}

// pendingInstance is a virtual machine that is being cloned and does not exist yet.
func pendingInstance(clone cloneRequest) driver.Instance {
	id := clone.request.Identity
	id.ProviderID = providerIDPrefix + instanceID(id)
	return driver.Instance{
		ID:            instanceID(id),
		ProviderID:    id.ProviderID,
		Identity:      id,
		State:         driver.Pending,
		FailureDomain: clone.request.Config.Zone,
		Created:       clone.created,
		Message:       "the template is being cloned",
		PollAfter:     taskPollInterval,
	}
}

// toReportedAddresses are the addresses that VMware Tools report of the network cards that vSphere made, as the cloud controller
// manager takes them: the first of each family is the external one too. Bridges inside the guest do not count. Root in
// the guest chooses all of them, and the host name.
func toReportedAddresses(guest *types.GuestInfo) []clusterv1.MachineAddress {
	if guest == nil {
		return nil
	}
	var all []clusterv1.MachineAddress
	external := map[bool]bool{}
	for _, card := range guest.Net {
		if card.DeviceConfigId == -1 {
			continue
		}
		for _, text := range card.IpAddress {
			address, err := netip.ParseAddr(text)
			if err != nil || !address.IsGlobalUnicast() {
				continue
			}
			all = append(all, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: address.String()})
			if !external[address.Is4()] {
				external[address.Is4()] = true
				all = append(all, clusterv1.MachineAddress{Type: clusterv1.MachineExternalIP, Address: address.String()})
			}
		}
	}
	if guest.HostName != "" && len(all) > 0 {
		all = append(all, clusterv1.MachineAddress{Type: clusterv1.MachineHostName, Address: guest.HostName})
	}
	return all
}

// instanceType names the shape of a virtual machine.
func instanceType(config InstanceConfig) string {
	return fmt.Sprintf("%dcpu-%dMiB", config.Shape.CPUs, config.Shape.MemoryMiB)
}
