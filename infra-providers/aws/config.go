// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package aws is the driver of Amazon EC2, and of private clouds with its API. One machine is one
// call of RunInstances with a client token that derives from the machine's identity; its volumes and network
// interfaces are created and deleted with the instance.
//
// The files are the same in every driver: config.go, driver.go, abilities.go, instance.go, errors.go. Package launch
// converts a spec to a request; package createcache covers the time that EC2 needs to list what
// it created.
package aws

import (
	"cmp"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	kubetypes "k8s.io/apimachinery/pkg/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/aws/launch"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/createcache"
)

// InstanceConfig is the configuration of one EC2 instance.
type InstanceConfig struct {
	// Spec is the machine's, with its defaults.
	Spec infrav1.AWSMachineSpec
	Zone string
	// Pinned is true for the failure domain of a Machine.
	Pinned bool
	// Chooser is the UID of the machine where it has one of the subnets that match filters, so that a shortage there is not one
	// of the other machines. It is empty where all machines of the spec request the same.
	Chooser kubetypes.UID
}

// NewInstanceConfig defaults the spec of a machine. The schema's rules have validated it.
func NewInstanceConfig(machine *infrav1.AWSMachine, zone string) (InstanceConfig, error) {
	spec := *machine.Spec.DeepCopy()
	if spec.InstanceType == "" {
		return InstanceConfig{}, &driver.InvalidConfigurationError{Field: "spec.instanceType", Err: errors.New("it must be set")}
	}
	spec.Metadata.Tokens = cmp.Or(spec.Metadata.Tokens, string(types.HttpTokensStateRequired))
	spec.Metadata.Endpoint = cmp.Or(spec.Metadata.Endpoint, string(types.InstanceMetadataEndpointStateEnabled))
	spec.Metadata.HopLimit = cmp.Or(spec.Metadata.HopLimit, aws.Int32(1))
	if spec.LaunchTemplate.ID != "" || spec.LaunchTemplate.Name != "" {
		spec.LaunchTemplate.Version = cmp.Or(spec.LaunchTemplate.Version, "$Default")
	}
	config := InstanceConfig{Spec: spec, Zone: cmp.Or(zone, spec.Zone), Pinned: zone != ""}
	if slices.ContainsFunc(append(alternatives(config), config), choosesSubnet) {
		config.Chooser = machine.UID
	}
	return config, nil
}

// choosesSubnet reports whether a machine has one of the subnets that match filters.
func choosesSubnet(config InstanceConfig) bool { return len(config.Spec.Subnet.Filters) > 0 }

// choosesZone reports whether its zone is that of the subnet.
func choosesZone(config InstanceConfig) bool { return config.Zone == "" && choosesSubnet(config) }

// alternatives returns the configurations of the fallbacks, in their order. The failure domain of a Machine is kept, so
// fallbacks with another zone are left out.
func alternatives(config InstanceConfig) (all []InstanceConfig) {
	for _, fallback := range config.Spec.Fallbacks {
		if config.Pinned && fallback.Zone != "" && fallback.Zone != config.Zone {
			continue
		}
		other := InstanceConfig{Spec: *config.Spec.DeepCopy(), Zone: cmp.Or(fallback.Zone, config.Zone), Pinned: config.Pinned, Chooser: config.Chooser}
		other.Spec.InstanceType = cmp.Or(fallback.InstanceType, other.Spec.InstanceType)
		if fallback.Subnet.ID != "" || len(fallback.Subnet.Filters) > 0 {
			other.Spec.Subnet = fallback.Subnet
		}
		switch {
		case fallback.Market == "OnDemand":
			other.Spec.Spot = nil
		case fallback.Market == "Spot" && other.Spec.Spot == nil:
			other.Spec.Spot = &infrav1.AWSSpot{}
		}
		all = append(all, other)
	}
	return all
}

// toOffering returns what may lack capacity: an instance type in a zone, spot apart from on demand. Without a zone it is
// the subnet.
func toOffering(config InstanceConfig) (instanceType, zone string) {
	instanceType = config.Spec.InstanceType
	if config.Spec.Spot != nil {
		instanceType += " (spot)"
	}
	return instanceType, cmp.Or(config.Zone, config.Spec.Subnet.ID)
}

// toAccount returns the account and the region of a machine.
func toAccount(machine *infrav1.AWSMachine) driver.Account {
	return driver.Account{SecretName: machine.Spec.CredentialsSecretName, Region: machine.Spec.Region}
}

// launchInput returns what package launch needs for a request.
func launchInput(req driver.CreateRequest[InstanceConfig]) launch.Input {
	tags := map[string]string{"Name": req.Identity.Name}
	for key, value := range req.Config.Spec.Tags {
		tags[key] = value
	}
	for key, value := range req.Identity.Tags() {
		tags[key] = value
	}
	return launch.Input{
		Spec:     req.Config.Spec,
		Zone:     req.Config.Zone,
		Seed:     string(req.Identity.UID),
		Tags:     tags,
		Token:    clientToken(req.Identity, req.Config),
		UserData: req.UserData,
		Format:   req.Format,
	}
}

// clientToken derives the client token from the identity and from what distinguishes one alternative from another:
// EC2 binds a token to its parameters even when the first request with it met a lack of capacity.
func clientToken(id driver.Identity, config InstanceConfig) string {
	instanceType, _ := toOffering(config)
	return createcache.ClientToken(string(id.UID), instanceType, config.Zone, config.Spec.Subnet)
}
