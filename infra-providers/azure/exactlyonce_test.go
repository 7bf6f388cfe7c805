// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"

	"drover.io/infra-providers/azure/azurefake"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/internal/orphan"
)

// TestLostAnswers: the request for each resource takes effect and its answer is lost.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"PublicIPAddressesClient.BeginCreateOrUpdate", putInterface, putMachine} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			arm := newEnv(t, azurefake.Options{CreateReads: 1, NetworkReads: 1})
			arm.cloud.FailNext(azurefake.Fault{On: method, Lost: true})
			req, lost := newRequest(identity, newConfig(t, everything)), false
			for range 10 {
				_, err := arm.connect(t).Create(t.Context(), req) // each call by another process
				if err != nil && !driver.IsUnfinished(err) {
					lost = true
				}
			}
			if !lost {
				t.Fatal("no answer was lost, so this proves nothing")
			}
			want := []string{
				"disk drover-0a1b2c3d-0000-4000-8000-000000000001", "disk drover-0a1b2c3d-0000-4000-8000-000000000001-data",
				"network interface drover-0a1b2c3d-0000-4000-8000-000000000001", "public IP address drover-0a1b2c3d-0000-4000-8000-000000000001", "virtual machine worker-1",
			}
			if diff := cmp.Diff(want, arm.cloud.Leftovers()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if requests := arm.cloud.Requests(); len(requests) != 1 {
				t.Errorf("%d virtual machines were accepted, want 1", len(requests))
			}
		})
	}
}

// TestCallersRace: many processes create the same machine.
func TestCallersRace(t *testing.T) {
	t.Parallel()
	arm := newEnv(t, azurefake.Options{CreateReads: 2, NetworkReads: 2})
	req := newRequest(identity, newConfig(t, everything))
	var callers sync.WaitGroup
	for range 6 {
		d := arm.connect(t)
		callers.Go(func() {
			for range 20 {
				_, _ = d.Create(t.Context(), req)
			}
		})
	}
	callers.Wait()
	if requests := arm.cloud.Requests(); len(requests) != 1 {
		t.Errorf("%d virtual machines were accepted, want 1", len(requests))
	}
	if got := drivertest.ProviderIDs(t, arm.connect(t)); len(got) != 1 {
		t.Errorf("%q exist, want one", got)
	}
}

// TestRetryAfterADay: nothing that decides expires.
func TestRetryAfterADay(t *testing.T) {
	t.Parallel()
	arm := newEnv(t, azurefake.Options{})
	d, req := arm.connect(t), newRequest(identity, newConfig(t, everything))
	arm.cloud.FailNext(azurefake.Fault{On: putMachine, Lost: true})
	if _, err := drivertest.Create(t, d, req); err == nil {
		t.Fatal("the answer was not lost")
	}
	arm.clock.Advance(24 * time.Hour)
	if _, err := drivertest.Create(t, d, req); err != nil {
		t.Fatal(err)
	}
	if requests := arm.cloud.Requests(); len(requests) != 1 {
		t.Errorf("%d virtual machines were accepted, want 1", len(requests))
	}
}

// TestVirtualMachineOfTheSameName is not Drover's: it is not changed, and nothing is created.
func TestVirtualMachineOfTheSameName(t *testing.T) {
	t.Parallel()
	for name, tags := range map[string]map[string]*string{"without tags": nil, "with tags of others": {"team": ptr.To("x")}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arm := newEnv(t, azurefake.Options{})
			d := arm.connect(t)
			arm.cloud.AddVirtualMachine(identity.Name, tags)
			before := arm.cloud.Changes()
			_, err := drivertest.Create(t, d, newRequest(identity, newConfig(t, everything)))
			if err == nil || !strings.Contains(err.Error(), "another virtual machine with the name") {
				t.Errorf("got %v", err)
			}
			if err := d.Delete(t.Context(), identity); err != nil {
				t.Errorf("deleting: %v", err)
			}
			if got := arm.cloud.Changes() - before; got != 0 {
				t.Errorf("%d requests changed something", got)
			}
			if listed := drivertest.ProviderIDs(t, d); len(listed) > 0 {
				t.Errorf("%q is listed", listed)
			}
		})
	}
}

