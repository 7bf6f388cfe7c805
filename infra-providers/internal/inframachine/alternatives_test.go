// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
)

// newAlternativesFixture is a fixture whose machines may be small or large in zone a, or small in zone b.
func newAlternativesFixture(t *testing.T, full ...string) *fixture {
	t.Helper()
	r := newFixture(t, fake.Options{})
	r.alternatives = []fake.Config{{InstanceType: "large", Zone: "a"}, {InstanceType: "small", Zone: "b"}}
	r.fill(full...)
	r.restart()
	return r
}

// fill makes the cloud refuse creations in places named as type/zone.
func (r *fixture) fill(full ...string) {
	r.faults = func(call fake.Call) fake.Fault {
		at := call.Config.InstanceType + "/" + call.Config.Zone
		if call.Operation != "create" || !strings.Contains(strings.Join(full, " "), at) {
			return fake.Fault{}
		}
		return fake.Fault{Err: &driver.InsufficientCapacityError{InstanceType: call.Config.InstanceType, Zone: call.Config.Zone, Err: errors.New("full")}}
	}
}

// machineInZoneA creates a machine whose first choice is small in zone a.
func (r *fixture) machineInZoneA(name string) *infrav1.SimMachine {
	r.t.Helper()
	machine, owner := r.machine(name)
	r.update(owner, func() { owner.Spec.FailureDomain = "a" })
	return machine
}

func (r *fixture) wantZone(machine *infrav1.SimMachine, want string) {
	r.t.Helper()
	if !strings.HasPrefix(machine.Spec.ProviderID, "fake:///"+want+"/") {
		r.t.Errorf("providerID is %q, want one in %s", machine.Spec.ProviderID, want)
	}
}

func (r *fixture) wantCreations(want int) {
	r.t.Helper()
	if got := r.cloud.Snapshot().Calls["create"]; got != want {
		r.t.Errorf("%d creations were asked for, want %d", got, want)
	}
}

func TestFirstChoiceNeedsNoExtraWrite(t *testing.T) {
	t.Parallel()
	r := newAlternativesFixture(t)
	machine := r.machineInZoneA("worker")
	r.settle(machine)
	r.wantInCloud(1)
	r.wantZone(machine, "a")
	if got := r.writes.Load(); got > 4 {
		t.Errorf("%d writes, want no more than without a choice", got)
	}
	if _, noted := machine.Annotations[infrav1.ChoiceAnnotation]; noted {
		t.Errorf("annotations are %v, want none for the first choice", machine.Annotations)
	}
}

func TestNextAlternativeAfterInsufficientCapacity(t *testing.T) {
	t.Parallel()
	r := newAlternativesFixture(t, "small/a", "large/a")
	machine := r.machineInZoneA("worker")
	var reasons []string
	for machine.Spec.ProviderID == "" {
		if _, err := r.reconcile(machine); err != nil {
			t.Fatal(err)
		}
		reason := "-"
		if ready := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.ReadyCondition); ready != nil {
			reason = ready.Reason
		}
		reasons = append(reasons, machine.Annotations[infrav1.ChoiceAnnotation]+" "+reason)
	}
	// Each choice is on the object one reconcile before it is requested.
	want := []string{" -", "1 InsufficientCapacity", "2 InsufficientCapacity", "2 InstanceRunning"}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Errorf("choice and reason (-want +got):\n%s", diff)
	}
	r.wantInCloud(1)
	r.wantZone(machine, "b")
	r.wantCreations(3)
	r.delete(machine)
	r.settle(machine)
	r.wantGone(machine)
	r.wantInCloud(0)
}

// TestStaleChoice has a cache that shows the choice before the one that an earlier process has stored, and may have created
// in the meantime.
func TestStaleChoice(t *testing.T) {
	t.Parallel()
	r := newAlternativesFixture(t)
	machine := r.machineInZoneA("worker")
	if _, err := r.reconcile(machine); err != nil {
		t.Fatal(err)
	}
	r.behind = machine.DeepCopy()
	r.update(machine, func() { machine.Annotations[infrav1.ChoiceAnnotation] = "2" })
	r.restart()
	for range 2 {
		if result, err := r.reconcile(machine); err != nil || result.RequeueAfter != time.Second {
			t.Errorf("got %+v and %v, want another reconcile in a second", result, err)
		}
	}
	r.wantCreations(0)
	r.behind = nil
	r.settle(machine)
	r.wantInCloud(1)
	r.wantZone(machine, "b")
}

