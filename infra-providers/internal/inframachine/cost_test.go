// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/infra-providers/internal/inframachine"
)

// TestManyMachinesCostTheirPages counts what is asked of a cloud whose lists have pages of ten. Package
// account does so for a thousand machines, without an API server.
func TestManyMachinesCostTheirPages(t *testing.T) {
	t.Parallel()
	const many = 30
	r := newRig(t, fake.Options{Page: 10})
	r.interval = time.Minute
	r.restart()
	var all []*infrav1.SimMachine
	for n := range many {
		machine, _ := r.machine(fmt.Sprint("m", n))
		r.settle(machine)
		all = append(all, machine)
	}
	r.wantCensus(many)
	for interval := range 3 {
		r.later += time.Hour // far more than the test itself can take
		calls := r.spent(func() {
			for _, machine := range all {
				_, _ = r.reconcile(machine)
			}
		})
		if diff := cmp.Diff(map[string]int{"list": many / 10}, calls); diff != "" {
			t.Errorf("calls in interval %d (-want +got):\n%s", interval, diff)
		}
	}

	// One more machine comes and goes, between two lists.
	calls := r.spent(func() {
		machine, _ := r.machine("one-more")
		r.settle(machine)
		r.delete(machine)
		r.settle(machine)
		r.wantGone(machine)
	})
	if diff := cmp.Diff(map[string]int{"disk": 1, "create": 1, "delete": 1, "get": 1}, calls); diff != "" {
		t.Errorf("calls in a life (-want +got):\n%s", diff)
	}
}

// TestWhatIsShownAsTerminatedIsReadOnce: EC2 shows instances for an hour after they are gone.
func TestWhatIsShownAsTerminatedIsReadOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, fake.Options{DeleteReads: 9})
	machine, _ := r.machine("worker")
	r.settle(machine)
	r.delete(machine)
	if _, err := r.reconcile(machine); err != nil {
		t.Fatal(err)
	}
	r.wantReason(machine, clusterv1.ReadyCondition, inframachine.DeletingReason)
	r.cloud.Set(machine.UID, func(i *driver.Instance) { i.State = driver.Terminated })
	calls := r.spent(func() { _, _ = r.reconcile(machine) })
	if diff := cmp.Diff(map[string]int{"get": 1}, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	r.wantGone(machine)
}

// spent returns the calls of the cloud that something took.
func (r *rig) spent(do func()) map[string]int {
	before := r.cloud.Census().Calls
	do()
	spent := map[string]int{}
	for operation, count := range r.cloud.Census().Calls {
		if count > before[operation] {
			spent[operation] = count - before[operation]
		}
	}
	return spent
}

// TestACacheThatIsBehindCostsNoCall: the machine comes again before its own providerID does.
func TestACacheThatIsBehindCostsNoCall(t *testing.T) {
	t.Parallel()
	r := newRig(t, fake.Options{})
	machine, _ := r.machine("worker")
	for machine.Annotations[infrav1.IdentityAnnotation] == "" {
		if _, err := r.reconcile(machine); err != nil {
			t.Fatal(err)
		}
	}
	r.behind = machine.DeepCopy()
	for range 3 {
		if _, err := r.reconcile(machine); err != nil {
			t.Fatal(err)
		}
	}
	if machine.Spec.ProviderID == "" {
		t.Error("the providerID was not written")
	}
	r.behind = nil
	r.settle(machine)
	if got := r.cloud.Census().Calls["create"]; got != 1 {
		t.Errorf("%d creations were asked for, want 1", got)
	}
}
