// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"

	"drover.io/infra-providers/driver"
)

// NewVirtualMachine returns the VirtualMachine of a request, whose Secret has a UID.
func NewVirtualMachine(req driver.CreateRequest[InstanceConfig], namespace string, secret types.UID) *virtv1.VirtualMachine {
	owner := newSecret(req.Identity, namespace, req.UserData)
	owner.UID = secret
	vm := newVirtualMachine(req, owner)
	vm.SetGroupVersionKind(virtv1.VirtualMachineGroupVersionKind)
	return vm
}
