// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package hetzner is the driver of Hetzner Cloud. A machine is a server with the machine's name. Names
// are unique in a project, so it is created once; labels identify its owner.
//
// The files are the same in every driver: config.go, driver.go, abilities.go, instance.go, errors.go; server.go has the
// steps of a creation. Package catalog finds what a spec names, package volume manages the volumes of a server, and
// package inflight records requests without an answer.
package hetzner

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net"
	"slices"
	"unicode/utf8"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

const (
	// maxUserData is the maximum size of user data, in bytes.
	maxUserData = 32 << 10
	// maxName is the maximum length of a host name, and of the value of a label.
	maxName = 63
)

// InstanceConfig is the configuration of one server.
type InstanceConfig struct {
	ServerType string
	// Location is empty where the cloud chooses.
	Location               string
	Image, ImageSelector   string
	SSHKeys, Firewalls     []string
	Networks               []infrav1.HetznerNetwork
	PublicIPv4, PublicIPv6 infrav1.HetznerPublicIP
	PlacementGroup         string
	PlacementGroupSelector string
	Volumes                []infrav1.HetznerVolume
	Backups                bool
	Labels                 map[string]string
	Fallbacks              []infrav1.HetznerFallback
}

// NewInstanceConfig decodes, defaults and validates the spec of a machine.
func NewInstanceConfig(machine *infrav1.HetznerMachine, zone string) (InstanceConfig, error) {
	spec := machine.Spec.DeepCopy()
	config := InstanceConfig{
		ServerType:             spec.ServerType,
		Location:               cmp.Or(zone, spec.Location),
		Image:                  spec.Image,
		ImageSelector:          spec.ImageSelector,
		SSHKeys:                spec.SSHKeys,
		Firewalls:              spec.Firewalls,
		Networks:               spec.Networks,
		PublicIPv4:             spec.PublicIPv4,
		PublicIPv6:             spec.PublicIPv6,
		PlacementGroup:         spec.PlacementGroup,
		PlacementGroupSelector: spec.PlacementGroupSelector,
		Volumes:                spec.Volumes,
		Backups:                ptr.Deref(spec.Backups, false),
		Labels:                 spec.Labels,
		Fallbacks:              fallbacksInZone(spec.Fallbacks, zone),
	}
	if len(machine.Name) > maxName {
		return InstanceConfig{}, driver.InvalidField("metadata.name", "a server's name has %d characters at most, this one has %d", maxName, len(machine.Name))
	}
	for _, check := range []func(InstanceConfig) error{checkImage, checkNetworks, checkVolumes, checkLabels} {
		if err := check(config); err != nil {
			return InstanceConfig{}, err
		}
	}
	return config, nil
}

// fallbacksInZone returns the fallbacks in the failure domain of the Machine, or all of them if it has none.
func fallbacksInZone(fallbacks []infrav1.HetznerFallback, zone string) []infrav1.HetznerFallback {
	return slices.DeleteFunc(fallbacks, func(f infrav1.HetznerFallback) bool {
		return zone != "" && f.Location != "" && f.Location != zone
	})
}

// toAccount returns the account of a machine.
func toAccount(machine *infrav1.HetznerMachine) driver.Account {
	return driver.Account{SecretName: machine.Spec.CredentialsSecretName}
}

// alternatives returns the configurations of the fallbacks, in their order.
func alternatives(config InstanceConfig) []InstanceConfig {
	var all []InstanceConfig
	for _, fallback := range config.Fallbacks {
		other := config
		other.ServerType = cmp.Or(fallback.ServerType, config.ServerType)
		other.Location = cmp.Or(fallback.Location, config.Location)
		other.Fallbacks = nil
		all = append(all, other)
	}
	return all
}

// toOffering returns the server type and the location, which may lack capacity.
func toOffering(config InstanceConfig) (instanceType, zone string) {
	return config.ServerType, config.Location
}

func checkImage(config InstanceConfig) error {
	if (config.Image == "") == (config.ImageSelector == "") {
		return driver.InvalidField("spec.image", "set exactly one of image and imageSelector")
	}
	return nil
}

