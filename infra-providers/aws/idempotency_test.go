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

// filteredSubnet selects any subnet that matches, in either zone.
func filteredSubnet(s *infrav1.AWSMachineSpec) { s.Subnet = selector("tag:role", "nodes") }

// TestChangedSubnetSelectionCreatesNoSecondInstance changes what the filters of a machine select between a creation whose
// answer was lost and its repetition. EC2's client tokens are valid in one zone, and the first instance is not listed yet.
func TestChangedSubnetSelectionCreatesNoSecondInstance(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(env, driver.Driver[aws.InstanceConfig]) (driver.Driver[aws.InstanceConfig], driver.CreateRequest[aws.InstanceConfig]){
		"in the same process": func(_ env, d driver.Driver[aws.InstanceConfig]) (driver.Driver[aws.InstanceConfig], driver.CreateRequest[aws.InstanceConfig]) {
			return d, newRequest(identity, newConfig(t, filteredSubnet))
		},
		"in the next process": func(ec2 env, _ driver.Driver[aws.InstanceConfig]) (driver.Driver[aws.InstanceConfig], driver.CreateRequest[aws.InstanceConfig]) {
			req := newRequest(identity, newConfig(t, filteredSubnet))
			req.Since = ec2.clock.Now().Add(-time.Minute)
			return ec2.connectRestarted(t), req
		},
		"in the next process, after a move": func(ec2 env, _ driver.Driver[aws.InstanceConfig]) (driver.Driver[aws.InstanceConfig], driver.CreateRequest[aws.InstanceConfig]) {
			return ec2.connectRestarted(t), newRequest(identity, newConfig(t, filteredSubnet))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ec2 := newEnv(t, awsfake.Options{})
			d := ec2.connect(t)
			ec2.cloud.HideNext(4)
			ec2.cloud.FailNext(awsfake.Fault{Lost: true})
			if _, err := d.Create(t.Context(), newRequest(identity, newConfig(t, filteredSubnet))); err == nil {
				t.Fatal("the answer was not lost")
			}
			requests := ec2.cloud.Requests()
			ec2.cloud.RemoveSubnet(requests[0]["NetworkInterface.1.SubnetId"])
			ec2.clock.Advance(90 * time.Second) // lookups are cached for a minute
			d, req := again(ec2, d)
			for range 3 {
				if created, err := d.Create(t.Context(), req); err == nil || driver.IsInvalidConfiguration(err) {
					t.Fatalf("while EC2 does not list it: got %+v and %v", created, err)
				}
			}
			_, _ = d.Get(t.Context(), identity)
			created, err := d.Create(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{created.ID}, listInstanceIDs(t, d)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := len(ec2.cloud.Requests()); got != len(requests) {
				t.Errorf("%d calls of RunInstances, want one", got)
			}
		})
	}
}

// TestNewMachineIsCreatedInTheStartupWindow: the instance of a machine that is younger than the process is created at once.
func TestNewMachineIsCreatedInTheStartupWindow(t *testing.T) {
	t.Parallel()
	ec2 := newEnv(t, awsfake.Options{})
	d := ec2.connectRestarted(t)
	req := newRequest(identity, newConfig(t, filteredSubnet))
	req.Since = ec2.clock.Now().Add(time.Second)
	if _, err := d.Create(t.Context(), req); err != nil {
		t.Errorf("a machine that is new: %v", err)
	}
	fixed := identity
	fixed.UID, fixed.Name = "0a1b2c3d-0000-4000-8000-000000000002", "worker-2"
	if _, err := d.Create(t.Context(), newRequest(fixed, newConfig(t, unchanged))); err != nil {
		t.Errorf("a machine in a subnet of its own: %v", err)
	}
}

// TestAnsweredCreationIsNotRepeated: the provider ID may not have been stored, and EC2 may not list the instance yet.
func TestAnsweredCreationIsNotRepeated(t *testing.T) {
	t.Parallel()
	ec2 := newEnv(t, awsfake.Options{})
	d := ec2.connect(t)
	ec2.cloud.HideNext(3)
	first, err := d.Create(t.Context(), newRequest(identity, newConfig(t, filteredSubnet)))
	if err != nil {
		t.Fatal(err)
	}
	ec2.cloud.RemoveSubnet(ec2.cloud.Requests()[0]["NetworkInterface.1.SubnetId"])
	ec2.clock.Advance(90 * time.Second)
	second, err := d.Create(t.Context(), newRequest(identity, newConfig(t, filteredSubnet)))
	if err != nil || second.ID != first.ID {
		t.Errorf("got %+v and %v, want the first one", second, err)
	}
}

// TestRefusalResolvesAnUnansweredCreation: after it another configuration, in another zone, may be created.
func TestRefusalResolvesAnUnansweredCreation(t *testing.T) {
	t.Parallel()
	ec2 := newEnv(t, awsfake.Options{})
	d := ec2.connect(t)
	full := newConfig(t, func(s *infrav1.AWSMachineSpec) { s.InstanceType = "m7i.48xlarge" })
	ec2.cloud.FailNext(awsfake.Fault{Lost: true})
	if _, err := d.Create(t.Context(), newRequest(identity, full)); err == nil {
		t.Fatal("the answer was not lost")
	}
	if _, err := d.Create(t.Context(), newRequest(identity, full)); !driver.IsInsufficientCapacity(err) {
		t.Fatalf("got %v, want an InsufficientCapacityError", err)
	}
	if _, err := d.Create(t.Context(), newRequest(identity, newConfig(t, func(s *infrav1.AWSMachineSpec) { s.Subnet.ID = awsfake.SubnetB }))); err != nil {
		t.Errorf("another zone: %v", err)
	}
}