// TestNameThatIsTakenMeanwhile: If-None-Match refuses the request, so that what has the name is not changed.
func TestNameThatIsTakenMeanwhile(t *testing.T) {
	t.Parallel()
	arm := newEnv(t, azurefake.Options{NetworkReads: 1})
	d, req := arm.connect(t), newRequest(identity, newConfig(t, unchanged))
	if _, err := d.Create(t.Context(), req); !driver.IsUnfinished(err) {
		t.Fatalf("got %v, want an UnfinishedError", err)
	}
	arm.cloud.FailNext(azurefake.Fault{On: putMachine, Status: 412, Code: "PreconditionFailed", Message: "exists"})
	for range 2 {
		if _, err := d.Create(t.Context(), req); !driver.IsUnfinished(err) {
			t.Fatalf("got %v, want an UnfinishedError", err)
		}
	}
	arm.cloud.AddVirtualMachine(identity.Name, nil)
	if _, err := drivertest.Create(t, d, req); err == nil || driver.IsInvalidConfiguration(err) {
		t.Errorf("got %v, want an error that may pass", err)
	}
	remove(t, d, identity)
	if diff := cmp.Diff([]string{"virtual machine worker-1"}, arm.cloud.Leftovers()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRefusalCountsOnlyWithoutAVirtualMachine: the request was refused because another process has requested the same.
func TestRefusalCountsOnlyWithoutAVirtualMachine(t *testing.T) {
	t.Parallel()
	arm := newEnv(t, azurefake.Options{})
	arm.cloud.FailNext(azurefake.Fault{On: putMachine, Lost: true})
	arm.cloud.FailNext(azurefake.Fault{On: "VirtualMachinesClient.Get", Status: 404, Code: "ResourceNotFound"}) // it is read before it exists
	d, req := arm.connect(t), newRequest(identity, newConfig(t, unchanged))
	if _, err := d.Create(t.Context(), req); err == nil {
		t.Fatal("the answer was not lost")
	}
	if _, err := drivertest.Create(t, d, req); err != nil {
		t.Fatal(err)
	}
	if requests := arm.cloud.Requests(); len(requests) != 1 {
		t.Errorf("%d virtual machines were accepted, want 1", len(requests))
	}
}

// TestFailedVirtualMachineIsDeleted before the refusal is returned, also by a process that did not request it.
func TestFailedVirtualMachineIsDeleted(t *testing.T) {
	t.Parallel()
	for code, is := range map[string]func(error) bool{
		"AllocationFailed":                      driver.IsInsufficientCapacity,
		"ZonalAllocationFailed":                 driver.IsInsufficientCapacity,
		"OverconstrainedAllocationRequest":      driver.IsInsufficientCapacity,
		"OverconstrainedZonalAllocationRequest": driver.IsInsufficientCapacity,
		"PlatformImageNotFound":                 driver.IsInvalidConfiguration,
		"InternalExecutionError": func(err error) bool {
			return err != nil && !driver.IsInsufficientCapacity(err) && !driver.IsInvalidConfiguration(err)
		},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			arm := newEnv(t, azurefake.Options{CreateReads: 1, DeleteReads: 1})
			arm.cloud.FailNext(azurefake.Fault{On: putMachine, Allocation: code, LeavesDisks: true})
			req := newRequest(identity, newConfig(t, everything))
			if _, err := arm.connect(t).Create(t.Context(), req); !driver.IsUnfinished(err) {
				t.Fatalf("got %v, want an UnfinishedError", err)
			}
			d := arm.connect(t)
			if found := drivertest.ProviderIDs(t, d); len(found) != 0 {
				t.Errorf("%q is listed, although it may fail", found)
			}
			if _, err := drivertest.Create(t, d, req); !is(err) {
				t.Errorf("got %v", err)
			}
			if left := arm.cloud.Leftovers(); strings.Contains(strings.Join(left, ","), "virtual machine") {
				t.Errorf("%q is left", left)
			}
			second := newRequest(identity, newConfig(t, func(s *infrav1.AzureMachineSpec) { everything(s); s.Zone = "2" }))
			created, err := drivertest.Create(t, d, second)
			if err != nil || created.FailureDomain != "2" {
				t.Errorf("got %+v and %v, want one in the other zone", created, err)
			}
			remove(t, d, identity)
			if left := arm.cloud.Leftovers(); len(left) > 0 {
				t.Errorf("%q is left", left)
			}
		})
	}
}