func checkNetworks(config InstanceConfig) error {
	if !isEnabled(config.PublicIPv4) && !isEnabled(config.PublicIPv6) && len(config.Networks) == 0 {
		return driver.InvalidField("spec.networks", "a server without a public address needs a network")
	}
	for i, network := range config.Networks {
		if _, err := attachOptions(network); err != nil {
			return driver.InvalidField(fmt.Sprintf("spec.networks[%d]", i), "%w", err)
		}
	}
	return nil
}

func checkVolumes(config InstanceConfig) error {
	if len(config.Volumes) > 0 && config.Location == "" {
		return driver.InvalidField("spec.location", "volumes need a location: set it, or the Machine's failure domain")
	}
	return nil
}

func checkLabels(config InstanceConfig) error {
	all := map[string]any{}
	for key, value := range config.Labels {
		all[key] = value
	}
	if _, err := hcloud.ValidateResourceLabels(all); err != nil {
		return driver.InvalidField("spec.labels", "%w", err)
	}
	return nil
}

func isEnabled(ip infrav1.HetznerPublicIP) bool { return ptr.Deref(ip.Enabled, true) }

// attachOptions returns the options of a network that the API accepts only for an existing server.
func attachOptions(network infrav1.HetznerNetwork) (opts hcloud.ServerAttachToNetworkOpts, err error) {
	if network.Subnet != "" {
		if _, opts.IPRange, err = net.ParseCIDR(network.Subnet); err != nil {
			return opts, fmt.Errorf("subnet: %w", err)
		}
	}
	if network.IP != "" {
		if opts.IP = net.ParseIP(network.IP); opts.IP == nil {
			return opts, fmt.Errorf("ip: %q is not an address", network.IP)
		}
	}
	for _, alias := range network.AliasIPs {
		ip := net.ParseIP(alias)
		if ip == nil {
			return opts, fmt.Errorf("aliasIPs: %q is not an address", alias)
		}
		opts.AliasIPs = append(opts.AliasIPs, ip)
	}
	return opts, nil
}

// needsAttachment reports whether a network has to be attached after the creation of the server, because the spec sets
// more than the network.
func needsAttachment(network infrav1.HetznerNetwork) bool {
	return network.Subnet != "" || network.IP != "" || len(network.AliasIPs) > 0
}

// networksAtCreation returns the names of the networks that the creation of the server attaches.
func networksAtCreation(networks []infrav1.HetznerNetwork) (names []string) {
	for _, network := range networks {
		if !needsAttachment(network) {
			names = append(names, network.Name)
		}
	}
	return names
}

// startsAfterAttachment reports whether the server must not start before it is attached to all of its networks.
func startsAfterAttachment(config InstanceConfig) bool {
	return slices.ContainsFunc(config.Networks, needsAttachment)
}

// toSelector returns the label selector of what belongs to an owner, or of everything that Drover created.
func toSelector(owner driver.Owner) string {
	switch {
	case owner.UID != "":
		return driver.TagMachineUID + "," + driver.TagClusterUID + "==" + string(owner.UID)
	case owner.Name != "":
		return fmt.Sprintf("%s,%s==%s,%s==%s", driver.TagMachineUID, driver.TagCluster, owner.Name, driver.TagClusterNamespace, owner.Namespace)
	default:
		return driver.TagMachineUID
	}
}

// encodeUserData returns user data as text of a limited size, which the API requires. Cloud-init on Hetzner Cloud
// decodes base64 and gzip, Ignition does not.
func encodeUserData(userData []byte, format string) (string, error) {
	if len(userData) <= maxUserData && utf8.Valid(userData) {
		return string(userData), nil
	}
	if format == "ignition" {
		return "", driver.NeverValid(bootstrapField, "Hetzner Cloud accepts %d bytes of text, the Ignition config has %d", maxUserData, len(userData))
	}
	compressed := userData
	if utf8.Valid(userData) {
		compressed = driver.Compress(userData)
	}
	encoded := base64.StdEncoding.EncodeToString(compressed)
	if len(encoded) > maxUserData {
		return "", driver.NeverValid(bootstrapField, "Hetzner Cloud accepts %d bytes, the bootstrap data has %d, and %d compressed as base64", maxUserData, len(userData), len(encoded))
	}
	return encoded, nil
}

// bootstrapField is the field of the Machine that names the bootstrap data.
const bootstrapField = "spec.bootstrap.dataSecretName"
