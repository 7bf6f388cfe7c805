// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package aws is the driver of Amazon EC2, and of private clouds that speak its API. One machine is one
// call of RunInstances under a token that derives from the machine's identity; the volumes and network
// interfaces come and go with the instance.
//
// The four files are the same in every cloud: config.go, driver.go, instance.go, errors.go. What a spec
// asks for becomes a request in package launch; package recent bridges the time that EC2 needs to show what
// it made.
package aws

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/aws/launch"
	"drover.io/infra-providers/driver"
)

// Config is what EC2 is asked for.
type Config struct {
	// Spec is the machine's, with its defaults.
	Spec infrav1.AWSMachineSpec
	Zone string
	// Pinned is true for a zone that the Machine was given.
	Pinned bool
}

// NewConfig defaults the spec of a machine. The schema's rules have validated it.
func NewConfig(machine *infrav1.AWSMachine, zone string) (Config, error) {
	spec := *machine.Spec.DeepCopy()
	if spec.InstanceType == "" {
		return Config{}, &driver.InvalidConfigurationError{Field: "spec.instanceType", Err: errors.New("it must be set")}
	}
	spec.Metadata.Tokens = cmp.Or(spec.Metadata.Tokens, string(types.HttpTokensStateRequired))
	spec.Metadata.Endpoint = cmp.Or(spec.Metadata.Endpoint, string(types.InstanceMetadataEndpointStateEnabled))
	spec.Metadata.HopLimit = cmp.Or(spec.Metadata.HopLimit, aws.Int32(1))
	if spec.LaunchTemplate.ID != "" || spec.LaunchTemplate.Name != "" {
		spec.LaunchTemplate.Version = cmp.Or(spec.LaunchTemplate.Version, "$Default")
	}
	return Config{Spec: spec, Zone: cmp.Or(zone, spec.Zone), Pinned: zone != ""}, nil
}

// alternatives returns what the fallbacks of a configuration ask for, in their order. A zone that the
// Machine was given is kept, so those that name another are left out.
func alternatives(config Config) (all []Config) {
	for _, fallback := range config.Spec.Fallbacks {
		if config.Pinned && fallback.Zone != "" && fallback.Zone != config.Zone {
			continue
		}
		other := Config{Spec: *config.Spec.DeepCopy(), Zone: cmp.Or(fallback.Zone, config.Zone), Pinned: config.Pinned}
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

// place says what may run short: a type in a zone, spot apart from on demand. Without a zone the subnet
// stands for it.
func place(config Config) (instanceType, zone string) {
	instanceType = config.Spec.InstanceType
	if config.Spec.Spot != nil {
		instanceType += " (spot)"
	}
	return instanceType, cmp.Or(config.Zone, config.Spec.Subnet.ID)
}

// account says how to reach EC2 for a machine.
func account(machine *infrav1.AWSMachine) driver.Account {
	return driver.Account{SecretName: machine.Spec.CredentialsSecretName, Region: machine.Spec.Region}
}

// order returns what to launch for a request.
func order(req driver.Request[Config]) launch.Order {
	tags := map[string]string{"Name": req.Identity.Name}
	for key, value := range req.Config.Spec.Tags {
		tags[key] = value
	}
	for key, value := range req.Identity.Tags() {
		tags[key] = value
	}
	return launch.Order{
		Spec:     req.Config.Spec,
		Zone:     req.Config.Zone,
		Seed:     string(req.Identity.UID),
		Tags:     tags,
		Token:    token(req.Identity, req.Config),
		UserData: req.UserData,
		Format:   req.Format,
	}
}

// token derives the client token from the identity and from what distinguishes one alternative from another:
// EC2 holds a token to its parameters even when the first request under it met a lack of capacity.
func token(id driver.Identity, config Config) string {
	instanceType, _ := place(config)
	return digest(string(id.UID), instanceType, config.Zone, config.Spec.Subnet)
}

// digest is a token of 64 characters, the most that EC2 takes.
func digest(of ...any) string {
	text, err := json.Marshal(of)
	if err != nil {
		panic(err) // only what the SDK and the API are made of gets here, and all of that can be written
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
