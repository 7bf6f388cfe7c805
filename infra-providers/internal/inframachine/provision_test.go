// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine_test

import (
	"errors"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
)

// inSteps is a cloud where an instance needs three steps to start, and three to be removed.
var inSteps = fake.Options{Steps: 3, BootReads: 1, DeleteReads: 1}

// provisions are the calls of Provision so far.
func (r *fixture) provisions() int { return r.cloud.Snapshot().Calls["provision"] }

// created reconciles until the machine has its instance, and no further.
func (r *fixture) created(machine *infrav1.SimMachine) {
	r.t.Helper()
	for range 5 {
		if _, err := r.reconcile(machine); err != nil {
			r.t.Fatal(err)
		}
		if machine.Spec.ProviderID != "" {
			return
		}
	}
	r.t.Fatalf("the machine has no instance: %+v", machine.Status)
}

// ready reconciles until the machine is provisioned.
func (r *fixture) ready(machine *infrav1.SimMachine) {
	r.t.Helper()
	for range 20 {
		if _, err := r.reconcile(machine); err != nil {
			r.t.Fatal(err)
		}
		if ptr.Deref(machine.Status.Initialization.Provisioned, false) {
			return
		}
	}
	r.t.Fatalf("the machine is not provisioned: %+v", machine.Status)
}

// TestProvisionsInSteps takes each step once, with a process that is replaced before each.
func TestProvisionsInSteps(t *testing.T) {
	t.Parallel()
	for name, restarts := range map[string]bool{"by one process": false, "by another process each time": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, inSteps)
			machine, _ := r.machine("worker")
			r.created(machine)
			for range 10 {
				r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstancePendingReason)
				if restarts {
					r.restart()
				}
				if result, err := r.reconcile(machine); err != nil || result.RequeueAfter == 0 {
					t.Fatalf("got %+v and %v, want another reconcile", result, err)
				}
				if ptr.Deref(machine.Status.Initialization.Provisioned, false) {
					break
				}
			}
			r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceRunningReason)
			if got := r.provisions(); got != inSteps.Steps {
				t.Errorf("Provision was called %d times, want %d", got, inSteps.Steps)
			}
			r.wantInCloud(1)
		})
	}
}

// TestNoStepBeforeTheProviderIDIsStored: the record of an instance comes before anything that is done to it.
func TestNoStepBeforeTheProviderIDIsStored(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{Steps: 1, BootReads: 0})
	machine, _ := r.machine("worker")
	if _, err := r.reconcile(machine); err != nil {
		t.Fatal(err)
	}
	r.refusal = errKilled
	id := driver.Identity{UID: machine.UID, Name: machine.Name, Owner: driver.Owner{UID: r.home.UID, Namespace: r.home.Namespace, Name: r.home.Name}}
	for n := range 4 {
		if _, err := r.reconcile(machine); err == nil {
			t.Fatal("the providerID was stored")
		}
		if found, err := r.cloud.Get(t.Context(), id); err != nil || !found.StepDue {
			t.Fatalf("got %+v and %v, want a step to be due", found, err)
		}
		if n > 1 {
			r.restart() // another process finds the instance by its identity, this one by the answer of Create
		}
	}
	r.wantInCloud(1)
	if got := r.provisions(); got != 0 {
		t.Errorf("Provision was called %d times before the providerID was stored", got)
	}
	r.refusal = nil
	r.ready(machine)
	if got := r.provisions(); got != 1 {
		t.Errorf("Provision was called %d times, want once", got)
	}
}

// TestNoStepInAnotherAccount: credentials that were replaced lead elsewhere.
func TestNoStepInAnotherAccount(t *testing.T) {
	t.Parallel()
	r, secret := newAccountFixtureOf(t, inSteps)
	machine, _ := r.machine("worker")
	r.created(machine)
	before := r.provisions()
	r.rotate(secret, "elsewhere")
	r.settle(machine)
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.AccountMismatchReason)
	if calls := r.elsewhere.Snapshot().Calls; r.provisions() != before || calls["provision"] > 0 {
		t.Errorf("Provision was called %d times in the machine's account and %d times in another", r.provisions()-before, calls["provision"])
	}
	r.rotate(secret, "home")
	r.ready(machine)
}

