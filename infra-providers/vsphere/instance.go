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
	// scheme starts a providerID as vSphere's cloud controller manager writes it.
	scheme = "vsphere://"
	// soon is when to look again while something is under way.
	soon = 3 * time.Second
	// later is when to look again for the addresses that VMware Tools has yet to report.
	later = 15 * time.Second
)

// instanceID is the UUID of the virtual machine of an identity, known before there is one. A UID that is no
// UUID gets one that derives from it.
func instanceID(id driver.Identity) string {
	if rest, ok := strings.CutPrefix(id.ProviderID, scheme); ok {
		return strings.ToLower(rest)
	}
	if known, err := uuid.Parse(string(id.UID)); err == nil {
		return known.String()
	}
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("drover.io/"+string(id.UID))).String()
}

// read adds what stands in a virtual machine to what vCenter says of it. Only a virtual machine that has
// the UUID of its record is ours: copies of it carry the record too.
func read(vm vcenter.VM) (setup.VM, driver.Identity, error) {
	record, plan, err := setup.Parse(vm)
	if err != nil {
		return setup.VM{}, driver.Identity{}, err
	}
	full := setup.VM{VM: vm, Record: record, Plan: plan}
	found := driver.Identity{}
	if vm.Config != nil {
		found.ProviderID = scheme + strings.ToLower(vm.Config.InstanceUuid)
	}
	id, ok := driver.FromTags(record.Tags)
	if !ok || vm.Config == nil || vm.Config.Template || instanceID(id) != strings.ToLower(vm.Config.InstanceUuid) {
		return full, found, nil
	}
	id.ProviderID = found.ProviderID
	return full, id, nil
}

// cloneable refuses a machine as the template of another: its disks hold keys, and whoever writes a spec may name any
// virtual machine that the account sees. A copy of a machine is none.
func cloneable(place vcenter.Place) error {
	_, id, err := read(place.Source)
	if err == nil && id.UID == "" {
		return nil
	}
	return &driver.InvalidConfigurationError{Field: "spec.template", Err: fmt.Errorf("virtual machine %q is a machine, and its disks are its own: make a template of a copy", place.Source.Name)}
}

// toInstance converts a virtual machine. The words are what its last task said, if it failed.
func toInstance(vm setup.VM, id driver.Identity, leaving bool, words string) driver.Instance {
	made := driver.Instance{
		ID:            instanceID(id),
		ProviderID:    id.ProviderID,
		Identity:      id,
		Reported:      reported(vm.Guest),
		FailureDomain: vm.Record.Zone,
		Created:       vm.Record.Created,
		Message:       words,
	}
	switch {
	case leaving:
		made.State, made.PollAfter = driver.Stopping, soon
	case vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn:
		made.State = driver.Running
		if vm.Plan != nil {
			made.PollAfter = soon
		} else if len(made.Reported) == 0 {
			made.PollAfter = later
		}
	case vm.Plan != nil:
		made.State, made.PollAfter = driver.Pending, soon
	default:
		made.State = driver.Stopped
		if vm.Runtime.PowerState == types.VirtualMachinePowerStateSuspended {
			made.Message = "it is suspended"
		}
	}
	return made
}

// pending is a virtual machine that is being cloned and not to be seen yet.
func pending(what cloning) driver.Instance {
	id := what.request.Identity
	id.ProviderID = scheme + instanceID(id)
	return driver.Instance{
		ID:            instanceID(id),
		ProviderID:    id.ProviderID,
		Identity:      id,
		State:         driver.Pending,
		FailureDomain: what.request.Config.Zone,
		Created:       what.created,
		Message:       "the template is being cloned",
		PollAfter:     soon,
	}
}

// reported are the addresses that VMware Tools report of the network cards that vSphere made, as the cloud controller
// manager takes them: the first of each family is the external one too. Bridges inside the guest do not count. Root in
// the guest chooses all of them, and the host name.
func reported(guest *types.GuestInfo) []clusterv1.MachineAddress {
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
func instanceType(config Config) string {
	return fmt.Sprintf("%dcpu-%dMiB", config.Shape.CPUs, config.Shape.MemoryMiB)
}
