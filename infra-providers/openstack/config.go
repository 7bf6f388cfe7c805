// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package openstack is the driver of OpenStack: a server of Nova with ports and a floating IP of Neutron
// and volumes of Cinder.
//
// The files are the same in every driver: config.go, driver.go, abilities.go, instance.go, errors.go; server.go has the
// steps of a creation, delete.go those of a deletion, and observe.go reads servers. Package access logs in, package
// lookup resolves names, package attachments manages what a server needs and ensures that it is created once, and package
// shortage caches where the cloud has no capacity.
package openstack

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"maps"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/openstack/attachments"
	"drover.io/infra-providers/openstack/lookup"
)

// metadataLimit is the maximum length of a value of Nova's metadata.
const metadataLimit = 255

// userDataLimit is the maximum length of Nova's user data, in base64.
const userDataLimit = 65535

// InstanceConfig is the configuration of one server.
type InstanceConfig struct {
	Spec infrav1.OpenStackMachineSpec
	// Zone is the availability zone; empty means that the cloud chooses it.
	Zone string
	// Pinned is true for the failure domain of a Machine, which no fallback may change.
	Pinned bool
}

// NewInstanceConfig defaults and validates the spec of a machine. It repeats a rule of the API server only where a violation would
// do harm.
func NewInstanceConfig(machine *infrav1.OpenStackMachine, zone string) (InstanceConfig, error) {
	config := InstanceConfig{Spec: *machine.Spec.DeepCopy(), Zone: cmp.Or(zone, machine.Spec.AvailabilityZone), Pinned: zone != ""}
	spec := &config.Spec
	if len(spec.Ports) == 0 || len(spec.Ports) > attachments.MaxPorts {
		return InstanceConfig{}, driver.InvalidField("spec.ports", "a machine has 1 to %d ports, not %d", attachments.MaxPorts, len(spec.Ports))
	}
	for at := range spec.Ports {
		port := &spec.Ports[at]
		if len(port.SecurityGroups) == 0 && !ptr.Deref(port.DisablePortSecurity, false) {
			port.SecurityGroups = spec.SecurityGroups
		}
	}
	if config.Zone == "" && slices.ContainsFunc(volumes(config), func(v infrav1.OpenStackDataVolume) bool { return ptr.Deref(v.InMachineZone, false) }) {
		return InstanceConfig{}, driver.InvalidField("spec.availabilityZone", "a volume has inMachineZone, but the machine has neither a failure domain nor an availabilityZone")
	}
	return config, nil
}

// toAccount returns the account and the region of a machine.
func toAccount(machine *infrav1.OpenStackMachine) driver.Account {
	return driver.Account{SecretName: machine.Spec.CredentialsSecretName, Region: machine.Spec.Region}
}

// toOffering returns what lacks capacity when a server finds no host. A flavor that finds no host under a scheduling rule of
// the user may find one without.
func toOffering(config InstanceConfig) (flavor, zone string) {
	flavor = config.Spec.Flavor
	if group := config.Spec.ServerGroup; group.Group != "" || group.Policy == "affinity" || group.Policy == "anti-affinity" {
		flavor += " in " + cmp.Or(group.Group, group.Policy)
	}
	for _, key := range slices.Sorted(maps.Keys(config.Spec.SchedulerHints)) {
		flavor += " with " + key
	}
	return flavor[:min(len(flavor), metadataLimit)], config.Zone
}

// alternatives returns the configurations of the fallbacks, in their order.
func alternatives(config InstanceConfig) []InstanceConfig {
	var others []InstanceConfig
	seen := map[[2]string]bool{{config.Spec.Flavor, config.Zone}: true}
	for _, fallback := range config.Spec.Fallbacks {
		other := config
		other.Spec.Flavor = cmp.Or(fallback.Flavor, config.Spec.Flavor)
		if !config.Pinned {
			other.Zone = cmp.Or(fallback.AvailabilityZone, config.Zone)
		}
		at := [2]string{other.Spec.Flavor, other.Zone}
		if !seen[at] {
			others = append(others, other)
		}
		seen[at] = true
	}
	return others
}

// volumes returns all volumes of a machine, the root volume first.
func volumes(config InstanceConfig) []infrav1.OpenStackDataVolume {
	var all []infrav1.OpenStackDataVolume
	if config.Spec.RootVolume.SizeGiB > 0 {
		all = append(all, infrav1.OpenStackDataVolume{Name: attachments.Root, OpenStackVolume: config.Spec.RootVolume})
	}
	return append(all, config.Spec.Volumes...)
}

