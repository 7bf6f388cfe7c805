// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package google_test

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/google"
	"drover.io/infra-providers/google/googlefake"
	"drover.io/infra-providers/internal/inflight"
)

// TestLostAnswerIsRepeatedWithTheSameRequestID: the repetition is answered with the first operation.
func TestLostAnswerIsRepeatedWithTheSameRequestID(t *testing.T) {
	t.Parallel()
	gce := newEnv(t, googlefake.Options{OperationReads: 1})
	d := gce.connect(t)
	gce.cloud.HideNext(3)
	gce.cloud.FailNext(googlefake.Fault{Lost: true})
	req := newRequest(identity, newConfig(t, unchanged))
	if _, err := d.Create(t.Context(), req); err == nil || driver.IsUnfinished(err) {
		t.Fatalf("got %v, the answer was not lost", err)
	}
	if _, err := d.Get(t.Context(), identity); driver.IsNotFound(err) {
		t.Errorf("while the answer is missing: got %v", err)
	}
	if _, err := drivertest.Create(t, d, req); err != nil {
		t.Fatal(err)
	}
	if requests, _ := gce.cloud.Requests(); len(requests) != 1 {
		t.Errorf("%d insertions, want 1", len(requests))
	}
}

// TestRetryAfterTheRequestIDExpired: the name of the instance prevents a second one.
func TestRetryAfterTheRequestIDExpired(t *testing.T) {
	t.Parallel()
	gce := newEnv(t, googlefake.Options{OperationReads: 1})
	d := gce.connect(t)
	gce.cloud.HideNext(3)
	gce.cloud.FailNext(googlefake.Fault{Lost: true})
	req := newRequest(identity, newConfig(t, unchanged))
	if _, err := d.Create(t.Context(), req); err == nil {
		t.Fatal("the answer was not lost")
	}
	gce.cloud.ForgetRequests()
	gce.clock.Advance(24 * time.Hour)
	if _, err := drivertest.Create(t, d, req); err != nil {
		t.Fatal(err)
	}
	if got := gce.cloud.Leftovers(); len(got) != 2 {
		t.Errorf("%q exist, want an instance and its disk", got)
	}
}

// TestEachAttemptHasAnotherRequestID: with the first one, the cloud would answer with the first failure for ever.
func TestEachAttemptHasAnotherRequestID(t *testing.T) {
	t.Parallel()
	gce := newEnv(t, googlefake.Options{OperationReads: 1})
	d := gce.connect(t)
	req := newRequest(identity, newConfig(t, unchanged))
	for range 2 {
		gce.cloud.FailNext(googlefake.Fault{Operation: "ZONE_RESOURCE_POOL_EXHAUSTED", Message: "full"})
		if _, err := drivertest.Create(t, d, req); !driver.IsInsufficientCapacity(err) {
			t.Fatalf("got %v, want an InsufficientCapacityError", err)
		}
	}
	if _, err := drivertest.Create(t, d, req); err != nil {
		t.Fatal(err)
	}
	_, ids := gce.cloud.Requests()
	if slices.Sort(ids); len(slices.Compact(ids)) != 3 {
		t.Errorf("got the request IDs %q, want three", ids)
	}
}

// TestOtherZoneWaitsForALostAnswer: an instance may exist in the first zone that no list has yet.
func TestOtherZoneWaitsForALostAnswer(t *testing.T) {
	t.Parallel()
	gce := newEnv(t, googlefake.Options{OperationReads: 1})
	d := gce.connect(t)
	gce.cloud.HideNext(2)
	gce.cloud.FailNext(googlefake.Fault{Lost: true})
	if _, err := d.Create(t.Context(), newRequest(identity, newConfig(t, unchanged))); err == nil {
		t.Fatal("the answer was not lost")
	}
	elsewhere := newRequest(identity, newConfig(t, func(s *infrav1.GoogleMachineSpec) { s.Zone = googlefake.ZoneB }))
	for range 2 {
		if created, err := d.Create(t.Context(), elsewhere); err == nil || driver.IsInsufficientCapacity(err) || driver.IsQuotaExceeded(err) {
			t.Fatalf("while it is not listed: got %+v and %v", created, err)
		}
	}
	created, err := drivertest.Create(t, d, elsewhere)
	if err != nil || created.FailureDomain != googlefake.ZoneA {
		t.Errorf("got %+v and %v, want the instance in the first zone", created, err)
	}
	if got := drivertest.ProviderIDs(t, d); len(got) != 1 {
		t.Errorf("%q exist, want one", got)
	}
}