// TestWhatIsBesideGoes, whatever of it Azure did not delete and whoever continues.
func TestWhatIsBesideGoes(t *testing.T) {
	t.Parallel()
	arm := newEnv(t, azurefake.Options{KeepsAttached: true, DeleteReads: 1, NetworkDeleteReads: 2})
	if _, err := drivertest.Create(t, arm.connect(t), newRequest(identity, newConfig(t, everything))); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		d := arm.connect(t) // another process
		if err := d.Delete(t.Context(), identity); err != nil && !driver.IsUnfinished(err) {
			t.Fatal(err)
		}
		found, err := arm.connect(t).Get(t.Context(), identity)
		if driver.IsNotFound(err) {
			break
		}
		if err != nil || found.State != driver.Stopping {
			t.Fatalf("got %+v and %v, want an instance that is Stopping", found, err)
		}
	}
	if left := arm.cloud.Leftovers(); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

// TestRemovalAfterTheVirtualMachine: Azure deletes what is beside a virtual machine some time after that is gone, and the next
// attempt has read it before.
func TestRemovalAfterTheVirtualMachine(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*infrav1.AzureMachineSpec){"a network interface": unchanged, "its public address": everything} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arm := newEnv(t, azurefake.Options{NetworkReads: 1})
			d, req := arm.connect(t), newRequest(identity, newConfig(t, change))
			for !strings.Contains(strings.Join(arm.cloud.Leftovers(), ","), "network interface") {
				if _, err := d.Create(t.Context(), req); !driver.IsUnfinished(err) {
					t.Fatalf("got %v, want an UnfinishedError", err)
				}
				arm.cloud.Advance()
			}
			arm.cloud.RemoveOnceRead()
			if _, err := drivertest.Create(t, d, req); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestInvalidRequestStaysInvalid, because what it needs is there.
func TestInvalidRequestStaysInvalid(t *testing.T) {
	t.Parallel()
	arm := newEnv(t, azurefake.Options{})
	arm.cloud.FailNext(azurefake.Fault{On: putMachine, Status: 400, Code: "InvalidResourceReference", Message: "no such proximity placement group"})
	if _, err := drivertest.Create(t, arm.connect(t), newRequest(identity, newConfig(t, everything))); !driver.IsInvalidConfiguration(err) {
		t.Errorf("got %v, want an InvalidConfigurationError", err)
	}
}

// TestWhatIsBesideIsCollected when nothing else of the machine is left.
func TestWhatIsBesideIsCollected(t *testing.T) {
	t.Parallel()
	arm := newEnv(t, azurefake.Options{})
	d := arm.connect(t)
	created, err := drivertest.Create(t, d, newRequest(identity, newConfig(t, everything)))
	if err != nil {
		t.Fatal(err)
	}
	arm.cloud.Remove(created.ID)
	in := orphan.Input{
		Now: time.Now().Add(time.Hour), Clusters: map[driver.Owner]orphan.ClusterState{identity.Owner: {}}, Suspects: map[string]time.Time{}, Grace: time.Minute, Cap: 10,
	}
	for thing, err := range d.(driver.AttachedObjectLister).AttachedObjects(t.Context(), driver.Owner{}) {
		if err != nil {
			t.Fatal(err)
		}
		found := orphan.Resource{Account: "azure", Kind: thing.Kind, ID: thing.ID, Identity: thing.Identity, Created: thing.Created}
		in.Resources = append(in.Resources, found)
		in.Suspects["azure "+thing.Kind+"/"+thing.ID] = time.Time{}
	}
	if len(in.Resources) != 4 {
		t.Errorf("%d resources are listed, want 4", len(in.Resources))
	}
	for _, found := range orphan.Plan(in) {
		if found.Class != orphan.ClassOrphaned {
			t.Errorf("%s is %s", found.Kind, found.Class)
		}
	}
}

