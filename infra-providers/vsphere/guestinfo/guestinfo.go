// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package guestinfo writes what a guest reads of itself through VMware's guestinfo variables: user data and
// metadata for cloud-init's VMware data source, or an Ignition configuration. It is pure: the driver puts
// the result into the advanced parameters of a virtual machine.
package guestinfo

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

// Limit is how long one variable may be, in bytes: a guest requests it in one message of 64 KiB.
const Limit = 64<<10 - 1

// The formats of user data.
const (
	CloudConfig = "cloud-config"
	Ignition    = "ignition"
)

// encoding is how every variable is written.
const encoding = "gzip+base64"

// ErrTooLong means that user data does not fit, compressed as they are.
var ErrTooLong = errors.New("too long")

// UserData returns the variables that hold user data in a format.
func UserData(format string, data []byte) (map[string]string, error) {
	encoded := encode(data)
	if len(encoded) > Limit {
		return nil, fmt.Errorf("%w: %d bytes are %d when compressed and encoded, and vSphere takes %d", ErrTooLong, len(data), len(encoded), Limit)
	}
	if format == Ignition {
		return map[string]string{"guestinfo.ignition.config.data": encoded, "guestinfo.ignition.config.data.encoding": encoding}, nil
	}
	return map[string]string{"guestinfo.userdata": encoded, "guestinfo.userdata.encoding": encoding}, nil
}

// Host is the content of the metadata.
type Host struct {
	InstanceID string
	Name       string
	ProviderID string
	// Networks are the cards in order, MACs their addresses.
	Networks []infrav1.VSphereNetwork
	MACs     []string
}

// Metadata returns the variables that hold the metadata of a host.
func Metadata(host Host) (map[string]string, error) {
	document := map[string]any{
		"instance-id":    host.InstanceID,
		"local-hostname": host.Name,
		"hostname":       host.Name,
		"provider_id":    host.ProviderID,
	}
	if len(host.Networks) > 0 {
		cards := map[string]ethernet{}
		for i, network := range host.Networks {
			cards[fmt.Sprintf("nic%d", i)] = card(network, host.MACs[i])
		}
		document["network"] = map[string]any{"version": 2, "ethernets": cards}
	}
	// JSON is YAML, which is what cloud-init reads.
	content, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	return map[string]string{"guestinfo.metadata": encode(content), "guestinfo.metadata.encoding": encoding}, nil
}

// ethernet is a card as network configuration version 2 has it.
type ethernet struct {
	Match       match        `json:"match"`
	DHCP4       bool         `json:"dhcp4"`
	DHCP6       bool         `json:"dhcp6"`
	Addresses   []string     `json:"addresses,omitempty"`
	Routes      []route      `json:"routes,omitempty"`
	Nameservers *nameservers `json:"nameservers,omitempty"`
	MTU         int32        `json:"mtu,omitempty"`
}

type match struct {
	MACAddress string `json:"macaddress"`
}

type route struct {
	To  string `json:"to"`
	Via string `json:"via"`
}

type nameservers struct {
	Addresses []string `json:"addresses,omitempty"`
	Search    []string `json:"search,omitempty"`
}

func card(network infrav1.VSphereNetwork, mac string) ethernet {
	unconfigured := network.DHCP4 == nil && network.DHCP6 == nil && len(network.Addresses) == 0
	made := ethernet{
		Match:     match{MACAddress: mac},
		DHCP4:     ptr.Deref(network.DHCP4, unconfigured),
		DHCP6:     ptr.Deref(network.DHCP6, false),
		Addresses: network.Addresses,
		MTU:       network.MTU,
	}
	if network.Gateway4 != "" {
		made.Routes = append(made.Routes, route{To: "0.0.0.0/0", Via: network.Gateway4})
	}
	if network.Gateway6 != "" {
		made.Routes = append(made.Routes, route{To: "::/0", Via: network.Gateway6})
	}
	if len(network.Nameservers)+len(network.SearchDomains) > 0 {
		made.Nameservers = &nameservers{Addresses: network.Nameservers, Search: network.SearchDomains}
	}
	return made
}

// Check refuses networks that cannot work with a format.
func Check(format string, networks []infrav1.VSphereNetwork) (field string, err error) {
	for i, network := range networks {
		if format == Ignition && len(network.Addresses) > 0 {
			return fmt.Sprintf("spec.networks[%d].addresses", i), errors.New("a host that is set up by Ignition reads its addresses from the Ignition configuration only")
		}
		for _, address := range network.Addresses {
			if _, err := netip.ParsePrefix(address); err != nil {
				return fmt.Sprintf("spec.networks[%d].addresses", i), err
			}
		}
	}
	return "", nil
}

func encode(data []byte) string { return base64.StdEncoding.EncodeToString(driver.Compress(data)) }
