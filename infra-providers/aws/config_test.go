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

func TestNewInstanceConfig(t *testing.T) {
	t.Parallel()
	strict := infrav1.AWSMetadata{Tokens: "required", Endpoint: "enabled", HopLimit: ptr.To[int32](1)}
	for name, test := range map[string]struct {
		spec infrav1.AWSMachineSpec
		zone string
		want InstanceConfig
	}{
		"requires session tokens within one hop by default": {
			infrav1.AWSMachineSpec{InstanceType: "m7i.large"}, "",
			InstanceConfig{Spec: infrav1.AWSMachineSpec{InstanceType: "m7i.large", Metadata: strict}},
		},
		"takes the zone of the spec": {
			infrav1.AWSMachineSpec{InstanceType: "m7i.large", Zone: "a"}, "",
			InstanceConfig{Spec: infrav1.AWSMachineSpec{InstanceType: "m7i.large", Zone: "a", Metadata: strict}, Zone: "a"},
		},
		"prefers the failure domain of the Machine": {
			infrav1.AWSMachineSpec{InstanceType: "m7i.large", Zone: "a"}, "b",
			InstanceConfig{Spec: infrav1.AWSMachineSpec{InstanceType: "m7i.large", Zone: "a", Metadata: strict}, Zone: "b", Pinned: true},
		},
		"takes the launch template's default version": {
			infrav1.AWSMachineSpec{InstanceType: "m7i.large", LaunchTemplate: infrav1.AWSLaunchTemplate{Name: "nodes"}}, "",
			InstanceConfig{Spec: infrav1.AWSMachineSpec{InstanceType: "m7i.large", Metadata: strict, LaunchTemplate: infrav1.AWSLaunchTemplate{Name: "nodes", Version: "$Default"}}},
		},
		"keeps what the user chose": {
			infrav1.AWSMachineSpec{InstanceType: "m7i.large", Metadata: infrav1.AWSMetadata{Tokens: "optional", Endpoint: "disabled", HopLimit: ptr.To[int32](3)}}, "",
			InstanceConfig{Spec: infrav1.AWSMachineSpec{InstanceType: "m7i.large", Metadata: infrav1.AWSMetadata{Tokens: "optional", Endpoint: "disabled", HopLimit: ptr.To[int32](3)}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := NewInstanceConfig(&infrav1.AWSMachine{Spec: test.spec}, test.zone)
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
	if _, err := NewInstanceConfig(&infrav1.AWSMachine{}, ""); !driver.IsInvalidConfiguration(err) {
		t.Errorf("without an instance type: got %v", err)
	}
}

func TestAlternatives(t *testing.T) {
	t.Parallel()
	type alternative struct{ Type, Zone, Subnet string }
	fallbacks := []infrav1.AWSFallback{
		{InstanceType: "m7a.large"},
		{Zone: "b", Subnet: infrav1.AWSSelector{ID: "subnet-b"}},
		{Market: "OnDemand"},
		{InstanceType: "m7a.large", Market: "Spot"},
	}
	for name, test := range map[string]struct {
		config InstanceConfig
		want   []alternative
	}{
		"keeps the order and what is left out": {
			InstanceConfig{Spec: infrav1.AWSMachineSpec{InstanceType: "m7i.large", Spot: &infrav1.AWSSpot{MaxPrice: "1"}, Subnet: infrav1.AWSSelector{ID: "subnet-a"}, Fallbacks: fallbacks}, Zone: "a"},
			[]alternative{{"m7a.large (spot)", "a", "subnet-a"}, {"m7i.large (spot)", "b", "subnet-b"}, {"m7i.large", "a", "subnet-a"}, {"m7a.large (spot)", "a", "subnet-a"}},
		},
		"keeps the failure domain of the Machine": {
			InstanceConfig{Spec: infrav1.AWSMachineSpec{InstanceType: "m7i.large", Fallbacks: fallbacks}, Zone: "a", Pinned: true},
			[]alternative{{"m7a.large", "a", ""}, {"m7i.large", "a", ""}, {"m7a.large (spot)", "a", ""}},
		},
		"accepts a fallback in the failure domain of the Machine": {
			InstanceConfig{Spec: infrav1.AWSMachineSpec{InstanceType: "m7i.large", Fallbacks: fallbacks[1:2]}, Zone: "b", Pinned: true},
			[]alternative{{"m7i.large", "b", "subnet-b"}},
		},
		"has none without fallbacks": {InstanceConfig{Spec: infrav1.AWSMachineSpec{InstanceType: "m7i.large"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := InstanceConfig{Spec: *test.config.Spec.DeepCopy(), Zone: test.config.Zone, Pinned: test.config.Pinned}
			var got []alternative
			for _, other := range alternatives(test.config) {
				instanceType, _ := toOffering(other)
				got = append(got, alternative{instanceType, other.Zone, other.Spec.Subnet.ID})
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

// TestClientToken proves that the token is the same for the same request, and another for one that EC2 would refuse with
// it.
func TestClientToken(t *testing.T) {
	t.Parallel()
	id := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "c"}}
	config := InstanceConfig{Spec: infrav1.AWSMachineSpec{InstanceType: "m7i.large"}, Zone: "a"}
	moved := driver.Identity{UID: "u", Name: "m", Owner: driver.Owner{UID: "other"}}
	if clientToken(id, config) != clientToken(moved, config) {
		t.Error("another UID of the Cluster changes the token")
	}
	seen := map[string]string{}
	spot, subnet, zone, size := config, config, config, config
	spot.Spec.Spot = &infrav1.AWSSpot{}
	subnet.Spec.Subnet.ID = "subnet-a"
	zone.Zone = "b"
	size.Spec.InstanceType = "m7i.xlarge"
	for name, of := range map[string]string{
		"the machine":     clientToken(id, config),
		"another machine": clientToken(driver.Identity{UID: "v"}, config),
		"spot":            clientToken(id, spot),
		"another subnet":  clientToken(id, subnet),
		"another zone":    clientToken(id, zone),
		"another type":    clientToken(id, size),
	} {
		if other := seen[of]; other != "" {
			t.Errorf("%s and %s share a token", name, other)
		}
		if seen[of] = name; len(of) > 64 {
			t.Errorf("the token of %s has %d characters", name, len(of))
		}
	}
}
