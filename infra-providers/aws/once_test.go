// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package aws_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/aws"
	"drover.io/infra-providers/aws/awsfake"
	"drover.io/infra-providers/driver"
)

// anywhere is a machine whose subnet is whichever matches, in either zone.
func anywhere(s *infrav1.AWSMachineSpec) { s.Subnet = selector("tag:role", "nodes") }

// TestAnotherSelectionMakesNoSecondInstance changes what the filters of a machine select between a creation whose answer
// was lost and its repetition. EC2's tokens are good for one zone, and the first instance is not listed yet.
func TestAnotherSelectionMakesNoSecondInstance(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(world, driver.Driver[aws.Config]) (driver.Driver[aws.Config], driver.Request[aws.Config]){
		"in the same process": func(_ world, d driver.Driver[aws.Config]) (driver.Driver[aws.Config], driver.Request[aws.Config]) {
			return d, request(identity, config(t, anywhere))
		},
		"in the next process": func(ec2 world, _ driver.Driver[aws.Config]) (driver.Driver[aws.Config], driver.Request[aws.Config]) {
			req := request(identity, config(t, anywhere))
			req.Since = ec2.now().Add(-time.Minute)
			return ec2.connectNow(t), req
		},
		"in the next process, after a move": func(ec2 world, _ driver.Driver[aws.Config]) (driver.Driver[aws.Config], driver.Request[aws.Config]) {
			return ec2.connectNow(t), request(identity, config(t, anywhere))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ec2 := open(t, awsfake.Options{})
			d := ec2.connect(t)
			ec2.cloud.Hide(4)
			ec2.cloud.Once(awsfake.Fault{Lost: true})
			if _, err := d.Create(t.Context(), request(identity, config(t, anywhere))); err == nil {
				t.Fatal("the answer was not lost")
			}
			requests := ec2.cloud.Requests()
			ec2.cloud.Withdraw(requests[0]["NetworkInterface.1.SubnetId"])
			ec2.pass(90 * time.Second) // look-ups are remembered for a minute
			d, req := again(ec2, d)
			for range 3 {
				if made, err := d.Create(t.Context(), req); err == nil || driver.IsInvalidConfiguration(err) {
					t.Fatalf("while EC2 does not list it: got %+v and %v", made, err)
				}
			}
			_, _ = d.Get(t.Context(), identity)
			made, err := d.Create(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{made.ID}, living(t, d)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := len(ec2.cloud.Requests()); got != len(requests) {
				t.Errorf("EC2 was asked for %d instances, want one", got)
			}
		})
	}
}

// TestANewProcessWaitsForNothingThatNobodyAskedFor: a machine that is younger than the process is made at once.
func TestANewProcessWaitsForNothingThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	ec2 := open(t, awsfake.Options{})
	d := ec2.connectNow(t)
	req := request(identity, config(t, anywhere))
	req.Since = ec2.now().Add(time.Second)
	if _, err := d.Create(t.Context(), req); err != nil {
		t.Errorf("a machine that is new: %v", err)
	}
	fixed := identity
	fixed.UID, fixed.Name = "0a1b2c3d-0000-4000-8000-000000000002", "worker-2"
	if _, err := d.Create(t.Context(), request(fixed, config(t, nothing))); err != nil {
		t.Errorf("a machine in a subnet of its own: %v", err)
	}
}

// TestWhatWasAnsweredIsNotAskedForAgain: the provider ID may not have been stored, and EC2 not list it yet.
func TestWhatWasAnsweredIsNotAskedForAgain(t *testing.T) {
	t.Parallel()
	ec2 := open(t, awsfake.Options{})
	d := ec2.connect(t)
	ec2.cloud.Hide(3)
	first, err := d.Create(t.Context(), request(identity, config(t, anywhere)))
	if err != nil {
		t.Fatal(err)
	}
	ec2.cloud.Withdraw(ec2.cloud.Requests()[0]["NetworkInterface.1.SubnetId"])
	ec2.pass(90 * time.Second)
	second, err := d.Create(t.Context(), request(identity, config(t, anywhere)))
	if err != nil || second.ID != first.ID {
		t.Errorf("got %+v and %v, want the first one", second, err)
	}
}