// TestNoStepOfAForeignInstance has the tags of the instance replaced while it is provisioned.
func TestNoStepOfAForeignInstance(t *testing.T) {
	t.Parallel()
	r := newFixture(t, inSteps)
	machine, _ := r.machine("worker")
	r.created(machine)
	before := r.provisions()
	r.cloud.Set(machine.UID, func(instance *driver.Instance) { instance.Identity.Name = "other" })
	r.settle(machine)
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceNotOwnedReason)
	if got := r.provisions(); got != before {
		t.Errorf("Provision was called %d times for the instance of another machine", got-before)
	}
}

// TestNoStepWhileDeleting: a machine that is deleted while it is provisioned is not provisioned further, and its removal
// takes one call of Delete for each step.
func TestNoStepWhileDeleting(t *testing.T) {
	t.Parallel()
	r := newFixture(t, inSteps)
	machine, _ := r.machine("worker")
	r.created(machine)
	if _, err := r.reconcile(machine); err != nil {
		t.Fatal(err)
	}
	before := r.provisions()
	r.delete(machine)
	for range 20 {
		if _, err := r.reconcile(machine); err != nil {
			t.Fatal(err)
		}
	}
	r.wantGone(machine)
	r.wantInCloud(0)
	if got := r.provisions(); got != before {
		t.Errorf("Provision was called %d times during deletion", got-before)
	}
	if got := r.cloud.Snapshot().Calls["delete"]; got < inSteps.Steps || got > inSteps.Steps+1 {
		t.Errorf("Delete was called %d times, want once for each of %d steps and once for what is beside the instance", got, inSteps.Steps)
	}
}

// TestNoStepOfAnInstanceThatIsStopping: it was deleted by others, and a step would work against that.
func TestNoStepOfAnInstanceThatIsStopping(t *testing.T) {
	t.Parallel()
	r := newFixture(t, inSteps)
	machine, _ := r.machine("worker")
	r.ready(machine)
	before := r.provisions()
	r.cloud.Set(machine.UID, func(instance *driver.Instance) { instance.State = driver.Stopping })
	for range 3 {
		if _, err := r.reconcile(machine); err != nil {
			t.Fatal(err)
		}
	}
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceStoppedReason)
	if got := r.provisions(); got != before {
		t.Errorf("Provision was called %d times for an instance that is stopping", got-before)
	}
}

// TestStepsWithAnInventory: lists and the answers of Provision keep the inventory true.
func TestStepsWithAnInventory(t *testing.T) {
	t.Parallel()
	r := newFixture(t, inSteps)
	r.interval = time.Minute
	r.restart()
	machine, _ := r.machine("worker")
	advance := func(done func() bool) {
		t.Helper()
		for range 40 {
			if _, err := r.reconcile(machine); err != nil {
				t.Fatal(err)
			}
			if done() {
				return
			}
			r.later += 5 * time.Second
		}
		t.Fatalf("nothing happens: %+v", machine.Status)
	}
	advance(func() bool { return ptr.Deref(machine.Status.Initialization.Provisioned, false) })
	if got := r.provisions(); got != inSteps.Steps {
		t.Errorf("Provision was called %d times, want %d", got, inSteps.Steps)
	}
	r.delete(machine)
	advance(func() bool { return machine.ResourceVersion == "" })
	r.wantInCloud(0)
}

// TestStepThatFails: the condition has the cause, and the step is taken again.
func TestStepThatFails(t *testing.T) {
	t.Parallel()
	r := newFixture(t, inSteps)
	machine, _ := r.machine("worker")
	r.created(machine)
	r.faults = func(call fake.Call) fake.Fault {
		if call.Operation != "provision" {
			return fake.Fault{}
		}
		return fake.Fault{Err: errors.New("internal error")}
	}
	failed := false
	for range 3 {
		_, err := r.reconcile(machine)
		failed = failed || err != nil
	}
	if !failed {
		t.Error("the failure of a step was not returned")
	}
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.CloudErrorReason)
	r.wantMessage(machine, "provisioning instance", "internal error")
	r.faults = nil
	r.ready(machine)
	r.wantInCloud(1)
}

// TestStepOfAnInstanceThatIsGone: it was deleted by others after it was read.
func TestStepOfAnInstanceThatIsGone(t *testing.T) {
	t.Parallel()
	r := newFixture(t, inSteps)
	machine, _ := r.machine("worker")
	r.created(machine)
	r.faults = func(call fake.Call) fake.Fault {
		if call.Operation != "provision" {
			return fake.Fault{}
		}
		return fake.Fault{Err: &driver.NotFoundError{What: "instance"}}
	}
	for range 3 {
		if _, err := r.reconcile(machine); err != nil {
			t.Fatal(err)
		}
	}
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceMissingReason)
}
