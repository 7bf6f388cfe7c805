// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package anexia is the driver of the Dynamic Compute of the Anexia Engine. A machine is a virtual machine. The cloud
// has no tags that a creation sets, no idempotency token and no unique names, and it names a virtual machine only minutes after it was
// requested. So the host name of a virtual machine is made from its machine's identity, and what was requested is in the
// journal of the machine: see name.go and journal.go.
//
// The files are the same in every driver: config.go, driver.go, abilities.go, instance.go, errors.go; create.go and delete.go
// have the steps of a creation and a deletion, client.go the requests.
package anexia

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

const (
	// maxUserData is the maximum size of user data, in bytes. The cloud publishes none.
	maxUserData = 64 << 10
	// bootstrapField is the field of the Machine that names the bootstrap data.
	bootstrapField = "spec.bootstrap.dataSecretName"
	// cloudConfig is the only format that is passed on: it is not known which templates read Ignition.
	cloudConfig = "cloud-config"
	// defaultNIC is the type of an interface whose type is not given.
	defaultNIC = "virtio"
)

// InstanceConfig is the configuration of one virtual machine.
type InstanceConfig struct {
	Spec infrav1.AnexiaMachineSpec
	// Zone is the identifier of the availability zone; empty leaves the choice to the cloud.
	Zone string
}

// NewInstanceConfig decodes, defaults and validates the spec of a machine.
func NewInstanceConfig(machine *infrav1.AnexiaMachine, zone string) (InstanceConfig, error) {
	spec := *machine.Spec.DeepCopy()
	config := InstanceConfig{Spec: spec, Zone: cmp.Or(zone, spec.AvailabilityZoneID)}
	switch {
	case len(spec.Networks) == 0 || len(spec.Disks) == 0:
		return InstanceConfig{}, driver.InvalidField("spec", "it needs networks and disks")
	case (spec.Template == "") == (spec.TemplateID == ""):
		return InstanceConfig{}, driver.InvalidField("spec.template", "set exactly one of template and templateID")
	}
	for i, disk := range spec.Disks[1:] {
		if disk.PerformanceType == "" {
			return InstanceConfig{}, driver.InvalidField(fmt.Sprintf("spec.disks[%d].performanceType", i+1), "only the first disk has a default")
		}
	}
	if len(addressesOf(config)) == 0 {
		return InstanceConfig{}, driver.InvalidField("spec.networks", "at least one network must reserve an address")
	}
	return config, nil
}

// toAccount returns the account of a machine. The cloud does not name its accounts, so it is the one that the VLAN belongs to.
func toAccount(machine *infrav1.AnexiaMachine) driver.Account {
	account := driver.Account{SecretName: machine.Spec.CredentialsSecretName}
	if len(machine.Spec.Networks) > 0 {
		account.Region = machine.Spec.Networks[0].VLANID
	}
	return account
}

// addressesOf returns the addresses that a virtual machine needs.
func addressesOf(config InstanceConfig) (needed []address) {
	for i, network := range config.Spec.Networks {
		if !ptr.Deref(network.ReserveAddress, true) {
			continue
		}
		prefixes := network.PrefixIDs
		if len(prefixes) == 0 {
			prefixes = []string{""}
		}
		for _, prefix := range prefixes {
			needed = append(needed, address{Network: i, Prefix: prefix})
		}
	}
	return needed
}

// newProvision returns the request for a virtual machine with addresses that are reserved.
func newProvision(req driver.CreateRequest[InstanceConfig], host string, reserved []address) (provision, error) {
	spec := req.Config.Spec
	body := provision{
		Hostname:           host,
		MemoryMB:           spec.MemoryMB,
		CPUs:               spec.CPUs,
		Sockets:            spec.Sockets,
		CPUPerformanceType: spec.CPUPerformanceType,
		AvailabilityZone:   req.Config.Zone,
		DiskGB:             spec.Disks[0].SizeGB,
		DiskType:           spec.Disks[0].PerformanceType,
		SSH:                spec.SSHPublicKey,
		Script:             base64.StdEncoding.EncodeToString(req.UserData),
	}
	for _, disk := range spec.Disks[1:] {
		body.AdditionalDisks = append(body.AdditionalDisks, additionalDisk{GB: disk.SizeGB, Type: disk.PerformanceType})
	}
	for _, network := range spec.Networks {
		body.Network = append(body.Network, nic{NICType: cmp.Or(network.NICType, defaultNIC), VLAN: network.VLANID, BandwidthLimit: network.BandwidthLimit})
	}
	for _, used := range reserved {
		body.Network[used.Network].IPs = append(body.Network[used.Network].IPs, used.IP)
	}
	for i, server := range spec.DNSServers {
		*[...]*string{&body.DNS1, &body.DNS2, &body.DNS3, &body.DNS4}[i] = server
	}
	if body.SSH == "" {
		key, err := unusableKey()
		if err != nil {
			return provision{}, err
		}
		body.SSH = key
	}
	return body, nil
}

// unusableKey returns a public key whose private half is forgotten: without a key the cloud sets a password.
func unusableKey() (string, error) {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", fmt.Errorf("making an SSH key: %w", err)
	}
	const keyType = "ssh-ed25519"
	var wire []byte
	for _, part := range [][]byte{[]byte(keyType), public} {
		wire = binary.BigEndian.AppendUint32(wire, uint32(len(part)))
		wire = append(wire, part...)
	}
	return keyType + " " + base64.StdEncoding.EncodeToString(wire), nil
}

// checkRequest refuses what no virtual machine can be created with.
func checkRequest(req driver.CreateRequest[InstanceConfig]) error {
	if req.Format != cloudConfig {
		return driver.NeverValid(bootstrapField, "only cloud-config is passed on, and the bootstrap data is %s", req.Format)
	}
	if len(req.UserData) > maxUserData {
		return driver.NeverValid(bootstrapField, "user data may have %d bytes, and has %d", maxUserData, len(req.UserData))
	}
	return nil
}