// TestOtherProcessFindsAnUnfinishedInsertion, and makes no second one in the zone.
func TestOtherProcessFindsAnUnfinishedInsertion(t *testing.T) {
	t.Parallel()
	gce := newEnv(t, googlefake.Options{OperationReads: 2})
	gce.cloud.HideNext(1)
	req := newRequest(identity, newConfig(t, unchanged))
	if _, err := gce.connect(t).Create(t.Context(), req); !driver.IsUnfinished(err) {
		t.Fatalf("got %v, want an UnfinishedError", err)
	}
	d := gce.connectRestarted(t)
	if _, err := d.Create(t.Context(), req); !driver.IsUnfinished(err) {
		t.Errorf("another process: got %v, want an UnfinishedError", err)
	}
	created, err := drivertest.Create(t, d, req)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{created.ProviderID}, drivertest.ProviderIDs(t, d)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRefusalCountsOnlyWithoutAnInstance: another process has requested the same, with success.
func TestRefusalCountsOnlyWithoutAnInstance(t *testing.T) {
	t.Parallel()
	gce := newEnv(t, googlefake.Options{})
	req := newRequest(identity, newConfig(t, unchanged))
	gce.cloud.HideNext(5)
	if _, err := drivertest.Create(t, gce.connect(t), req); err != nil {
		t.Fatal(err)
	}
	gce.cloud.FailNext(googlefake.Fault{Status: 403, Reason: "quotaExceeded", Message: "Quota exceeded"})
	if found, err := gce.connect(t).Create(t.Context(), req); err != nil {
		t.Errorf("got %+v and %v, want the instance", found, err)
	}
}

// TestNothingIsMissingInTheStartupWindow: an earlier process may have requested what no list has yet.
func TestNothingIsMissingInTheStartupWindow(t *testing.T) {
	t.Parallel()
	gce := newEnv(t, googlefake.Options{})
	gce.cloud.HideNext(1)
	created, err := drivertest.Create(t, gce.connect(t), newRequest(identity, newConfig(t, unchanged)))
	if err != nil {
		t.Fatal(err)
	}
	d := gce.connectRestarted(t)
	if err := d.Delete(t.Context(), identity); err == nil {
		t.Error("deleted what is not listed yet")
	}
	byName := identity
	byName.ProviderID = created.ProviderID
	if _, err := d.Get(t.Context(), byName); err != nil {
		t.Errorf("by its name: %v", err)
	}
	never := identity
	never.UID = "never"
	if _, err := d.Get(t.Context(), never); err == nil || driver.IsNotFound(err) {
		t.Errorf("in the window: got %v", err)
	}
	gce.clock.Advance(inflight.Window)
	if _, err := d.Get(t.Context(), never); !driver.IsNotFound(err) {
		t.Errorf("after the window: got %v, want a NotFoundError", err)
	}
}

// TestInsertionThatEndsBetweenTwoReadsIsNotMissed: an instance that does not exist yet may exist when its operation has ended.
func TestInsertionThatEndsBetweenTwoReadsIsNotMissed(t *testing.T) {
	t.Parallel()
	operationReads := atomic.Int64{}
	gce := newEnv(t, googlefake.Options{Faults: func(method string) googlefake.Fault {
		switch {
		case method == "zoneOperations.get":
			operationReads.Add(1)
		case method == "instances.get" && operationReads.Load() < 2:
			return googlefake.Fault{Status: http.StatusNotFound, Reason: "notFound", Message: "The resource was not found"}
		}
		return googlefake.Fault{}
	}})
	d := gce.connect(t)
	gce.cloud.HideNext(100)
	req := newRequest(identity, newConfig(t, unchanged))
	for range 2 {
		if _, err := d.Create(t.Context(), req); !driver.IsUnfinished(err) {
			t.Fatalf("got %v, want an UnfinishedError", err)
		}
	}
	for range 3 {
		if err := d.Delete(t.Context(), identity); err != nil {
			t.Logf("deleting: %v", err)
		}
		if _, err := d.Get(t.Context(), identity); driver.IsNotFound(err) {
			break
		}
	}
	if left := gce.cloud.Leftovers(); len(left) > 0 {
		t.Errorf("the instance counts as gone, and %q is left", left)
	}
}

// TestDisksOfAFailedInsertionAreDeleted in the same zone, in another one, and without any instance.
func TestDisksOfAFailedInsertionAreDeleted(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]func(*infrav1.GoogleMachineSpec){
		"before the next one in the zone":   withDisk,
		"with the instance in another zone": func(s *infrav1.GoogleMachineSpec) { withDisk(s); s.Zone = googlefake.ZoneB },
		"without an instance":               nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gce := newEnv(t, googlefake.Options{OperationReads: 1})
			d := gce.connect(t)
			gce.cloud.FailNext(googlefake.Fault{Operation: "ZONE_RESOURCE_POOL_EXHAUSTED", Message: "full", LeavesDisks: true})
			if _, err := drivertest.Create(t, d, newRequest(identity, newConfig(t, withDisk))); !driver.IsInsufficientCapacity(err) {
				t.Fatalf("got %v, want an InsufficientCapacityError", err)
			}
			if left := gce.cloud.Leftovers(); len(left) != 2 {
				t.Fatalf("%q exist, want two disks", left)
			}
			if second != nil {
				if _, err := drivertest.Create(t, d, newRequest(identity, newConfig(t, second))); err != nil {
					t.Fatal(err)
				}
			}
			for range 5 {
				if err := d.Delete(t.Context(), identity); err != nil {
					t.Fatal(err)
				}
				_, _ = d.Get(t.Context(), identity)
			}
			if left := gce.cloud.Leftovers(); len(left) > 0 {
				t.Errorf("%q is left", left)
			}
		})
	}
}

