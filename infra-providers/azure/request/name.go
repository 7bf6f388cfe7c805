// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

var uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// Name returns the name of the network interface, the public address and the OS disk of a machine. It derives from the UID
// alone, so that each is found by a direct read.
func Name(uid types.UID) string {
	if uuidPattern.MatchString(string(uid)) {
		return "drover-" + string(uid)
	}
	sum := sha256.Sum256([]byte(uid)) // the author of a machine may have chosen it
	return "drover-" + hex.EncodeToString(sum[:18])
}

// dataDiskName returns the name of a data disk of a machine.
func dataDiskName(uid types.UID, name string) string { return Name(uid) + "-" + name }

// Last returns the last part of a resource ID, which is the name of the resource.
func Last(id string) string { return id[strings.LastIndex(id, "/")+1:] }

// Place is where resources are.
type Place struct{ Subscription, ResourceGroup string }

// ID returns the ID of a resource.
func (p Place) ID(kind, name string) string {
	return "/subscriptions/" + p.Subscription + "/resourceGroups/" + p.ResourceGroup + "/providers/" + kind + "/" + name
}

// The kinds of resources.
const (
	VirtualMachines   = "Microsoft.Compute/virtualMachines"
	NetworkInterfaces = "Microsoft.Network/networkInterfaces"
	PublicIPAddresses = "Microsoft.Network/publicIPAddresses"
)

var virtualMachinePattern = regexp.MustCompile(`(?i)^/subscriptions/([^/]+)/resourceGroups/([^/]+)/providers/` + regexp.QuoteMeta(VirtualMachines) + `/([-\w.]{1,80})$`)

// VirtualMachine returns the name of the virtual machine of an ID; ok is false for one that is elsewhere. IDs are the same in
// any case.
func (p Place) VirtualMachine(id string) (name string, ok bool) {
	parts := virtualMachinePattern.FindStringSubmatch(id)
	if parts == nil || !strings.EqualFold(parts[1], p.Subscription) || !strings.EqualFold(parts[2], p.ResourceGroup) {
		return "", false
	}
	return parts[3], true
}

// ProviderID is the one that the cloud controller manager of Azure writes into the Node.
func (p Place) ProviderID(name string) string {
	lower := Place{strings.ToLower(p.Subscription), strings.ToLower(p.ResourceGroup)}
	return "azure://" + lower.ID(VirtualMachines, name)
}
