// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package yandex_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/yandex-cloud/go-genproto/yandex/cloud/compute/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/internal/inflight"
	"drover.io/infra-providers/yandex"
	"drover.io/infra-providers/yandex/yandexfake"
)

// patiently creates an instance with as many calls as that takes, also after failures.
func patiently(t *testing.T, d driver.Driver[yandex.InstanceConfig], req driver.CreateRequest[yandex.InstanceConfig]) driver.Instance {
	t.Helper()
	var err error
	for range 100 {
		var created driver.Instance
		if created, err = d.Create(t.Context(), req); err == nil {
			return created
		}
	}
	t.Fatal(err)
	return driver.Instance{}
}

// TestLostAnswersAreRepeatedWithTheSameKey in a cloud where names are not unique: the key alone prevents a second disk and a
// second instance, also in a process without any memory.
func TestLostAnswersAreRepeatedWithTheSameKey(t *testing.T) {
	t.Parallel()
	for name, restarts := range map[string]bool{"in one process": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, yandexfake.Options{OperationReads: 1, ListDelay: 4, DuplicateNames: true})
			d := w.connect(t)
			req := newRequest(identity, newConfig(t, withDisk))
			var err error
			for range 100 {
				w.cloud.FailNext(yandexfake.Fault{Lost: true})
				if _, err = d.Create(t.Context(), req); err == nil {
					break
				}
				if restarts {
					d = w.connectRestarted(t)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			if left := w.cloud.Leftovers(); len(left) != 3 {
				t.Errorf("%q exist, want an instance and two disks", left)
			}
		})
	}
}

// TestConcurrentProcessesCreateOnce, where names are not unique.
func TestConcurrentProcessesCreateOnce(t *testing.T) {
	t.Parallel()
	w := newEnv(t, yandexfake.Options{OperationReads: 2, ListDelay: 2, DuplicateNames: true})
	req := newRequest(identity, newConfig(t, withDisk))
	var wait sync.WaitGroup
	for range 4 {
		d := w.connect(t)
		wait.Go(func() { patiently(t, d, req) })
	}
	wait.Wait()
	if left := w.cloud.Leftovers(); len(left) != 3 {
		t.Errorf("%q exist, want an instance and two disks", left)
	}
}

// TestRetryAfterTheKeysExpired: the unique names prevent a second instance.
func TestRetryAfterTheKeysExpired(t *testing.T) {
	t.Parallel()
	w := newEnv(t, yandexfake.Options{OperationReads: 1})
	d := w.connect(t)
	req := newRequest(identity, newConfig(t, unchanged))
	for len(w.cloud.Counts()) == 0 || w.cloud.Counts()["Instance/Create"] == 0 {
		w.cloud.HideNext(3)
		if w.cloud.Counts()["Disk/Create"] > 0 {
			w.cloud.FailNext(yandexfake.Fault{Lost: true})
		}
		if _, err := d.Create(t.Context(), req); err == nil {
			t.Fatal("the answer was not lost")
		}
	}
	w.cloud.ForgetKeys()
	w.clock.Advance(24 * time.Hour)
	patiently(t, d, req)
	if got := w.cloud.Leftovers(); len(got) != 2 {
		t.Errorf("%q exist, want an instance and its disk", got)
	}
}

// TestEachAttemptHasAnotherKey: with the first one, the cloud would answer with the first failure for ever. A process without
// memory passes the failures that it has not seen.
func TestEachAttemptHasAnotherKey(t *testing.T) {
	t.Parallel()
	for name, restarts := range map[string]bool{"in one process": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, yandexfake.Options{OperationReads: 1})
			d := w.connect(t)
			req := newRequest(identity, newConfig(t, unchanged))
			for range 3 {
				w.cloud.FailNext(yandexfake.Fault{Operation: codes.ResourceExhausted, Message: "Not enough resources"})
				if _, err := drivertest.Create(t, d, req); !driver.IsInsufficientCapacity(err) {
					t.Fatalf("got %v, want an InsufficientCapacityError", err)
				}
			}
			w.clock.Advance(2 * time.Hour)
			if restarts {
				d = w.connectRestarted(t)
			}
			if _, err := drivertest.Create(t, d, req); err != nil {
				t.Fatal(err)
			}
			_, keys := w.cloud.Requests()
			if slices.Sort(keys); len(slices.Compact(keys)) != 4 {
				t.Errorf("got the keys %q, want four", keys)
			}
		})
	}
}