// TestARefusalEndsTheDoubt: after it another configuration, in another zone, may be asked for.
func TestARefusalEndsTheDoubt(t *testing.T) {
	t.Parallel()
	ec2 := open(t, awsfake.Options{})
	d := ec2.connect(t)
	full := config(t, func(s *infrav1.AWSMachineSpec) { s.InstanceType = "m7i.48xlarge" })
	ec2.cloud.Once(awsfake.Fault{Lost: true})
	if _, err := d.Create(t.Context(), request(identity, full)); err == nil {
		t.Fatal("the answer was not lost")
	}
	if _, err := d.Create(t.Context(), request(identity, full)); !driver.IsInsufficientCapacity(err) {
		t.Fatalf("got %v, want an InsufficientCapacityError", err)
	}
	if _, err := d.Create(t.Context(), request(identity, config(t, func(s *infrav1.AWSMachineSpec) { s.Subnet.ID = awsfake.SubnetB }))); err != nil {
		t.Errorf("another zone: %v", err)
	}
}

// TestAnIdentityIsNoPattern: EC2 matches wildcards in the values of filters, and the identity comes from an annotation.
func TestAnIdentityIsNoPattern(t *testing.T) {
	t.Parallel()
	ec2 := open(t, awsfake.Options{})
	d := ec2.connect(t)
	if _, err := d.Create(t.Context(), request(identity, config(t, nothing))); err != nil {
		t.Fatal(err)
	}
	for _, uid := range []types.UID{"*", "0a1b2c3d-????-*", `\*`, ""} {
		forged := identity
		forged.UID = uid
		if found, err := d.Get(t.Context(), forged); !driver.IsNotFound(err) {
			t.Errorf("%q: got %+v and %v, want a NotFoundError", uid, found, err)
		}
	}
}

// TestTagsOfOthersStay: whoever makes a machine may choose its UID, and it may be a pattern.
func TestTagsOfOthersStay(t *testing.T) {
	t.Parallel()
	for _, uid := range []types.UID{"*", "vic?im"} {
		ec2 := open(t, awsfake.Options{})
		d := ec2.connect(t)
		victim := driver.Identity{UID: "victim", Name: "worker", Owner: driver.Owner{UID: "1", Namespace: "victim", Name: "home"}}
		if _, err := d.Create(t.Context(), request(victim, config(t, nothing))); err != nil {
			t.Fatal(err)
		}
		before := ec2.cloud.Tags(driver.TagClusterNamespace)
		forged := driver.Identity{UID: uid, Name: "worker", Owner: driver.Owner{UID: "2", Namespace: "attacker", Name: "home"}}
		if _, err := d.Create(t.Context(), request(forged, config(t, nothing))); err != nil {
			t.Fatal(err)
		}
		forged.Owner.UID = "3" // the Cluster was made anew
		if err := d.(driver.Tagger).Tag(t.Context(), forged); err != nil {
			t.Errorf("%q: %v", uid, err)
		}
		namespaces, clusters := ec2.cloud.Tags(driver.TagClusterNamespace), ec2.cloud.Tags(driver.TagClusterUID)
		for id := range before {
			if namespaces[id] != "victim" || clusters[id] != "1" {
				t.Errorf("%q: %s belongs to %s/%s now", uid, id, namespaces[id], clusters[id])
			}
		}
		for id, namespace := range namespaces {
			if namespace == "attacker" && clusters[id] != "3" {
				t.Errorf("%q: its own %s has the tag %q", uid, id, clusters[id])
			}
		}
		if len(namespaces) != 2*len(before) {
			t.Errorf("%q: %d things have tags, want %d", uid, len(namespaces), 2*len(before))
		}
	}
}