// volumeOptions returns the volumes to create.
func volumeOptions(config InstanceConfig, imageID string) []attachments.Volume {
	var wanted []attachments.Volume
	for _, volume := range volumes(config) {
		want := attachments.Volume{
			Name:    volume.Name,
			SizeGiB: int(volume.SizeGiB),
			Type:    volume.Type,
			Zone:    volume.AvailabilityZone,
			Kept:    !ptr.Deref(volume.DeleteOnTermination, true),
		}
		if ptr.Deref(volume.InMachineZone, false) {
			want.Zone = config.Zone
		}
		if volume.Name == attachments.Root {
			want.ImageID = imageID
		}
		wanted = append(wanted, want)
	}
	return wanted
}

// parts are the ports, the volumes and the user data of a server.
type parts struct {
	ports    []ports.Port
	disks    []string
	userData []byte
}

// serverOptions returns the options of the creation of a server.
func serverOptions(req driver.CreateRequest[InstanceConfig], plan lookup.Plan, of parts) (servers.CreateOpts, servers.SchedulerHintOpts) {
	config, id := req.Config, req.Identity
	options := servers.CreateOpts{
		Name:             id.Name,
		FlavorRef:        plan.Flavor.ID,
		ImageRef:         plan.Image.ID,
		AvailabilityZone: config.Zone,
		UserData:         of.userData,
		Metadata:         metadata(config, id),
		Tags:             append([]string{attachments.NamePrefix, attachments.Name(id.UID)}, config.Spec.Tags...),
		ConfigDrive:      config.Spec.ConfigDrive,
		BlockDevice:      blockDevices(config, plan.Image.ID, of.disks),
	}
	if config.Spec.RootVolume.SizeGiB > 0 {
		options.ImageRef = ""
	}
	var networks []servers.Network
	for _, port := range of.ports {
		networks = append(networks, servers.Network{Port: port.ID})
	}
	options.Networks = networks
	hints := servers.SchedulerHintOpts{Group: plan.GroupID, AdditionalProperties: map[string]any{}}
	for key, value := range config.Spec.SchedulerHints {
		hints.AdditionalProperties[key] = value
	}
	return options, hints
}

// metadata returns the metadata of the user, the ownership tags, and the flavor and the zone of the request.
func metadata(config InstanceConfig, id driver.Identity) map[string]string {
	all := map[string]string{}
	maps.Copy(all, config.Spec.Metadata)
	maps.Copy(all, attachments.Tags(id))
	all[flavorKey], all[zoneKey] = toOffering(config)
	if config.Spec.ServerGroup.Policy != "" {
		all[groupKey] = string(id.Owner.UID)
	}
	return all
}

// blockDevices returns the disks of a server: the root disk, on a volume or on the host, and the other volumes.
func blockDevices(config InstanceConfig, imageID string, disks []string) []servers.BlockDevice {
	if len(disks) == 0 {
		return nil
	}
	var all []servers.BlockDevice
	if config.Spec.RootVolume.SizeGiB == 0 {
		all = append(all, servers.BlockDevice{SourceType: servers.SourceImage, UUID: imageID, DestinationType: servers.DestinationLocal, DeleteOnTermination: true})
	}
	for at, volume := range volumeOptions(config, imageID) {
		device := servers.BlockDevice{SourceType: servers.SourceVolume, DestinationType: servers.DestinationVolume, UUID: disks[at], BootIndex: -1, DeleteOnTermination: !volume.Kept}
		if volume.Name == attachments.Root {
			device.BootIndex = 0
		}
		all = append(all, device)
	}
	return all
}

// encodeUserData encodes user data in base64. Data that is too long is compressed for cloud-init, which decompresses gzip.
// Ignition does not.
func encodeUserData(data []byte, format string) ([]byte, error) {
	encoded := []byte(base64.StdEncoding.EncodeToString(data))
	if len(encoded) <= userDataLimit {
		return encoded, nil
	}
	if format == "" || format == "cloud-config" {
		var compressed bytes.Buffer
		// A write to a buffer cannot fail.
		writer := gzip.NewWriter(&compressed)
		_, _ = writer.Write(data)
		_ = writer.Close()
		encoded = []byte(base64.StdEncoding.EncodeToString(compressed.Bytes()))
	}
	if len(encoded) > userDataLimit {
		return nil, driver.NeverValid("bootstrap data", "the user data has %d characters in base64, and Nova accepts %d: download the rest during the bootstrap", len(encoded), userDataLimit)
	}
	return encoded, nil
}
