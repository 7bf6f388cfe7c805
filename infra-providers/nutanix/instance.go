// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanix

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	tasks "github.com/nutanix/ntnx-api-golang-clients/prism-go-client/v4/models/prism/v4/config"
	common "github.com/nutanix/ntnx-api-golang-clients/vmm-go-client/v4/models/common/v1/config"
	"github.com/nutanix/ntnx-api-golang-clients/vmm-go-client/v4/models/vmm/v4/ahv/config"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/nutanix/request"
)

// pollInterval is when a virtual machine that starts or is deleted is read again.
const pollInterval = 5 * time.Second

var providerIDPattern = regexp.MustCompile(`^nutanix://([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})$`)

// providerID is the one that the cloud controller manager of Nutanix writes into the Node.
func providerID(vmID string) string { return "nutanix://" + vmID }

// parseProviderID returns the ID of a virtual machine; ok is false for a provider ID that none can have.
func parseProviderID(id string) (vmID string, ok bool) {
	parts := providerIDPattern.FindStringSubmatch(id)
	if parts == nil {
		return "", false
	}
	return parts[1], true
}

// toInstance converts a virtual machine. The failure domain is the name of its cluster, or the ID of one that is not known.
func toInstance(vm *config.Vm, clusters []request.Cluster) driver.Instance {
	id := ptr.Deref(vm.ExtId, "")
	identity := request.Identity(ptr.Deref(vm.Name, ""), ptr.Deref(vm.Description, ""))
	identity.ProviderID = providerID(id)
	instance := driver.Instance{
		ID: id, ProviderID: identity.ProviderID, Identity: identity, State: toState(vm), Created: ptr.Deref(vm.CreateTime, time.Time{}),
	}
	instance.Addresses, instance.Reported = toAddresses(vm)
	if vm.Cluster != nil {
		instance.FailureDomain = ptr.Deref(vm.Cluster.ExtId, "")
	}
	if n := slices.IndexFunc(clusters, func(c request.Cluster) bool { return c.ID == instance.FailureDomain }); n >= 0 {
		instance.FailureDomain = cmp.Or(clusters[n].Name, instance.FailureDomain)
	}
	switch {
	case instance.State == driver.Pending:
		instance.PollAfter = pollInterval
	case ptr.Deref(vm.PowerState, config.POWERSTATE_UNKNOWN) == config.POWERSTATE_PAUSED:
		instance.Message = "the virtual machine is paused"
	}
	return instance
}

// toState converts the power state. One that is not determined, as while a host is unreachable, changes by itself.
func toState(vm *config.Vm) driver.State {
	switch ptr.Deref(vm.PowerState, config.POWERSTATE_UNKNOWN) {
	case config.POWERSTATE_ON:
		return driver.Running
	case config.POWERSTATE_OFF, config.POWERSTATE_PAUSED:
		return driver.Stopped
	default:
		return driver.Pending
	}
}

// toAddresses returns the addresses that Nutanix assigned, by interface, with the name of the host; and those that it learned
// from what the guest sends.
func toAddresses(vm *config.Vm) (assigned, learned []clusterv1.MachineAddress) {
	for n := range vm.Nics {
		settings, info, info6 := networkOf(&vm.Nics[n])
		if settings != nil {
			assigned = addIPv4(assigned, settings.IpAddress)
			for i := range settings.SecondaryIpAddressList {
				assigned = addIPv4(assigned, &settings.SecondaryIpAddressList[i])
			}
		}
		if info != nil {
			for i := range info.LearnedIpAddresses {
				learned = addIPv4(learned, &info.LearnedIpAddresses[i])
			}
		}
		if info6 != nil {
			for _, address := range info6.LearnedIpv6Addresses {
				learned = add(learned, clusterv1.MachineInternalIP, ptr.Deref(address.Value, ""))
			}
		}
	}
	name := ptr.Deref(vm.Name, "")
	return add(add(assigned, clusterv1.MachineInternalDNS, name), clusterv1.MachineHostName, name), learned
}

// networkOf returns the settings of an interface and what was learned about it. The API has them in two places: where version
// 4.0 has them, and since version 4.2 in one by the kind of the interface.
func networkOf(nic *config.Nic) (*config.Ipv4Config, *config.Ipv4Info, *config.Ipv6Info) {
	if nic.NicNetworkInfo != nil {
		if network, ok := nic.NicNetworkInfo.GetValue().(config.VirtualEthernetNicNetworkInfo); ok {
			return network.Ipv4Config, network.Ipv4Info, network.Ipv6Info
		}
	}
	if nic.NetworkInfo != nil {
		return nic.NetworkInfo.Ipv4Config, nic.NetworkInfo.Ipv4Info, nil
	}
	return nil, nil, nil
}

func addIPv4(all []clusterv1.MachineAddress, address *common.IPv4Address) []clusterv1.MachineAddress {
	if address == nil {
		return all
	}
	return add(all, clusterv1.MachineInternalIP, ptr.Deref(address.Value, ""))
}

func add(all []clusterv1.MachineAddress, kind clusterv1.MachineAddressType, address string) []clusterv1.MachineAddress {
	known := clusterv1.MachineAddress{Type: kind, Address: address}
	if address == "" || slices.Contains(all, known) {
		return all
	}
	return append(all, known)
}

// volumeGroups returns the IDs of the volume groups that are attached to a virtual machine, empty for what is none. They exist
// without it.
func volumeGroups(vm *config.Vm) (ids []string) {
	for _, disk := range vm.Disks {
		if disk.BackingInfo == nil {
			continue
		}
		group, ok := disk.BackingInfo.GetValue().(config.ADSFVolumeGroupReference)
		if !ok || group.VolumeGroupExtId == nil {
			continue
		}
		id := *group.VolumeGroupExtId
		if !request.IsUUID(id) {
			id = ""
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// hasEnded reports whether a task has ended.
func hasEnded(task *tasks.Task) bool {
	switch ptr.Deref(task.Status, tasks.TASKSTATUS_UNKNOWN) {
	case tasks.TASKSTATUS_SUCCEEDED, tasks.TASKSTATUS_FAILED, tasks.TASKSTATUS_CANCELED:
		return true
	default:
		return false
	}
}

func hasSucceeded(task *tasks.Task) bool {
	return task != nil && ptr.Deref(task.Status, tasks.TASKSTATUS_UNKNOWN) == tasks.TASKSTATUS_SUCCEEDED
}

// createdVM returns the ID of the virtual machine that a task creates, empty where the task does not name one.
func createdVM(task *tasks.Task) string {
	if task == nil {
		return ""
	}
	for _, entity := range task.EntitiesAffected {
		if rel := ptr.Deref(entity.Rel, ""); strings.HasPrefix(rel, "vmm:ahv:") && strings.HasSuffix(rel, ":vm") {
			if id := ptr.Deref(entity.ExtId, ""); request.IsUUID(id) {
				return id
			}
		}
	}
	return ""
}
