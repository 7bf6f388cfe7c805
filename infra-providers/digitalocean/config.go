// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package digitalocean is the driver of DigitalOcean. A machine is a Droplet with the machine's name. Tags identify its
// owner. The cloud has no idempotency token and no unique names of Droplets, so an SSH key, whose fingerprint is unique,
// is the claim under which a Droplet is created once: see package claim.
//
// The files are the same in every driver: config.go, driver.go, abilities.go, instance.go, errors.go; create.go and delete.go
// have the steps of a creation and a deletion, refusal.go finds the reason of a refused creation. Package catalog finds what a
// spec names, package tag has the tags, package volume the volumes.
package digitalocean

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

const (
	// maxUserData is the maximum size of user data, in bytes.
	maxUserData = 64 << 10
	// maxName is the maximum length of a host name.
	maxName = 63
	// bootstrapField is the field of the Machine that names the bootstrap data.
	bootstrapField = "spec.bootstrap.dataSecretName"
)

// InstanceConfig is the configuration of one Droplet.
type InstanceConfig struct {
	Size, Region     string
	Image, ImageName string
	SSHKeys          []string
	VPCUUID          string
	PublicNetworking bool
	IPv6             bool
	ReservedIP       bool
	Monitoring       bool
	// DropletAgent is nil where the cloud decides.
	DropletAgent *bool
	Backups      bool
	BackupPolicy infrav1.DigitalOceanBackupPolicy
	Volumes      []infrav1.DigitalOceanVolume
	Tags         []string
	Fallbacks    []infrav1.DigitalOceanFallback
}

// NewInstanceConfig decodes, defaults and validates the spec of a machine.
func NewInstanceConfig(machine *infrav1.DigitalOceanMachine, zone string) (InstanceConfig, error) {
	spec := machine.Spec.DeepCopy()
	config := InstanceConfig{
		Size:             spec.Size,
		Region:           cmp.Or(zone, spec.Region),
		Image:            spec.Image,
		ImageName:        spec.ImageName,
		SSHKeys:          spec.SSHKeys,
		VPCUUID:          spec.VPCUUID,
		PublicNetworking: ptr.Deref(spec.PublicNetworking, true),
		IPv6:             ptr.Deref(spec.IPv6, false),
		ReservedIP:       ptr.Deref(spec.ReservedIP, false),
		Monitoring:       ptr.Deref(spec.Monitoring, false),
		DropletAgent:     spec.DropletAgent,
		Backups:          ptr.Deref(spec.Backups, false),
		BackupPolicy:     spec.BackupPolicy,
		Volumes:          spec.Volumes,
		Tags:             spec.Tags,
		Fallbacks:        fallbacksInZone(spec.Fallbacks, zone),
	}
	switch {
	case len(machine.Name) > maxName:
		return InstanceConfig{}, driver.InvalidField("metadata.name", "a host name has %d characters at most, this one has %d", maxName, len(machine.Name))
	case config.Region == "":
		return InstanceConfig{}, driver.InvalidField("spec.region", "set it, or the Machine's failure domain")
	case (config.Image == "") == (config.ImageName == ""):
		return InstanceConfig{}, driver.InvalidField("spec.image", "set exactly one of image and imageName")
	case !config.PublicNetworking && (config.IPv6 || config.ReservedIP):
		return InstanceConfig{}, driver.InvalidField("spec.publicNetworking", "ipv6 and reservedIP need it")
	}
	return config, nil
}

// fallbacksInZone returns the fallbacks in the failure domain of the Machine, or all of them if it has none.
func fallbacksInZone(fallbacks []infrav1.DigitalOceanFallback, zone string) []infrav1.DigitalOceanFallback {
	return slices.DeleteFunc(fallbacks, func(f infrav1.DigitalOceanFallback) bool {
		return zone != "" && f.Region != "" && f.Region != zone
	})
}

// toAccount returns the account of a machine.
func toAccount(machine *infrav1.DigitalOceanMachine) driver.Account {
	return driver.Account{SecretName: machine.Spec.CredentialsSecretName}
}

// alternatives returns the configurations of the fallbacks, in their order.
func alternatives(config InstanceConfig) []InstanceConfig {
	var all []InstanceConfig
	for _, fallback := range config.Fallbacks {
		other := config
		other.Size = cmp.Or(fallback.Size, config.Size)
		other.Region = cmp.Or(fallback.Region, config.Region)
		other.Fallbacks = nil
		all = append(all, other)
	}
	return all
}

// toOffering returns the size and the region, which may lack capacity.
func toOffering(config InstanceConfig) (instanceType, zone string) { return config.Size, config.Region }

// checkUserData refuses what the API does not take: anything but text, and more than 64 KiB of it.
func checkUserData(userData []byte) error {
	if !utf8.Valid(userData) {
		return driver.NeverValid(bootstrapField, "DigitalOcean accepts plain text, the bootstrap data is not UTF-8")
	}
	if len(userData) > maxUserData {
		return driver.NeverValid(bootstrapField, "DigitalOcean accepts %d bytes, the bootstrap data has %d", maxUserData, len(userData))
	}
	return nil
}