// TestOtherZoneWaitsForALostAnswer: an instance may exist in the first zone that no list has yet.
func TestOtherZoneWaitsForALostAnswer(t *testing.T) {
	t.Parallel()
	w := newEnv(t, yandexfake.Options{})
	d := w.connect(t)
	req := newRequest(identity, newConfig(t, unchanged))
	for range 2 { // the disk, and the read of it
		_, _ = d.Create(t.Context(), req)
		if w.cloud.Counts()["Disk/Create"] > 0 {
			break
		}
	}
	w.cloud.HideNext(6)
	w.cloud.FailNext(yandexfake.Fault{Lost: true})
	if _, err := d.Create(t.Context(), req); err == nil || w.cloud.Counts()["Instance/Create"] != 1 {
		t.Fatalf("got %v and the calls %v, want the answer of the creation lost", err, w.cloud.Counts())
	}
	elsewhere := newRequest(identity, newConfig(t, func(s *infrav1.YandexMachineSpec) { s.Zone = yandexfake.ZoneB }))
	created := patiently(t, d, elsewhere)
	if created.FailureDomain != yandexfake.ZoneA {
		t.Errorf("got an instance in %q, want that in the first zone", created.FailureDomain)
	}
	if got := w.cloud.Leftovers(); len(got) != 2 {
		t.Errorf("%q exist, want an instance and its disk", got)
	}
}

// TestFailedCreationLeavesNothing: an instance in the status ERROR is deleted before the failure is reported, because another
// configuration may be requested after it.
func TestFailedCreationLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newEnv(t, yandexfake.Options{OperationReads: 1, DeletingReads: 2})
	d := w.connect(t)
	w.cloud.FailNext(yandexfake.Fault{Operation: codes.ResourceExhausted, Message: "Not enough resources", LeavesInstance: true})
	req := newRequest(identity, newConfig(t, unchanged))
	if _, err := drivertest.Create(t, d, req); !driver.IsInsufficientCapacity(err) {
		t.Fatalf("got %v, want an InsufficientCapacityError", err)
	}
	for _, left := range w.cloud.Leftovers() {
		if strings.HasPrefix(left, "instance") {
			t.Errorf("%s is left", left)
		}
	}
	if _, err := drivertest.Create(t, d, req); err != nil {
		t.Fatal(err)
	}
}

// TestDyingInstanceIsNotTheMachines: an earlier process has begun to delete what a failed creation left. It is not taken for the
// machine's instance, which would then be missing for ever.
func TestDyingInstanceIsNotTheMachines(t *testing.T) {
	t.Parallel()
	w := newEnv(t, yandexfake.Options{OperationReads: 1, DeletingReads: 6})
	before := w.connect(t)
	w.cloud.FailNext(yandexfake.Fault{Operation: codes.ResourceExhausted, Message: "Not enough resources", LeavesInstance: true})
	req := newRequest(identity, newConfig(t, unchanged))
	for range 20 {
		if w.cloud.Counts()["Instance/Delete"] > 0 {
			break
		}
		if _, err := before.Create(t.Context(), req); !driver.IsUnfinished(err) {
			t.Fatalf("got %v, want an UnfinishedError", err)
		}
	}
	w.clock.Advance(time.Minute)
	created, err := drivertest.Create(t, w.connectRestarted(t), req)
	if err != nil || created.State == driver.Stopping {
		t.Errorf("got an instance that is %s, and %v", created.State, err)
	}
}

// TestShortageOfDisks is told as one, and of the request only: the platform may have capacity.
func TestShortageOfDisks(t *testing.T) {
	t.Parallel()
	w := newEnv(t, yandexfake.Options{OperationReads: 1})
	d := w.connect(t)
	req := newRequest(identity, newConfig(t, unchanged))
	w.cloud.FailNext(yandexfake.Fault{Disk: true, Operation: codes.ResourceExhausted, Details: []proto.Message{quotaFailure("compute.ssdDisks.size")}})
	if _, err := drivertest.Create(t, d, req); !driver.IsQuotaExceeded(err) {
		t.Errorf("got %v, want a QuotaExceededError", err)
	}
	w.cloud.FailNext(yandexfake.Fault{Disk: true, Operation: codes.ResourceExhausted})
	_, err := drivertest.Create(t, d, req)
	if short, ok := err.(*driver.InsufficientCapacityError); !ok || !short.OfRequest { //nolint:errorlint // it is not wrapped
		t.Errorf("got %v, want an InsufficientCapacityError of the request", err)
	}
	if _, err := drivertest.Create(t, d, req); err != nil {
		t.Error(err)
	}
}