// TestDisksOfAFailedInsertionAreDeletedBeforeTheyAreListed: the machine is deleted as soon as its insertion has failed.
func TestDisksOfAFailedInsertionAreDeletedBeforeTheyAreListed(t *testing.T) {
	t.Parallel()
	for name, attempts := range map[string]int{"after the failure was seen": 20, "before": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gce := newEnv(t, googlefake.Options{OperationReads: 1})
			d := gce.connect(t)
			gce.cloud.HideNext(1000)
			gce.cloud.FailNext(googlefake.Fault{Operation: "ZONE_RESOURCE_POOL_EXHAUSTED", Message: "full", LeavesDisks: true})
			for range attempts {
				if _, err := d.Create(t.Context(), newRequest(identity, newConfig(t, withDisk))); driver.IsInsufficientCapacity(err) {
					break
				} else if !driver.IsUnfinished(err) {
					t.Fatalf("got %v", err)
				}
			}
			for range 5 {
				err := d.Delete(t.Context(), identity)
				if _, getErr := d.Get(t.Context(), identity); err == nil && driver.IsNotFound(getErr) {
					break
				}
			}
			if left := gce.cloud.Leftovers(); len(left) > 0 {
				t.Errorf("the machine counts as deleted, and %q is left", left)
			}
		})
	}
}

