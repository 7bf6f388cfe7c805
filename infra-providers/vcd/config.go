// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package vcd is the driver of VMware Cloud Director. One machine is one virtual machine that a recomposition adds to a vApp
// that exists, under a name that derives from the machine's UID; names are unique in a vApp. It is then configured, marked with
// metadata and started, one task at a time.
//
// The files are the same in every driver: config.go, driver.go, abilities.go, instance.go, errors.go. create.go and delete.go
// have the steps of a creation and a deletion, request.go the documents that they send, lookup.go the names of a spec,
// credentials.go, session.go and client.go the calls.
package vcd

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// InstanceConfig is the configuration of one virtual machine.
type InstanceConfig struct {
	// Spec is the machine's, with its defaults.
	Spec infrav1.VCDMachineSpec
	// Zone is the failure domain of the Machine, which is the name of a placement policy.
	Zone string
}

// The modes in which addresses are allocated.
const (
	modeDHCP   = "DHCP"
	modePool   = "POOL"
	modeManual = "MANUAL"
)

// maxDescription is how many characters the description of a virtual machine may have.
const maxDescription = 256

// NewInstanceConfig defaults the spec of a machine. The schema's rules have validated it.
func NewInstanceConfig(machine *infrav1.VCDMachine, zone string) (InstanceConfig, error) {
	spec := *machine.Spec.DeepCopy()
	if spec.VApp == "" || spec.VDC == "" {
		return InstanceConfig{}, driver.InvalidField("spec.vApp", "vdc and vApp must be set")
	}
	if zone != "" {
		spec.PlacementPolicy = zone
	}
	customized := false
	for n := range spec.Networks {
		network := &spec.Networks[n]
		if network.IPAllocationMode == "" {
			network.IPAllocationMode = modeDHCP
		}
		if network.AdapterType == "" {
			network.AdapterType = "VMXNET3"
		}
		customized = customized || network.IPAllocationMode == modePool || network.IPAllocationMode == modeManual
	}
	if spec.GuestCustomization == nil {
		spec.GuestCustomization = ptr.To(customized)
	}
	return InstanceConfig{Spec: spec, Zone: zone}, nil
}

// toAccount returns the account of a machine. A vApp is a part of it, because absence is proven by reading the vApp.
func toAccount(machine *infrav1.VCDMachine) driver.Account {
	return driver.Account{SecretName: machine.Spec.CredentialsSecretName, Region: machine.Spec.VDC + "/" + machine.Spec.VApp}
}

// toOffering returns what may lack capacity: a size, in a placement policy.
func toOffering(config InstanceConfig) (instanceType, zone string) {
	spec := config.Spec
	if spec.CPUs == 0 {
		return spec.SizingPolicy, spec.PlacementPolicy
	}
	return fmt.Sprintf("%dcpu-%dMiB", spec.CPUs, spec.MemoryMB), spec.PlacementPolicy
}

// namePrefix begins the names of all virtual machines of Drover.
const namePrefix = "drover-"

// uidPattern is what a UID may be.
var uidPattern = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z-]{0,63}$`)

// vmName returns the name of the virtual machine of a UID; empty for a UID that no machine has.
func vmName(uid types.UID) string {
	if !uidPattern.MatchString(string(uid)) {
		return ""
	}
	return namePrefix + string(uid)
}

// describe returns the description with which a virtual machine is created, which identifies it until it has its metadata.
func describe(id driver.Identity) (string, error) {
	if vmName(id.UID) == "" {
		return "", driver.NeverValid("metadata.uid", "%q is not the UID of an object", id.UID)
	}
	text := strings.Join([]string{"drover.io", id.Owner.Namespace, id.Name, id.Owner.Name, string(id.Owner.UID)}, " ")
	if len(text) > maxDescription {
		return "", driver.NeverValid("metadata.name",
			"the names of the machine, its namespace and its Cluster have %d characters with the UID of the Cluster, and the description of a virtual machine has %d at most", len(text), maxDescription)
	}
	return text, nil
}

// parseDescription returns the identity that a name and a description have; the zero Identity if they have none.
func parseDescription(name, description string) driver.Identity {
	parts := strings.Split(description, " ")
	uid := types.UID(strings.TrimPrefix(name, namePrefix))
	if len(parts) != 5 || parts[0] != "drover.io" || vmName(uid) != name {
		return driver.Identity{}
	}
	return driver.Identity{UID: uid, Name: parts[2], Owner: driver.Owner{Namespace: parts[1], Name: parts[3], UID: types.UID(parts[4])}}
}