// TestNothingIsMissingInTheStartupWindow: an earlier process may have requested what no list has yet.
func TestNothingIsMissingInTheStartupWindow(t *testing.T) {
	t.Parallel()
	w := newEnv(t, yandexfake.Options{})
	w.cloud.HideNext(4)
	created, err := drivertest.Create(t, w.connect(t), newRequest(identity, newConfig(t, unchanged)))
	if err != nil {
		t.Fatal(err)
	}
	d := w.connectRestarted(t)
	if err := d.Delete(t.Context(), identity); err == nil {
		t.Error("deleted what is not listed yet")
	}
	byID := identity
	byID.ProviderID = created.ProviderID
	if _, err := d.Get(t.Context(), byID); err != nil {
		t.Errorf("by its ID: %v", err)
	}
	never := identity
	never.UID = "never"
	if _, err := d.Get(t.Context(), never); err == nil || driver.IsNotFound(err) {
		t.Errorf("in the window: got %v", err)
	}
	w.clock.Advance(inflight.Window)
	if _, err := d.Get(t.Context(), never); !driver.IsNotFound(err) {
		t.Errorf("after the window: got %v, want a NotFoundError", err)
	}
}

// TestMovedInstanceIsNotMissing: its ID leads to another folder, where it still costs money.
func TestMovedInstanceIsNotMissing(t *testing.T) {
	t.Parallel()
	w := newEnv(t, yandexfake.Options{})
	d := w.connect(t)
	created, err := drivertest.Create(t, d, newRequest(identity, newConfig(t, unchanged)))
	if err != nil {
		t.Fatal(err)
	}
	w.cloud.Move("b1gelsewhere00000001")
	byID := identity
	byID.ProviderID = created.ProviderID
	if _, err := d.Get(t.Context(), byID); err == nil || driver.IsNotFound(err) {
		t.Errorf("got %v, want an error that proves no absence", err)
	}
	if err := d.Delete(t.Context(), byID); err == nil {
		t.Error("the deletion of an instance in another folder succeeded")
	}
}

// TestAnotherMachinesNameWaits: the folder has an instance or a disk of the name.
func TestAnotherMachinesNameWaits(t *testing.T) {
	t.Parallel()
	w := newEnv(t, yandexfake.Options{})
	d := w.connect(t)
	other := identity
	other.UID, other.Owner = "other", driver.Owner{UID: "d", Namespace: "other", Name: "home"}
	created, err := drivertest.Create(t, d, newRequest(other, newConfig(t, unchanged)))
	if err != nil {
		t.Fatal(err)
	}
	req := newRequest(identity, newConfig(t, unchanged))
	if _, err := drivertest.Create(t, d, req); err == nil || driver.IsInvalidConfiguration(err) || driver.IsNotOwned(err) {
		t.Fatalf("got %v, want an error that passes", err)
	}
	other.ProviderID = created.ProviderID
	for range 10 {
		if err := d.Delete(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Get(t.Context(), other); driver.IsNotFound(err) {
			break
		}
	}
	patiently(t, d, req)
}

// TestPreemption checks that a preemption is told from a stop by a user.
func TestPreemption(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stop func(*yandexfake.Cloud)
		want string
	}{
		"preempted": {(*yandexfake.Cloud).Preempt, "Compute Cloud preempted"},
		"stopped":   {(*yandexfake.Cloud).Stop, "not by Compute Cloud"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, yandexfake.Options{})
			d := w.connect(t)
			if _, err := drivertest.Create(t, d, newRequest(identity, newConfig(t, func(s *infrav1.YandexMachineSpec) { s.Preemptible = ptr.To(true) }))); err != nil {
				t.Fatal(err)
			}
			test.stop(w.cloud)
			found, err := d.Get(t.Context(), identity)
			if err != nil || found.State != driver.Stopped || !strings.Contains(found.Message, test.want) {
				t.Errorf("got %s %q and %v", found.State, found.Message, err)
			}
		})
	}
}

// TestStates: a crashed instance is restarted by Compute Cloud, and one in the status ERROR is not.
func TestStates(t *testing.T) {
	t.Parallel()
	w := newEnv(t, yandexfake.Options{})
	d := w.connect(t)
	created, err := drivertest.Create(t, d, newRequest(identity, newConfig(t, unchanged)))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]driver.State{}
	for number, name := range compute.Instance_Status_name {
		if status := compute.Instance_Status(number); status != compute.Instance_DELETING && status != compute.Instance_PROVISIONING && status != compute.Instance_RESTARTING {
			w.cloud.Break(created.ID, status)
			found, err := d.Get(t.Context(), identity)
			if err != nil {
				t.Fatal(err)
			}
			got[name] = found.State
		}
	}
	want := map[string]driver.State{
		"STATUS_UNSPECIFIED": driver.Pending, "RUNNING": driver.Running, "STOPPING": driver.Stopping, "STOPPED": driver.Stopped, "STARTING": driver.Pending,
		"UPDATING": driver.Pending, "ERROR": driver.Stopped, "CRASHED": driver.Pending,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