// TestIncompleteListIsAnError: what a zone that is not listed has would count as gone.
func TestIncompleteListIsAnError(t *testing.T) {
	t.Parallel()
	for name, omit := range map[string]func(*googlefake.Cloud){
		"unreachable":              func(c *googlefake.Cloud) { c.Disconnect(googlefake.ZoneB) },
		"listed in part":           func(c *googlefake.Cloud) { c.Omit(googlefake.ZoneB, "PARTIAL_SUCCESS") },
		"with too much to filter":  func(c *googlefake.Cloud) { c.Omit(googlefake.ZoneB, "LIST_OVERHEAD_QUOTA_EXCEED") },
		"not named by the warning": func(c *googlefake.Cloud) { c.OmitUnnamed(googlefake.ZoneB, "PARTIAL_SUCCESS") },
		"unreachable, and unnamed": func(c *googlefake.Cloud) { c.OmitUnnamed(googlefake.ZoneB, "UNREACHABLE") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gce := newEnv(t, googlefake.Options{})
			here, there := newRequest(identity, newConfig(t, unchanged)), newRequest(identity, newConfig(t, func(s *infrav1.GoogleMachineSpec) { s.Zone = googlefake.ZoneB }))
			there.Identity.UID, there.Identity.Name = "0a1b2c3d-0000-4000-8000-000000000002", "worker-2"
			var created []driver.Instance
			for _, req := range []driver.CreateRequest[google.InstanceConfig]{here, there} {
				made, err := drivertest.Create(t, gce.connect(t), req)
				if err != nil {
					t.Fatal(err)
				}
				created = append(created, made)
			}
			omit(gce.cloud)
			d := gce.connect(t) // another process, which does not know what was requested
			failed := false
			for _, err := range d.List(t.Context(), driver.Owner{}) {
				failed = failed || err != nil
			}
			if !failed {
				t.Error("the list is incomplete, and without an error")
			}
			if _, err := d.Get(t.Context(), there.Identity); err == nil || driver.IsNotFound(err) {
				t.Errorf("got %v, want another error", err)
			}
			if err := d.Delete(t.Context(), there.Identity); err == nil {
				t.Error("the machine counts as deleted")
			}
			// The instance of a deleted machine is deleted, and the machine waits for its disks.
			if err := d.Delete(t.Context(), created[0].Identity); err != nil {
				t.Error(err)
			}
			if left := gce.cloud.Leftovers(); !slices.Contains(left, "instance europe-west3-b/worker-2") {
				t.Errorf("%q are left, without the instance that is not listed", left)
			}
		})
	}
}

// TestPreemptionIsReported: only the operations have the cause.
func TestPreemptionIsReported(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stop func(*googlefake.Cloud)
		want string
	}{
		"preempted":              {(*googlefake.Cloud).Preempt, "Compute Engine preempted the Spot VM; it is not started again"},
		"stopped by an operator": {(*googlefake.Cloud).Stop, "the Spot VM was stopped, and not by Compute Engine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gce := newEnv(t, googlefake.Options{})
			d := gce.connect(t)
			if _, err := drivertest.Create(t, d, newRequest(identity, newConfig(t, func(s *infrav1.GoogleMachineSpec) { s.ProvisioningModel = "SPOT" }))); err != nil {
				t.Fatal(err)
			}
			test.stop(gce.cloud)
			for range 2 {
				found, err := d.Get(t.Context(), identity)
				if err != nil || found.State != driver.Stopped || found.Message != test.want {
					t.Errorf("got %q, %q and %v", found.State, found.Message, err)
				}
			}
			for listed, err := range d.List(t.Context(), driver.Owner{}) {
				if err != nil || listed.Message != test.want {
					t.Errorf("the list has %q and %v", listed.Message, err)
				}
			}
			if got := gce.cloud.Counts()["zoneOperations.list"]; got != 1 {
				t.Errorf("operations were listed %d times, want once", got)
			}
			if err := d.(driver.Restarter).Restart(t.Context(), identity); !driver.IsNotRunning(err) {
				t.Errorf("restarting it: got %v, want a NotRunningError", err)
			}
		})
	}
}