// TestIdentityIsNotAPattern: EC2 matches wildcards in the values of filters, and the identity comes from an annotation.
func TestIdentityIsNotAPattern(t *testing.T) {
	t.Parallel()
	ec2 := newEnv(t, awsfake.Options{})
	d := ec2.connect(t)
	if _, err := d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged))); err != nil {
		t.Fatal(err)
	}
	for _, uid := range []types.UID{"*", "0a1b2c3d-????-*", `\*`, ""} {
		otherIdentity := identity
		otherIdentity.UID = uid
		if found, err := d.Get(t.Context(), otherIdentity); !driver.IsNotFound(err) {
			t.Errorf("%q: got %+v and %v, want a NotFoundError", uid, found, err)
		}
	}
}

// TestTagKeepsTagsOfOtherMachines: the author of a machine may choose its UID, and it may be a pattern.
func TestTagKeepsTagsOfOtherMachines(t *testing.T) {
	t.Parallel()
	for _, uid := range []types.UID{"*", "vic?im"} {
		ec2 := newEnv(t, awsfake.Options{})
		d := ec2.connect(t)
		other := driver.Identity{UID: "victim", Name: "worker", Owner: driver.Owner{UID: "1", Namespace: "victim", Name: "home"}}
		if _, err := d.Create(t.Context(), newRequest(other, newConfig(t, unchanged))); err != nil {
			t.Fatal(err)
		}
		before := ec2.cloud.Tags(driver.TagClusterNamespace)
		otherIdentity := driver.Identity{UID: uid, Name: "worker", Owner: driver.Owner{UID: "2", Namespace: "attacker", Name: "home"}}
		if _, err := d.Create(t.Context(), newRequest(otherIdentity, newConfig(t, unchanged))); err != nil {
			t.Fatal(err)
		}
		otherIdentity.Owner.UID = "3" // the Cluster was created again
		if err := d.(driver.Tagger).Tag(t.Context(), otherIdentity); err != nil {
			t.Errorf("%q: %v", uid, err)
		}
		namespaces, clusters := ec2.cloud.Tags(driver.TagClusterNamespace), ec2.cloud.Tags(driver.TagClusterUID)
		for id := range before {
			if namespaces[id] != "victim" || clusters[id] != "1" {
				t.Errorf("%q: %s now belongs to %s/%s", uid, id, namespaces[id], clusters[id])
			}
		}
		for id, namespace := range namespaces {
			if namespace == "attacker" && clusters[id] != "3" {
				t.Errorf("%q: its own %s has the tag %q", uid, id, clusters[id])
			}
		}
		if len(namespaces) != 2*len(before) {
			t.Errorf("%q: %d resources have tags, want %d", uid, len(namespaces), 2*len(before))
		}
	}
}

// TestTagKeepsTagsOfTheSameUID: the author of a machine may choose the UID of another machine.
func TestTagKeepsTagsOfTheSameUID(t *testing.T) {
	t.Parallel()
	ec2 := newEnv(t, awsfake.Options{})
	own := driver.Identity{UID: "u", Name: "worker", Owner: driver.Owner{UID: "1", Namespace: "own", Name: "home"}}
	other := driver.Identity{UID: "u", Name: "worker", Owner: driver.Owner{UID: "2", Namespace: "other", Name: "home"}}
	for subnet, id := range map[string]driver.Identity{awsfake.SubnetA: own, awsfake.SubnetB: other} {
		ec2.cloud.HideNext(1) // neither creation finds the other instance
		if _, err := ec2.connect(t).Create(t.Context(), newRequest(id, newConfig(t, func(s *infrav1.AWSMachineSpec) { s.Subnet.ID = subnet }))); err != nil {
			t.Fatal(err)
		}
	}
	d := ec2.connect(t)
	_ = listInstanceIDs(t, d) // the read that omits the second
	namespaces := ec2.cloud.Tags(driver.TagClusterNamespace)
	own.Owner.UID = "3"
	if err := d.(driver.Tagger).Tag(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	for id, cluster := range ec2.cloud.Tags(driver.TagClusterUID) {
		if want := map[string]string{"own": "3", "other": "2"}[namespaces[id]]; cluster != want {
			t.Errorf("%s of namespace %s has the Cluster UID %s, want %s", id, namespaces[id], cluster, want)
		}
	}
}

// TestGetPrefersTheOldestRunningInstance has two instances of one machine.
func TestGetPrefersTheOldestRunningInstance(t *testing.T) {
	t.Parallel()
	ec2 := newEnv(t, awsfake.Options{TerminatedReads: 10})
	var ids []string
	for _, subnet := range []string{awsfake.SubnetA, awsfake.SubnetB} {
		ec2.cloud.HideNext(1)
		created, err := ec2.connect(t).Create(t.Context(), newRequest(identity, newConfig(t, func(s *infrav1.AWSMachineSpec) { s.Subnet.ID = subnet })))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, created.ID)
	}
	d := ec2.connect(t)
	_ = listInstanceIDs(t, d) // the read that omits the second
	for step, want := range ids {
		if got, err := d.Get(t.Context(), identity); err != nil || got.ID != want {
			t.Errorf("step %d: got %q and %v, want %q", step, got.ID, err, want)
		}
		ec2.cloud.Terminate(want)
	}
}
