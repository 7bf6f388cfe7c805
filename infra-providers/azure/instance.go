// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"k8s.io/utils/ptr"

	"drover.io/infra-providers/azure/request"
	"drover.io/infra-providers/azure/tag"
	"drover.io/infra-providers/driver"
)

// pollInterval is when an instance that starts or stops is read again.
const pollInterval = 5 * time.Second

// The provisioning states of a resource.
const (
	succeeded = "Succeeded"
	failed    = "Failed"
	deleting  = "Deleting"
)

// The prefixes of the codes of a status.
const (
	powerPrefix  = "PowerState/"
	failedPrefix = "ProvisioningState/failed/"
)

// parseProviderID returns the name of a virtual machine; ok is false for a provider ID that none of the resource group can
// have.
func (d *Driver) parseProviderID(id string) (name string, ok bool) {
	path, ok := strings.CutPrefix(id, "azure://")
	if !ok {
		return "", false
	}
	return d.place.VirtualMachine(path)
}

// normalizeProviderID returns the provider ID in lower case: names in Azure are the same in any case.
func normalizeProviderID(providerID string) string { return strings.ToLower(providerID) }

// toInstance converts a virtual machine, without its addresses.
func (d *Driver) toInstance(vm *armcompute.VirtualMachine) driver.Instance {
	name := ptr.Deref(vm.Name, "")
	identity := tag.Decode(vm.Tags)
	identity.ProviderID = d.place.ProviderID(name)
	instance := driver.Instance{ID: name, ProviderID: identity.ProviderID, Identity: identity, State: toState(vm), Message: toMessage(vm)}
	if len(vm.Zones) > 0 {
		instance.FailureDomain = ptr.Deref(vm.Zones[0], "")
	}
	if vm.Properties != nil && vm.Properties.TimeCreated != nil {
		instance.Created = *vm.Properties.TimeCreated
	}
	if instance.State == driver.Pending || instance.State == driver.Stopping {
		instance.PollAfter = pollInterval
	}
	return instance
}

// toState converts the state of a virtual machine. One without a status was listed: it has run, and needsStatus and notRunning
// do not concern it.
func toState(vm *armcompute.VirtualMachine) driver.State {
	if provisioning(vm) == deleting {
		return driver.Stopping
	}
	switch power(vm) {
	case "running":
		return driver.Running
	case "stopping", "deallocating":
		return driver.Stopping
	case "stopped", "deallocated":
		return driver.Stopped
	case "":
		if provisioning(vm) == failed {
			return driver.Stopped
		}
		if provisioning(vm) == succeeded {
			return driver.Running
		}
	}
	return driver.Pending
}

// toMessage returns what Azure reports about the state: the code of a failure, or that a Spot VM was deallocated.
func toMessage(vm *armcompute.VirtualMachine) string {
	if code := failureCode(vm); code != "" {
		return "Azure reports " + code
	}
	spot := vm.Properties != nil && ptr.Deref(vm.Properties.Priority, "") == armcompute.VirtualMachinePriorityTypesSpot
	if spot && power(vm) == "deallocated" {
		return "Azure evicted the Spot VM, or another user deallocated it; it is not started again"
	}
	return ""
}

func provisioning(vm *armcompute.VirtualMachine) string {
	if vm.Properties == nil {
		return ""
	}
	return ptr.Deref(vm.Properties.ProvisioningState, "")
}

// power returns the power state, and "" for a virtual machine that was never started or whose status was not read.
func power(vm *armcompute.VirtualMachine) string { return statusOf(vm, powerPrefix) }

// failureCode returns why the last operation failed, if it did.
func failureCode(vm *armcompute.VirtualMachine) string { return statusOf(vm, failedPrefix) }

// statusOf returns the rest of the code of the status with a prefix.
func statusOf(vm *armcompute.VirtualMachine, prefix string) string {
	if vm.Properties == nil || vm.Properties.InstanceView == nil {
		return ""
	}
	for _, status := range vm.Properties.InstanceView.Statuses {
		if rest, ok := strings.CutPrefix(ptr.Deref(status.Code, ""), prefix); ok {
			return rest
		}
	}
	return ""
}

// needsStatus reports whether the state of a listed virtual machine follows from its status only.
func needsStatus(vm *armcompute.VirtualMachine) bool {
	state := provisioning(vm)
	return state != succeeded && state != deleting
}

// mayFail reports whether Azure may still find no host for a virtual machine whose status was read, or has found none.
func mayFail(vm *armcompute.VirtualMachine) bool {
	state := provisioning(vm)
	return state != succeeded && state != deleting && (power(vm) == "" || power(vm) == "starting")
}

// toImage converts an image.
func toImage(found request.Image) driver.Image {
	return driver.Image{ID: found.ID, Architecture: request.Architecture(found.Architecture)}
}