func TestWaitsWhenNoAlternativeHasCapacity(t *testing.T) {
	t.Parallel()
	r := newAlternativesFixture(t, "small/a", "large/a", "small/b")
	machine := r.machineInZoneA("worker")
	for range 4 {
		if _, err := r.reconcile(machine); err != nil {
			t.Fatal(err)
		}
	}
	r.wantCreations(3)
	version := machine.ResourceVersion
	result, err := r.reconcile(machine)
	if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > time.Minute {
		t.Errorf("got %+v and %v, want another try within a minute", result, err)
	}
	r.wantCreations(3)
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InsufficientCapacityReason)
	if machine.ResourceVersion != version {
		t.Error("a machine that only waits was written")
	}
	ready := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.ReadyCondition)
	for _, part := range []string{`no capacity for "small" in "a": full`, `no capacity for "large" in "a": full`, `no capacity for "small" in "b": full`, "tried again at "} {
		if !strings.Contains(ready.Message, part) {
			t.Errorf("the message is %q, which lacks %q", ready.Message, part)
		}
	}

	r.later = time.Hour
	r.fill("large/a", "small/b")
	r.settle(machine)
	r.wantInCloud(1)
	r.wantZone(machine, "a")
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceRunningReason)
}

func TestNewMachineSkipsOfferingsWithoutCapacity(t *testing.T) {
	t.Parallel()
	r := newAlternativesFixture(t, "small/a", "large/a")
	r.settle(r.machineInZoneA("first"))
	r.wantCreations(3)
	second := r.machineInZoneA("second")
	r.settle(second)
	r.wantCreations(4)
	r.wantZone(second, "b")
}

// TestLostAnswerRepeatsTheStoredChoice loses the answer of a creation that succeeded, after which another
// machine finds the place full. The first one must not look elsewhere, whether its process lives on or not.
func TestLostAnswerRepeatsTheStoredChoice(t *testing.T) {
	t.Parallel()
	for _, failsAt := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted %t", failsAt), func(t *testing.T) {
			t.Parallel()
			r := newAlternativesFixture(t)
			r.faults = func(call fake.Call) fake.Fault {
				if call.Operation == "create" {
					return fake.Fault{Err: fake.ErrLost, Lost: true}
				}
				return fake.Fault{}
			}
			lucky, other := r.machineInZoneA("lucky"), r.machineInZoneA("other")
			for range 2 {
				_, _ = r.reconcile(lucky)
			}
			r.wantInCloud(1)
			if lucky.Spec.ProviderID != "" {
				t.Fatal("the answer was not lost, so this proves nothing")
			}
			if failsAt {
				r.restart()
			}
			r.fill("small/a")
			r.faults = only("other", r.faults)
			r.settle(other)
			r.settle(lucky)
			r.wantInCloud(2)
			r.wantZone(lucky, "a")
		})
	}
}

// only returns a fault for one machine alone.
func only(name string, faults func(fake.Call) fake.Fault) func(fake.Call) fake.Fault {
	return func(call fake.Call) fake.Fault {
		if call.Identity.Name != name {
			return fake.Fault{}
		}
		return faults(call)
	}
}

// TestChoiceIsStoredBeforeItsCreation kills the reconciler where it stores the second choice, which must
// then not have been requested.
func TestChoiceIsStoredBeforeItsCreation(t *testing.T) {
	t.Parallel()
	for death := range int32(8) {
		t.Run(fmt.Sprintf("dies at write %d", death), func(t *testing.T) {
			t.Parallel()
			r := newAlternativesFixture(t, "small/a")
			machine := r.machineInZoneA("worker")
			r.dieAt.Store(death)
			for range 20 {
				if _, err := r.reconcile(machine); err != nil {
					r.restart()
				}
			}
			r.wantInCloud(1)
			r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceRunningReason)
		})
	}
}
