// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
)

func TestNewConfig(t *testing.T) {
	t.Parallel()
	strict := infrav1.AWSMetadata{Tokens: "required", Endpoint: "enabled", HopLimit: ptr.To[int32](1)}
	for name, test := range map[string]struct {
		spec infrav1.AWSMachineSpec
		zone string
		want Config
	}{
		"requires session tokens within one hop by default": {
			infrav1.AWSMachineSpec{InstanceType: "m7i.large"}, "",
			Config{Spec: infrav1.AWSMachineSpec{InstanceType: "m7i.large", Metadata: strict}},
		},
		"takes the zone of the spec": {
			infrav1.AWSMachineSpec{InstanceType: "m7i.large", Zone: "a"}, "",
			Config{Spec: infrav1.AWSMachineSpec{InstanceType: "m7i.large", Zone: "a", Metadata: strict}, Zone: "a"},
		},
		"prefers the Machine's failure domain": {
			infrav1.AWSMachineSpec{InstanceType: "m7i.large", Zone: "a"}, "b",
			Config{Spec: infrav1.AWSMachineSpec{InstanceType: "m7i.large", Zone: "a", Metadata: strict}, Zone: "b", Pinned: true},
		},
		"takes the launch template's default version": {
			infrav1.AWSMachineSpec{InstanceType: "m7i.large", LaunchTemplate: infrav1.AWSLaunchTemplate{Name: "nodes"}}, "",
			Config{Spec: infrav1.AWSMachineSpec{InstanceType: "m7i.large", Metadata: strict, LaunchTemplate: infrav1.AWSLaunchTemplate{Name: "nodes", Version: "$Default"}}},
		},
		"keeps what the user chose": {
			infrav1.AWSMachineSpec{InstanceType: "m7i.large", Metadata: infrav1.AWSMetadata{Tokens: "optional", Endpoint: "disabled", HopLimit: ptr.To[int32](3)}}, "",
			Config{Spec: infrav1.AWSMachineSpec{InstanceType: "m7i.large", Metadata: infrav1.AWSMetadata{Tokens: "optional", Endpoint: "disabled", HopLimit: ptr.To[int32](3)}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := NewConfig(&infrav1.AWSMachine{Spec: test.spec}, test.zone)
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
	if _, err := NewConfig(&infrav1.AWSMachine{}, ""); !driver.IsInvalidConfiguration(err) {
		t.Errorf("without an instance type: got %v", err)
	}
}

func TestAlternatives(t *testing.T) {
	t.Parallel()
	type asked struct{ Type, Zone, Subnet string }
	fallbacks := []infrav1.AWSFallback{
		{InstanceType: "m7a.large"},
		{Zone: "b", Subnet: infrav1.AWSSelector{ID: "subnet-b"}},
		{Market: "OnDemand"},
		{InstanceType: "m7a.large", Market: "Spot"},
	}
	for name, test := range map[string]struct {
		config Config
		want   []asked
	}{
		"keeps the order and what is left out": {
			Config{Spec: infrav1.AWSMachineSpec{InstanceType: "m7i.large", Spot: &infrav1.AWSSpot{MaxPrice: "1"}, Subnet: infrav1.AWSSelector{ID: "subnet-a"}, Fallbacks: fallbacks}, Zone: "a"},
			[]asked{{"m7a.large (spot)", "a", "subnet-a"}, {"m7i.large (spot)", "b", "subnet-b"}, {"m7i.large", "a", "subnet-a"}, {"m7a.large (spot)", "a", "subnet-a"}},
		},
		"keeps the zone that the Machine was given": {
			Config{Spec: infrav1.AWSMachineSpec{InstanceType: "m7i.large", Fallbacks: fallbacks}, Zone: "a", Pinned: true},
			[]asked{{"m7a.large", "a", ""}, {"m7i.large", "a", ""}, {"m7a.large (spot)", "a", ""}},
		},
		"takes a fallback into the Machine's own zone": {
			Config{Spec: infrav1.AWSMachineSpec{InstanceType: "m7i.large", Fallbacks: fallbacks[1:2]}, Zone: "b", Pinned: true},
			[]asked{{"m7i.large", "b", "subnet-b"}},
		},
		"has none without fallbacks": {Config{Spec: infrav1.AWSMachineSpec{InstanceType: "m7i.large"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := Config{Spec: *test.config.Spec.DeepCopy(), Zone: test.config.Zone, Pinned: test.config.Pinned}
			var got []asked
			for _, other := range alternatives(test.config) {
				instanceType, _ := place(other)
				got = append(got, asked{instanceType, other.Zone, other.Spec.Subnet.ID})
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, test.config); diff != "" {
				t.Errorf("the configuration was changed:\n%s", diff)
			}
		})
	}
}

// TestTokens proves that a token is the same for what must be the same request, and another for what EC2
// would refuse under it.
func TestTokens(t *testing.T) {
	t.Parallel()
	id := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "c"}}
	config := Config{Spec: infrav1.AWSMachineSpec{InstanceType: "m7i.large"}, Zone: "a"}
	moved := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "other"}}
	if token(id, config) != token(moved, config) {
		t.Error("a Cluster that moved changes the token")
	}
	seen := map[string]string{}
	spot, subnet, zone, size := config, config, config, config
	spot.Spec.Spot = &infrav1.AWSSpot{}
	subnet.Spec.Subnet.ID = "subnet-a"
	zone.Zone = "b"
	size.Spec.InstanceType = "m7i.xlarge"
	for name, of := range map[string]string{
		"the machine":     token(id, config),
		"another machine": token(driver.Identity{UID: "v"}, config),
		"spot":            token(id, spot),
		"another subnet":  token(id, subnet),
		"another zone":    token(id, zone),
		"another type":    token(id, size),
	} {
		if other := seen[of]; other != "" {
			t.Errorf("%s and %s share a token", name, other)
		}
		if seen[of] = name; len(of) > 64 {
			t.Errorf("the token of %s has %d characters", name, len(of))
		}
	}
}
