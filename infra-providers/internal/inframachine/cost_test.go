// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
)

// TestCallsPerListPage counts the requests to a cloud whose lists have pages of ten. Package
// account does so for a thousand machines, without an API server.
func TestCallsPerListPage(t *testing.T) {
	t.Parallel()
	const many = 30
	r := newFixture(t, fake.Options{Page: 10})
	r.interval = time.Minute
	r.restart()
	var all []*infrav1.SimMachine
	for n := range many {
		machine, _ := r.machine(fmt.Sprint("m", n))
		r.settle(machine)
		all = append(all, machine)
	}
	r.wantInCloud(many)
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

// TestTerminatedInstanceIsReadOnce: EC2 lists instances for an hour after their termination.
func TestTerminatedInstanceIsReadOnce(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{DeleteReads: 9})
	machine, _ := r.machine("worker")
	r.settle(machine)
	r.delete(machine)
	if _, err := r.reconcile(machine); err != nil {
		t.Fatal(err)
	}
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.DeletingReason)
	r.cloud.Set(machine.UID, func(i *driver.Instance) { i.State = driver.Terminated })
	calls := r.spent(func() { _, _ = r.reconcile(machine) })
	if diff := cmp.Diff(map[string]int{"get": 1}, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	r.wantGone(machine)
}

// spent returns the calls of the cloud that something took.
func (r *fixture) spent(do func()) map[string]int {
	before := r.cloud.Snapshot().Calls
	do()
	spent := map[string]int{}
	for operation, count := range r.cloud.Snapshot().Calls {
		if count > before[operation] {
			spent[operation] = count - before[operation]
		}
	}
	return spent
}

// TestStaleCacheCostsNoCall: the machine is reconciled again before the cache shows its providerID.
func TestStaleCacheCostsNoCall(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
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
	if got := r.cloud.Snapshot().Calls["create"]; got != 1 {
		t.Errorf("%d creations were asked for, want 1", got)
	}
}

// TestFailedWriteOfTheProviderID has every write of the providerID fail for a while, and counts the requests to the cloud.
func TestFailedWriteOfTheProviderID(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]error{
		"when the write dies":           errKilled,
		"when the answer is a conflict": apierrors.NewConflict(infrav1.GroupVersion.WithResource("simmachines").GroupResource(), "worker", errKilled),
		"when it is refused for good":   apierrors.NewForbidden(infrav1.GroupVersion.WithResource("simmachines").GroupResource(), "worker", errKilled),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, fake.Options{})
			machine, _ := r.machine("worker")
			for machine.Annotations[infrav1.IdentityAnnotation] == "" {
				_, _ = r.reconcile(machine)
			}
			r.refusal = refusal
			for range 3 {
				_, _ = r.reconcile(machine)
			}
			if machine.Spec.ProviderID != "" {
				t.Fatal("the providerID was written, so this proves nothing")
			}
			if apierrors.IsForbidden(refusal) {
				r.wantReason(machine, clusterv1.ReadyCondition, infrav1.ProviderIDNotStoredReason)
			}
			r.refusal = nil
			r.settle(machine)
			r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceRunningReason)
			if got := r.cloud.Snapshot().Calls["create"]; got != 1 {
				t.Errorf("%d creations were asked for, want 1", got)
			}
		})
	}
}

// TestStaleStatusAfterTheClaim: the claim is two writes, and its second one must not cost the
// providerID, for which nothing but the instance counts.
func TestStaleStatusAfterTheClaim(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	machine, _ := r.machine("worker")
	for machine.Annotations[infrav1.IdentityAnnotation] == "" {
		if _, err := r.reconcile(machine); err != nil {
			t.Fatal(err)
		}
	}
	r.behind = machine.DeepCopy()
	machine.Status.InstanceState = "Pending"
	if err := cluster.Client.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	if _, err := r.reconcile(machine); err != nil {
		t.Fatal(err)
	}
	if machine.Spec.ProviderID == "" {
		t.Error("the providerID was not written")
	}
	r.behind = nil
	r.settle(machine)
	if got := r.cloud.Snapshot().Calls["create"]; got != 1 {
		t.Errorf("%d creations were asked for, want 1", got)
	}
}

// TestReplacedObjectGetsNoProviderID: the object was replaced during the creation.
func TestReplacedObjectGetsNoProviderID(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	machine, _ := r.machine("worker")
	for machine.Annotations[infrav1.IdentityAnnotation] == "" {
		if _, err := r.reconcile(machine); err != nil {
			t.Fatal(err)
		}
	}
	r.behind = machine.DeepCopy()
	r.update(machine, func() { machine.Finalizers = nil })
	r.delete(machine)
	replaced := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{
		Namespace: machine.Namespace, Name: machine.Name, Labels: machine.Labels, OwnerReferences: machine.OwnerReferences,
	}, Spec: infrav1.SimMachineSpec{InstanceType: "small"}}
	if err := cluster.Client.Create(t.Context(), replaced); err != nil {
		t.Fatal(err)
	}
	_, _ = r.reconcile(replaced)
	r.wantInCloud(1)
	if replaced.Spec.ProviderID != "" || len(replaced.Status.Conditions) > 0 {
		t.Errorf("the new object got providerID %q and conditions %+v", replaced.Spec.ProviderID, replaced.Status.Conditions)
	}
}