// TestTimeOfARequestIsKept by a change of the tags, and is no part of the identity.
func TestTimeOfARequestIsKept(t *testing.T) {
	t.Parallel()
	arm := newEnv(t, azurefake.Options{})
	d := arm.connect(t)
	if _, err := drivertest.Create(t, d, newRequest(identity, newConfig(t, everything))); err != nil {
		t.Fatal(err)
	}
	before := arm.cloud.Tags("drover-requested")
	changes := arm.cloud.Changes()
	if err := d.(driver.Tagger).Tag(t.Context(), identity); err != nil {
		t.Fatal(err)
	}
	if got := arm.cloud.Changes() - changes; got != 0 {
		t.Errorf("%d requests changed tags that have the identity", got)
	}
	moved := identity
	moved.Owner.UID = "d"
	if err := d.(driver.Tagger).Tag(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, arm.cloud.Tags("drover-requested")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestReservedInterface: Azure keeps a network interface for some minutes for the virtual machine that could not be created.
func TestReservedInterface(t *testing.T) {
	t.Parallel()
	arm := newEnv(t, azurefake.Options{NetworkReads: 1})
	d := arm.connect(t)
	_, _ = d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged)))
	arm.cloud.FailNext(azurefake.Fault{On: "InterfacesClient.BeginDelete", Status: 400, Code: "NicReservedForAnotherVm", Message: "Nic(s) in request is reserved for another Virtual Machine for 180 seconds."})
	if err := d.Delete(t.Context(), identity); !driver.IsUnfinished(err) {
		t.Errorf("got %v, want an UnfinishedError", err)
	}
	if found, err := d.Get(t.Context(), identity); err != nil || !found.StepDue {
		t.Errorf("got %+v and %v, want a step that is due", found, err)
	}
	remove(t, d, identity)
}

// TestVirtualMachineThatOthersDeleted is gone, with what was beside it.
func TestVirtualMachineThatOthersDeleted(t *testing.T) {
	t.Parallel()
	arm := newEnv(t, azurefake.Options{})
	d := arm.connect(t)
	created, err := drivertest.Create(t, d, newRequest(identity, newConfig(t, everything)))
	if err != nil {
		t.Fatal(err)
	}
	arm.cloud.Remove(created.ID)
	id := identity
	id.ProviderID = created.ProviderID
	if found, err := d.Get(t.Context(), id); err != nil || found.State != driver.Stopping || found.Message == "" {
		t.Errorf("while its disks remain: got %+v and %v", found, err)
	} else if found.PollAfter != 0 {
		t.Errorf("it is read again after %s, although nothing changes", found.PollAfter)
	}
	remove(t, d, id)
	if left := arm.cloud.Leftovers(); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

// TestStoppedInstancesAreListed: no list has the power state, so Resource Graph is asked, which may be behind.
func TestStoppedInstancesAreListed(t *testing.T) {
	t.Parallel()
	arm := newEnv(t, azurefake.Options{GraphDelay: true})
	d := arm.connect(t)
	spot := newConfig(t, func(s *infrav1.AzureMachineSpec) { s.Priority = "Spot" })
	if _, err := drivertest.Create(t, d, newRequest(identity, spot)); err != nil {
		t.Fatal(err)
	}
	arm.cloud.Advance()
	arm.cloud.Stop()
	states := func() (all []driver.State) {
		for found, err := range d.List(t.Context(), driver.Owner{}) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, found.State)
			if found.State == driver.Stopped && !strings.Contains(found.Message, "evicted") {
				t.Errorf("the message is %q", found.Message)
			}
		}
		return all
	}
	if diff := cmp.Diff([]driver.State{driver.Running}, states()); diff != "" {
		t.Errorf("while Resource Graph is behind (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]driver.State{driver.Stopped}, states()); diff != "" {
		t.Errorf("then (-want +got):\n%s", diff)
	}
}

// TestOtherAccountsAreNoEvidence: a subscription or resource group that does not exist proves nothing.
func TestOtherAccountsAreNoEvidence(t *testing.T) {
	t.Parallel()
	arm := newEnv(t, azurefake.Options{})
	for _, region := range []string{azurefake.Subscription + "/gone", "00000000-0000-4000-8000-000000000000/" + azurefake.ResourceGroup} {
		d, err := arm.description().Connect(t.Context(), driver.Account{SecretName: "azure", Region: region}, azurefake.Secret())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Get(t.Context(), identity); !driver.IsUnauthorized(err) {
			t.Errorf("%s: got %v, want an UnauthorizedError", region, err)
		}
		if err := d.Delete(t.Context(), identity); !driver.IsUnauthorized(err) {
			t.Errorf("%s: deleting: got %v, want an UnauthorizedError", region, err)
		}
		if _, err := d.(driver.AccountIdentifier).AccountID(t.Context()); !driver.IsUnauthorized(err) {
			t.Errorf("%s: got %v, want an UnauthorizedError", region, err)
		}
	}
}
