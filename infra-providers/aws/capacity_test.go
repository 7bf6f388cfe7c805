// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/aws"
	"drover.io/infra-providers/aws/awsfake"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/throttle"
)

// TestShortageInTheZoneOfOneSubnet delays no request for another subnet: where filters match subnets of several zones, each
// machine has one of them.
func TestShortageInTheZoneOfOneSubnet(t *testing.T) {
	t.Parallel()
	const zone = awsfake.Region + "a"
	configOf := func(uid types.UID, change func(*infrav1.AWSMachineSpec)) aws.InstanceConfig {
		created, err := aws.NewInstanceConfig(&infrav1.AWSMachine{ObjectMeta: metav1.ObjectMeta{UID: uid}, Spec: newSpec(change)}, "")
		if err != nil {
			t.Fatal(err)
		}
		return created
	}
	nodes := func(s *infrav1.AWSMachineSpec) {
		s.Subnet = selector("tag:role", "nodes")
		s.Fallbacks = []infrav1.AWSFallback{{Subnet: selector("availability-zone", awsfake.Region+"b")}}
	}
	inZone := func(s *infrav1.AWSMachineSpec) { nodes(s); s.Zone = zone }
	byID := func(*infrav1.AWSMachineSpec) {}
	for name, test := range map[string]struct {
		change           func(*infrav1.AWSMachineSpec)
		code             string
		fallback, others bool
	}{
		"leaves the fallback and the other machines to filters":                  {nodes, "InsufficientInstanceCapacity", true, true},
		"leaves them to filters where a subnet has no addresses left":            {nodes, "InsufficientFreeAddressesInSubnet", true, true},
		"leaves them to filters in one zone where a subnet has none left":        {inZone, "InsufficientFreeAddressesInSubnet", true, true},
		"is one of all machines where filters are in one zone":                   {inZone, "InsufficientInstanceCapacity", false, false},
		"is one of all machines with the same subnet":                            {byID, "InsufficientInstanceCapacity", false, false},
		"is one of all machines with the same subnet that has no addresses left": {byID, "InsufficientFreeAddressesInSubnet", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ec2 := newEnv(t, awsfake.Options{})
			cloud := ec2.description()
			throttled := throttle.New(ec2.connect(t), throttle.Options[aws.InstanceConfig]{Offering: cloud.Offering, Now: time.Now, Jitter: func() float64 { return 0 }})
			config := configOf("one", test.change)
			ec2.cloud.FailNext(awsfake.Fault{Status: 400, Code: test.code, Message: "There is none left."})
			if _, err := throttled.Create(t.Context(), newRequest(identity, config)); !driver.IsInsufficientCapacity(err) {
				t.Fatalf("got %v, want an InsufficientCapacityError", err)
			}
			available := func(of aws.InstanceConfig) bool { return throttled.UnavailableOffering("team", of).Left == 0 }
			if available(config) {
				t.Error("the request itself is available")
			}
			if got := available(configOf("two", test.change)); got != test.others {
				t.Errorf("available to another machine: %t, want %t", got, test.others)
			}
			for _, fallback := range cloud.Alternatives(config) {
				if got := available(fallback); got != test.fallback {
					t.Errorf("the fallback is available: %t, want %t", got, test.fallback)
				}
			}
		})
	}
}
