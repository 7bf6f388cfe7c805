// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package alibaba is the driver of Elastic Compute Service (ECS) of Alibaba Cloud. One machine is one call of RunInstances with
// a client token that derives from the machine's identity; its disks, its network interface and its public address are created
// and deleted with the instance.
//
// The files are the same in every driver: config.go, driver.go, abilities.go, instance.go, errors.go; create.go and delete.go
// have the steps of a creation and a deletion, credentials.go the access keys and client.go the calls. Package request converts
// a spec to a request.
package alibaba

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/alibaba/request"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/createcache"
)

// InstanceConfig is the configuration of one instance.
type InstanceConfig struct {
	// Spec is the machine's, with its defaults.
	Spec   infrav1.AlibabaMachineSpec
	ZoneID string
	// Pinned is true for the failure domain of a Machine.
	Pinned bool
}

// NewInstanceConfig defaults the spec of a machine. The schema's rules have validated it.
func NewInstanceConfig(machine *infrav1.AlibabaMachine, zone string) (InstanceConfig, error) {
	spec := *machine.Spec.DeepCopy()
	if spec.InstanceType == "" {
		return InstanceConfig{}, &driver.InvalidConfigurationError{Field: "spec.instanceType", Err: errors.New("it must be set")}
	}
	if len(machine.Name) > request.MaxTagValue {
		return InstanceConfig{}, &driver.InvalidConfigurationError{Field: "metadata.name", Err: fmt.Errorf(
			"it is the value of a tag of the instance, which has %d characters at most", request.MaxTagValue)}
	}
	spec.Image.Owner = cmp.Or(spec.Image.Owner, request.DefaultOwner(spec.Image))
	config := InstanceConfig{Spec: spec, ZoneID: cmp.Or(zone, spec.ZoneID), Pinned: zone != ""}
	return config, checkVSwitches(config)
}

// checkVSwitches reports a zone in which the instance may be requested and for which there is no vSwitch.
func checkVSwitches(config InstanceConfig) error {
	if request.VSwitch(config.Spec, config.ZoneID) == "" {
		return &driver.InvalidConfigurationError{Field: "spec.vSwitches", Err: fmt.Errorf("there is no vSwitch for the zone %q", config.ZoneID)}
	}
	for n, fallback := range config.Spec.Fallbacks {
		if fallback.ZoneID != "" && !config.Pinned && request.VSwitch(config.Spec, fallback.ZoneID) == "" {
			return &driver.InvalidConfigurationError{Field: fmt.Sprintf("spec.fallbacks[%d].zoneID", n), Err: fmt.Errorf("spec.vSwitches has no vSwitch for the zone %q", fallback.ZoneID)}
		}
	}
	return nil
}

// alternatives returns the configurations of the fallbacks, in their order. The failure domain of a Machine is kept, so
// fallbacks with another zone are left out.
func alternatives(config InstanceConfig) (all []InstanceConfig) {
	for _, fallback := range config.Spec.Fallbacks {
		if config.Pinned && fallback.ZoneID != "" && fallback.ZoneID != config.ZoneID {
			continue
		}
		other := InstanceConfig{Spec: *config.Spec.DeepCopy(), ZoneID: cmp.Or(fallback.ZoneID, config.ZoneID), Pinned: config.Pinned}
		other.Spec.InstanceType = cmp.Or(fallback.InstanceType, other.Spec.InstanceType)
		switch {
		case fallback.Market == "PayAsYouGo":
			other.Spec.Spot = nil
		case fallback.Market == "Spot" && other.Spec.Spot == nil:
			other.Spec.Spot = &infrav1.AlibabaSpot{}
		}
		all = append(all, other)
	}
	return all
}

// toOffering returns what may lack stock: an instance type in a zone, spot apart from pay-as-you-go.
func toOffering(config InstanceConfig) (instanceType, zone string) {
	instanceType = config.Spec.InstanceType
	if config.Spec.Spot != nil {
		instanceType += " (spot)"
	}
	return instanceType, config.ZoneID
}

// toAccount returns the account and the region of a machine.
func toAccount(machine *infrav1.AlibabaMachine) driver.Account {
	return driver.Account{SecretName: machine.Spec.CredentialsSecretName, Region: machine.Spec.RegionID}
}

// toInput returns what package request needs for a creation. It fails where an owner does not fit into the tags.
func toInput(req driver.CreateRequest[InstanceConfig]) (request.Input, error) {
	for tag, value := range req.Identity.Tags() {
		if len(value) > request.MaxTagValue {
			return request.Input{}, driver.NeverValid("metadata",
				"%q is the value of the tag %s of the instance, which has %d characters at most", value, tag, request.MaxTagValue)
		}
	}
	return request.Input{Spec: req.Config.Spec, ZoneID: req.Config.ZoneID, Identity: req.Identity, UserData: req.UserData, Format: req.Format}, nil
}

// placeOf distinguishes the requests that may be made for one machine.
func placeOf(config InstanceConfig) string {
	instanceType, zone := toOffering(config)
	return strings.Join([]string{instanceType, zone, request.VSwitch(config.Spec, zone)}, "/")
}

// clientToken derives the client token from the machine, from what distinguishes one alternative from another, and from the
// number of requests that were refused. A UID alone is not enough: its author chooses it, and the answer to a token that is in
// use is the ID of the instance that has it.
func clientToken(id driver.Identity, place string, refusals int) string {
	return createcache.ClientToken(string(id.UID), id.Name, id.Owner.Namespace, id.Owner.Name, place, refusals)
}

// ids returns the list of IDs as the parameters of ECS have it.
func ids(all ...string) string {
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // it is a list of strings
	}
	return string(text)
}