// TestStopOfUnknownCauseFailsNoList: a role without compute.zoneOperations.list would else fail every machine of the project as
// soon as one Spot VM is preempted.
func TestStopOfUnknownCauseFailsNoList(t *testing.T) {
	t.Parallel()
	gce := newEnv(t, googlefake.Options{Faults: func(method string) googlefake.Fault {
		if method == "zoneOperations.list" {
			return googlefake.Fault{Status: http.StatusForbidden, Reason: "forbidden", Message: "Required 'compute.zoneOperations.list' permission"}
		}
		return googlefake.Fault{}
	}})
	d := gce.connect(t)
	created, err := drivertest.Create(t, d, newRequest(identity, newConfig(t, func(s *infrav1.GoogleMachineSpec) { s.ProvisioningModel = "SPOT" })))
	if err != nil {
		t.Fatal(err)
	}
	gce.cloud.Preempt()
	if diff := cmp.Diff([]string{created.ProviderID}, drivertest.ProviderIDs(t, d)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if found, err := d.Get(t.Context(), created.Identity); err != nil || found.State != driver.Stopped || found.Message == "" {
		t.Errorf("got %q, %q and %v", found.State, found.Message, err)
	}
}

// TestTagLabelsDisks: the labels of the instance and of its disks change; those of another machine and of the user do not.
func TestTagLabelsDisks(t *testing.T) {
	t.Parallel()
	gce := newEnv(t, googlefake.Options{})
	d := gce.connect(t)
	moves, stays := identity, identity
	stays.UID, stays.Name = "0a1b2c3d-0000-4000-8000-000000000002", "worker-2"
	for _, id := range []driver.Identity{moves, stays} {
		config := newConfig(t, func(s *infrav1.GoogleMachineSpec) {
			withDisk(s)
			s.Labels = map[string]infrav1.GoogleLabelValue{"cost-center": "a"}
		})
		if _, err := drivertest.Create(t, d, newRequest(id, config)); err != nil {
			t.Fatal(err)
		}
	}
	moves.Owner.UID = "after"
	for range 2 {
		if err := d.(driver.Tagger).Tag(t.Context(), moves); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{}
	for _, key := range []string{"instance europe-west3-a/worker-", "disk europe-west3-a/worker-"} {
		want[key+"1"], want[key+"2"] = "after", "c"
	}
	want["disk europe-west3-a/worker-1-data"], want["disk europe-west3-a/worker-2-data"] = "after", "c"
	if diff := cmp.Diff(want, gce.cloud.Labels("drover-cluster-uid")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, value := range gce.cloud.Labels("cost-center") {
		if value != "a" {
			t.Errorf("%s has the user's label %q", name, value)
		}
	}
	counts := gce.cloud.Counts()
	if counts["instances.setLabels"] != 1 || counts["disks.setLabels"] != 2 {
		t.Errorf("labels were set %d and %d times, want 1 and 2", counts["instances.setLabels"], counts["disks.setLabels"])
	}
}

// TestNamesakeWaits: names are unique in a zone.
func TestNamesakeWaits(t *testing.T) {
	t.Parallel()
	gce := newEnv(t, googlefake.Options{})
	d := gce.connect(t)
	other := identity
	other.UID, other.Owner = "0a1b2c3d-0000-4000-8000-000000000009", driver.Owner{UID: "o", Namespace: "elsewhere", Name: "home"}
	if _, err := drivertest.Create(t, d, newRequest(other, newConfig(t, unchanged))); err != nil {
		t.Fatal(err)
	}
	req := newRequest(identity, newConfig(t, unchanged))
	if _, err := drivertest.Create(t, d, req); err == nil || driver.IsNotOwned(err) || driver.IsInvalidConfiguration(err) {
		t.Fatalf("got %v, want an error that passes", err)
	}
	if err := d.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	_, _ = d.Get(t.Context(), other)
	var created driver.Instance
	var err error
	for range 10 {
		if created, err = drivertest.Create(t, d, req); err == nil {
			break
		}
	}
	if err != nil || created.Identity.UID != identity.UID {
		t.Errorf("got %+v and %v", created, err)
	}
}

var _ driver.AttachedObjectLister = (*google.Driver)(nil)
