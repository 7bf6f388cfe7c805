// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package openstack is the driver of OpenStack: a server of Nova with ports and a floating IP of Neutron
// and volumes of Cinder.
//
// The four files are the same in every cloud: config.go, driver.go, instance.go, errors.go. Package access
// logs in, package lookup resolves names, package beside keeps what a server needs beside itself and holds
// the proof that a server is made once.
package openstack

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"fmt"
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

// metadataLimit is how long Nova lets a value of the metadata be.
const metadataLimit = 255

// userDataLimit is how long Nova lets the user data be, in base64.
const userDataLimit = 65535

// Config is what OpenStack is asked for.
type Config struct {
	Spec infrav1.OpenStackMachineSpec
	// Zone is the availability zone; empty leaves it to the cloud.
	Zone string
	// Pinned is true for a zone that the Machine was given, which no fallback may change.
	Pinned bool
}

// NewConfig defaults and validates the spec of a machine. What the API server's rules refuse is refused
// here too only where it would do harm.
func NewConfig(machine *infrav1.OpenStackMachine, zone string) (Config, error) {
	config := Config{Spec: *machine.Spec.DeepCopy(), Zone: cmp.Or(zone, machine.Spec.AvailabilityZone), Pinned: zone != ""}
	spec := &config.Spec
	if len(spec.Ports) == 0 || len(spec.Ports) > attachments.MaxPorts {
		return Config{}, &driver.InvalidConfigurationError{Field: "spec.ports", Err: fmt.Errorf("a machine has 1 to %d ports, not %d", attachments.MaxPorts, len(spec.Ports))}
	}
	for at := range spec.Ports {
		port := &spec.Ports[at]
		if len(port.SecurityGroups) == 0 && !ptr.Deref(port.DisablePortSecurity, false) {
			port.SecurityGroups = spec.SecurityGroups
		}
	}
	if config.Zone == "" && slices.ContainsFunc(volumes(config), func(v infrav1.OpenStackDataVolume) bool { return ptr.Deref(v.InMachineZone, false) }) {
		return Config{}, &driver.InvalidConfigurationError{Field: "spec.availabilityZone", Err: fmt.Errorf("a volume is wanted in the machine's zone, but the machine has neither a failure domain nor an availabilityZone")}
	}
	return config, nil
}

// place is what is short when the cloud has no room. A flavor that finds no host under a rule of the user's
// own may find one without.
func place(config Config) (flavor, zone string) {
	flavor = config.Spec.Flavor
	if group := config.Spec.ServerGroup; group.Group != "" || group.Policy == "affinity" || group.Policy == "anti-affinity" {
		flavor += " in " + cmp.Or(group.Group, group.Policy)
	}
	for _, key := range slices.Sorted(maps.Keys(config.Spec.SchedulerHints)) {
		flavor += " with " + key
	}
	return flavor[:min(len(flavor), metadataLimit)], config.Zone
}

// alternatives are what to ask for instead, in order.
func alternatives(config Config) []Config {
	var others []Config
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

// volumes are all volumes of a machine, the root first.
func volumes(config Config) []infrav1.OpenStackDataVolume {
	var all []infrav1.OpenStackDataVolume
	if config.Spec.RootVolume.SizeGiB > 0 {
		all = append(all, infrav1.OpenStackDataVolume{Name: attachments.Root, OpenStackVolume: config.Spec.RootVolume})
	}
	return append(all, config.Spec.Volumes...)
}

// wantedVolumes are the volumes as Cinder is asked for them.
func wantedVolumes(config Config, imageID string) []attachments.Volume {
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

// parts are what a server is made of.
type parts struct {
	ports    []ports.Port
	disks    []string
	userData []byte
}

// wantedServer is the server as Nova is asked for it.
func wantedServer(req driver.Request[Config], plan lookup.Plan, of parts) (servers.CreateOpts, servers.SchedulerHintOpts) {
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

// metadata says whose the server is and what was asked for.
func metadata(config Config, id driver.Identity) map[string]string {
	all := map[string]string{}
	maps.Copy(all, config.Spec.Metadata)
	maps.Copy(all, attachments.Tags(id))
	all[flavorKey], all[zoneKey] = place(config)
	if config.Spec.ServerGroup.Policy != "" {
		all[groupKey] = string(id.Owner.UID)
	}
	return all
}

// blockDevices are the disks of a server: the root, on a volume or on the host, and the volumes besides.
func blockDevices(config Config, imageID string, disks []string) []servers.BlockDevice {
	if len(disks) == 0 {
		return nil
	}
	var all []servers.BlockDevice
	if config.Spec.RootVolume.SizeGiB == 0 {
		all = append(all, servers.BlockDevice{SourceType: servers.SourceImage, UUID: imageID, DestinationType: servers.DestinationLocal, DeleteOnTermination: true})
	}
	for at, volume := range wantedVolumes(config, imageID) {
		device := servers.BlockDevice{SourceType: servers.SourceVolume, DestinationType: servers.DestinationVolume, UUID: disks[at], BootIndex: -1, DeleteOnTermination: !volume.Kept}
		if volume.Name == attachments.Root {
			device.BootIndex = 0
		}
		all = append(all, device)
	}
	return all
}

// userData is the user data as Nova takes it: in base64, and compressed where it would be too long
// otherwise and the reader can take it. Cloud-init does, Ignition does not.
func userData(data []byte, format string) ([]byte, error) {
	encoded := []byte(base64.StdEncoding.EncodeToString(data))
	if len(encoded) <= userDataLimit {
		return encoded, nil
	}
	if format == "" || format == "cloud-config" {
		var small bytes.Buffer
		// Writing into a buffer cannot fail.
		writer := gzip.NewWriter(&small)
		_, _ = writer.Write(data)
		_ = writer.Close()
		encoded = []byte(base64.StdEncoding.EncodeToString(small.Bytes()))
	}
	if len(encoded) > userDataLimit {
		return nil, &driver.InvalidConfigurationError{Field: "bootstrap data", Err: fmt.Errorf("the user data has %d characters in base64, and Nova takes %d: let it fetch the rest from elsewhere", len(encoded), userDataLimit)}
	}
	return encoded, nil
}
