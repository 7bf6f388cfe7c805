// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"drover.io/infra-providers/driver"
)

// waitTimeout bounds the wait for a cloud to start or remove an instance.
const waitTimeout = 4 * time.Minute

func uid(kind, n int) types.UID {
	return types.UID(fmt.Sprintf("%08d-0000-4000-8000-%012d", kind, n))
}

func name(n int) string { return fmt.Sprintf("worker-%d", n) }

// HasNoKind reports whether an error has none of the kinds of package driver. It counts as transient then, and the call is repeated.
func HasNoKind(err error) bool {
	return err != nil && !known(err) && !driver.IsUnfinished(err) && !driver.IsBusy(err) && !driver.IsAccountMismatch(err)
}

// ProviderIDs returns those of all instances that a driver lists, sorted.
func ProviderIDs[C any](t *testing.T, d driver.Driver[C]) (ids []string) {
	t.Helper()
	for instance, err := range d.List(t.Context(), driver.Owner{}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, instance.ProviderID)
	}
	slices.Sort(ids)
	return ids
}

// wantOne fails unless List has exactly one instance for the owner.
func wantOne[C any](t *testing.T, env Environment[C], id driver.Identity) driver.Instance {
	t.Helper()
	found, err := all(t.Context(), env.Driver, id.Owner)
	if err != nil {
		t.Fatalf("listing: %v", err)
	}
	if len(found) != 1 {
		t.Fatalf("List has %d instances, want 1 (only after Hide may lists be behind): %+v", len(found), found)
	}
	return found[0]
}

// proceed takes the step that is due, as the generic reconciler does: Delete for what is being deleted, Provision for all
// else.
func proceed[C any](t *testing.T, env Environment[C], id driver.Identity, found driver.Instance) error {
	t.Helper()
	switch {
	case !found.StepDue:
		return nil
	case found.State == driver.Stopping:
		return env.Driver.Delete(t.Context(), id)
	}
	provisioner, able := env.Driver.(driver.Provisioner)
	if !able {
		t.Fatalf("a step of %+v is due and the driver is no Provisioner", found)
	}
	_, err := provisioner.Provision(t.Context(), id)
	return err
}

// wantRunning waits until the instance runs and no step is due.
func wantRunning[C any](t *testing.T, env Environment[C], id driver.Identity) driver.Instance {
	t.Helper()
	for deadline := time.Now().Add(waitTimeout); ; {
		found, err := env.Driver.Get(t.Context(), id)
		if err == nil && found.State == driver.Running && !found.StepDue {
			return found
		}
		if err == nil {
			err = proceed(t, env, id, found)
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the instance is %q and %v, want it to be %s", found.State, err, driver.Running)
		}
		time.Sleep(min(max(found.PollAfter, time.Millisecond), time.Second))
	}
}

func wantNothing[C any](t *testing.T, env Environment[C]) {
	t.Helper()
	if env.Leftovers == nil {
		return
	}
	if left := env.Leftovers(); len(left) > 0 {
		t.Errorf("the cloud still has %q", left)
	}
}

// wantGone waits until a read proves that the instance does not exist any more.
func wantGone[C any](t *testing.T, env Environment[C], id driver.Identity) {
	t.Helper()
	for deadline := time.Now().Add(waitTimeout); ; {
		instance, err := env.Driver.Get(t.Context(), id)
		if driver.IsNotFound(err) || err == nil && instance.State == driver.Terminated {
			return
		}
		if err != nil {
			t.Fatalf("reading a deleted instance: %v", err)
		}
		if instance.State != driver.Stopping || instance.StepDue { // a cloud may lose a deletion, which is repeated then
			if err := env.Driver.Delete(t.Context(), id); err != nil {
				t.Fatalf("deleting what is %s again: %v", instance.State, err)
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the instance is still %s", instance.State)
		}
		time.Sleep(min(max(instance.PollAfter, time.Millisecond), time.Second))
	}
}

func leftovers[C any](env Environment[C]) []string {
	if env.Leftovers == nil {
		return nil
	}
	return slices.Sorted(slices.Values(env.Leftovers()))
}

// same compares two readings of one instance, the earlier first. Its state and what follows from that may change, and a
// cloud that chooses the zone by itself may do so later.
func same(a, b driver.Instance) string {
	if a.FailureDomain == "" {
		b.FailureDomain = ""
	}
	return cmp.Diff(stableParts(a), stableParts(b))
}

// stableParts is what of an instance does not change while it starts, runs and stops.
func stableParts(instance driver.Instance) driver.Instance {
	instance.State, instance.PollAfter, instance.Message, instance.Guest, instance.Addresses, instance.Reported = "", 0, "", nil, nil, nil
	instance.StepDue, instance.Eviction = false, ""
	instance.Created = instance.Created.UTC()
	return instance
}

func contains(found []driver.Instance, providerID string) bool {
	return slices.ContainsFunc(found, func(i driver.Instance) bool { return i.ProviderID == providerID })
}
