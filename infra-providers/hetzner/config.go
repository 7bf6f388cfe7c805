// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package hetzner is the driver of Hetzner Cloud. A machine is a server whose name is the machine's, which
// the project keeps unique, so it is made once; labels say whose it is.
//
// The four files are the same in every cloud: config.go, driver.go, instance.go, errors.go. Package catalog
// finds what a spec names, package volume keeps the volumes beside a server.
package hetzner

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"errors"
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
	// maxUserData is what the cloud takes, in bytes.
	maxUserData = 32 << 10
	// maxName is the longest host name, and the longest value of a label.
	maxName = 63
)

// Config is what Hetzner Cloud is asked for.
type Config struct {
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

// NewConfig decodes, defaults and validates the spec of a machine.
func NewConfig(machine *infrav1.HetznerMachine, zone string) (Config, error) {
	spec := machine.Spec.DeepCopy()
	config := Config{
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
		Fallbacks:              reachable(spec.Fallbacks, zone),
	}
	if len(machine.Name) > maxName {
		return Config{}, invalid("metadata.name", "a server's name has %d characters at most, this one has %d", maxName, len(machine.Name))
	}
	for _, check := range []func(Config) error{checkImage, checkNetworks, checkVolumes, checkLabels} {
		if err := check(config); err != nil {
			return Config{}, err
		}
	}
	return config, nil
}

// reachable are the fallbacks that stay in the zone that a Machine was given, if it was given one.
func reachable(fallbacks []infrav1.HetznerFallback, zone string) []infrav1.HetznerFallback {
	return slices.DeleteFunc(fallbacks, func(f infrav1.HetznerFallback) bool {
		return zone != "" && f.Location != "" && f.Location != zone
	})
}

// alternatives are what to ask for, in this order, where there is no room for a configuration.
func alternatives(config Config) []Config {
	var all []Config
	for _, fallback := range config.Fallbacks {
		other := config
		other.ServerType = cmp.Or(fallback.ServerType, config.ServerType)
		other.Location = cmp.Or(fallback.Location, config.Location)
		other.Fallbacks = nil
		all = append(all, other)
	}
	return all
}

// place is what may be short.
func place(config Config) (instanceType, zone string) { return config.ServerType, config.Location }

func checkImage(config Config) error {
	if (config.Image == "") == (config.ImageSelector == "") {
		return invalid("spec.image", "set exactly one of image and imageSelector")
	}
	return nil
}

func checkNetworks(config Config) error {
	if !enabled(config.PublicIPv4) && !enabled(config.PublicIPv6) && len(config.Networks) == 0 {
		return invalid("spec.networks", "a server without a public address needs a network")
	}
	for i, network := range config.Networks {
		if _, err := attachment(network); err != nil {
			return invalid(fmt.Sprintf("spec.networks[%d]", i), "%w", err)
		}
	}
	return nil
}

func checkVolumes(config Config) error {
	if len(config.Volumes) > 0 && config.Location == "" {
		return invalid("spec.location", "volumes need a location: set it, or the Machine's failure domain")
	}
	return nil
}

func checkLabels(config Config) error {
	all := map[string]any{}
	for key, value := range config.Labels {
		all[key] = value
	}
	if _, err := hcloud.ValidateResourceLabels(all); err != nil {
		return invalid("spec.labels", "%w", err)
	}
	return nil
}

func enabled(ip infrav1.HetznerPublicIP) bool { return ptr.Deref(ip.Enabled, true) }

// attachment is what can be chosen in a network only once the server exists.
func attachment(network infrav1.HetznerNetwork) (opts hcloud.ServerAttachToNetworkOpts, err error) {
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

// chosen reports whether a network has to be attached after the server was made, because the spec chooses
// more than the network.
func chosen(network infrav1.HetznerNetwork) bool {
	return network.Subnet != "" || network.IP != "" || len(network.AliasIPs) > 0
}

// plain are the names of the networks that can be ordered with the server.
func plain(networks []infrav1.HetznerNetwork) (names []string) {
	for _, network := range networks {
		if !chosen(network) {
			names = append(names, network.Name)
		}
	}
	return names
}

// startsLater reports whether the server must not start before it is in all of its networks.
func startsLater(config Config) bool { return slices.ContainsFunc(config.Networks, chosen) }

// selector is the label selector of what belongs to an owner, or of everything that is ours.
func selector(owner driver.Owner) string {
	switch {
	case owner.UID != "":
		return driver.TagMachineUID + "," + driver.TagClusterUID + "==" + string(owner.UID)
	case owner.Name != "":
		return fmt.Sprintf("%s,%s==%s,%s==%s", driver.TagMachineUID, driver.TagCluster, owner.Name, driver.TagClusterNamespace, owner.Namespace)
	default:
		return driver.TagMachineUID
	}
}

// encode returns user data as the cloud takes it: text of a limited size. Cloud-init on Hetzner Cloud
// decodes base64 and gzip, Ignition does not.
func encode(userData []byte, format string) (string, error) {
	if len(userData) <= maxUserData && utf8.Valid(userData) {
		return string(userData), nil
	}
	if format == "ignition" {
		return "", invalid(bootstrapField, "the cloud takes %d bytes of text, the Ignition config has %d", maxUserData, len(userData))
	}
	packed := userData
	if utf8.Valid(userData) {
		var err error
		if packed, err = compress(userData); err != nil {
			return "", err
		}
	}
	encoded := base64.StdEncoding.EncodeToString(packed)
	if len(encoded) > maxUserData {
		return "", invalid(bootstrapField, "the cloud takes %d bytes, the bootstrap data has %d, and %d compressed as base64", maxUserData, len(userData), len(encoded))
	}
	return encoded, nil
}

// bootstrapField is the field of the Machine that names the bootstrap data.
const bootstrapField = "spec.bootstrap.dataSecretName"

func compress(data []byte) ([]byte, error) {
	buffer := &bytes.Buffer{}
	writer, err := gzip.NewWriterLevel(buffer, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = writer.Write(data)
	// Closing writes the rest, so the bytes are there only afterwards.
	err = errors.Join(err, writer.Close())
	return buffer.Bytes(), err
}

func invalid(field, format string, values ...any) error {
	return &driver.InvalidConfigurationError{Field: field, Err: fmt.Errorf(format, values...)}
}
