// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
)

// locked is a connection with credentials, which the cloud may stop to take.
type locked struct {
	*fake.Cloud
	opens func() bool
}

func (l *locked) refused() error {
	if l.opens() {
		return nil
	}
	return &driver.UnauthorizedError{Err: errors.New("the token is not valid")}
}

// Notify does nothing: changes by others are found by reading.
func (l *locked) Notify(func(driver.Identity)) {}

func (l *locked) Create(ctx context.Context, req driver.CreateRequest[fake.Config]) (driver.Instance, error) {
	if err := l.refused(); err != nil {
		return driver.Instance{}, err
	}
	return l.Cloud.Create(ctx, req)
}

func (l *locked) Get(ctx context.Context, id driver.Identity) (driver.Instance, error) {
	if err := l.refused(); err != nil {
		return driver.Instance{}, err
	}
	return l.Cloud.Get(ctx, id)
}

func (l *locked) Delete(ctx context.Context, id driver.Identity) error {
	if err := l.refused(); err != nil {
		return err
	}
	return l.Cloud.Delete(ctx, id)
}

// TestRotatedCredentials rotates the token in the cloud first, then in the Secret, both
// before a creation and before a deletion.
func TestRotatedCredentials(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	r.secret, r.token = "cloud", "new"
	r.restart()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.home.Namespace, Name: "cloud"}, StringData: map[string]string{"token": "old"}}
	if err := cluster.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	machine, _ := r.machine("worker")
	for range 3 {
		_, _ = r.reconcile(machine)
	}
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.UnauthorizedReason)
	r.wantInCloud(0)
	r.update(secret, func() { secret.StringData = map[string]string{"token": "new"} })
	r.settle(machine)
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceRunningReason)

	r.token = "newest"
	r.delete(machine)
	result, err := r.reconcile(machine)
	if err != nil || result.RequeueAfter != time.Minute {
		t.Errorf("got %+v and %v, want another try after a minute", result, err)
	}
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.UnauthorizedReason)
	r.wantInCloud(1)
	r.update(secret, func() { secret.StringData = map[string]string{"token": "newest"} })
	r.settle(machine)
	r.wantGone(machine)
	r.wantInCloud(0)
}

func TestMissingSecret(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	r.secret = "nowhere"
	r.restart()
	machine, _ := r.machine("worker")
	for range 2 {
		_, _ = r.reconcile(machine)
	}
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.UnauthorizedReason)
	r.wantInCloud(0)
}

// TestInstancesOfADeletedNamespaceAreDeleted: the namespace controller deletes Secrets and machines at the same time, and
// nobody can create a Secret in a namespace that is being deleted.
func TestInstancesOfADeletedNamespaceAreDeleted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		namespace bool
		left      int
	}{
		"with the credentials that the Secret had":             {true, 0},
		"and not those of a Secret that was deleted by itself": {false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, fake.Options{})
			r.secret, r.token = "cloud", "right"
			r.restart()
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.home.Namespace, Name: "cloud"}, StringData: map[string]string{"token": "right"}}
			if err := cluster.Client.Create(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			machine, _ := r.machine("worker")
			r.settle(machine)
			r.wantInCloud(1)
			if test.namespace {
				r.delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.home.Namespace}})
			}
			r.delete(secret, machine)
			for range 3 { // a deletion takes longer than credentials are used before they are read again
				r.later += 2 * time.Minute
				_, _ = r.reconcile(machine)
			}
			r.wantInCloud(test.left)
			if test.left == 0 {
				r.wantGone(machine)
			}
		})
	}
}

// TestMachineThatNeverHadCredentialsCanBeDeleted: without an account no creation was requested.
func TestMachineThatNeverHadCredentialsCanBeDeleted(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]func(*fixture){
		"of a Secret that does not exist": func(r *fixture) { r.secret = "nowhere" },
		"of a token that is refused": func(r *fixture) {
			r.faults = func(fake.Call) fake.Fault {
				return fake.Fault{Err: &driver.UnauthorizedError{Err: errors.New("the token is not valid")}}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, fake.Options{})
			given(r)
			r.restart()
			machine, _ := r.machine("worker")
			r.settle(machine)
			r.wantReason(machine, clusterv1.ReadyCondition, infrav1.UnauthorizedReason)
			r.delete(machine)
			r.settle(machine)
			r.wantGone(machine)
			r.wantInCloud(0)
		})
	}
}

// TestChangesByOthersWithAnInventory: one instance is deleted and another is stopped.
func TestChangesByOthersWithAnInventory(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	r.interval = time.Minute
	r.restart()
	deleted, _ := r.machine("deleted")
	stopped, _ := r.machine("stopped")
	r.settle(deleted)
	r.settle(stopped)
	r.cloud.Destroy(deleted.UID)
	r.cloud.Set(stopped.UID, func(i *driver.Instance) { i.State = driver.Stopped })
	r.later += time.Minute
	r.settle(deleted)
	r.settle(stopped)
	r.wantReason(deleted, clusterv1.ReadyCondition, infrav1.InstanceMissingReason)
	r.wantReason(stopped, clusterv1.ReadyCondition, infrav1.InstanceStoppedReason)
	if stopped.Status.InstanceState != "Stopped" || deleted.Status.InstanceState != "Missing" {
		t.Errorf("the states are %q and %q", stopped.Status.InstanceState, deleted.Status.InstanceState)
	}
	r.wantInCloud(1)
	r.cloud.Set(stopped.UID, func(i *driver.Instance) { i.State = driver.Running })
	r.later += time.Minute
	r.settle(stopped)
	r.wantReason(stopped, clusterv1.ReadyCondition, infrav1.InstanceRunningReason)
}

// TestTerminatedInstanceHasTheMessageOfTheCloud, such as that a spot instance was reclaimed.
func TestTerminatedInstanceHasTheMessageOfTheCloud(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	machine, _ := r.machine("spot")
	r.settle(machine)
	r.cloud.Set(machine.UID, func(i *driver.Instance) { i.State, i.Message = driver.Terminated, "reclaimed" })
	r.settle(machine)
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceMissingReason)
	ready := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.ReadyCondition)
	if ready == nil || !strings.HasSuffix(ready.Message, ": reclaimed") {
		t.Errorf("Ready does not quote the cloud: %+v", ready)
	}
}

// TestPausedMachineIsNotDeleted pauses a machine, deletes it, and unpauses it then.
func TestPausedMachineIsNotDeleted(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	machine, _ := r.machine("worker")
	r.settle(machine)
	r.update(r.home, func() { r.home.Spec.Paused = ptr.To(true) })
	r.delete(machine)
	calls := r.spent(func() { r.settle(machine) })
	if len(calls) > 0 || len(machine.Finalizers) != 1 {
		t.Errorf("the cloud was asked %v and the finalizers are %q", calls, machine.Finalizers)
	}
	r.update(r.home, func() { r.home.Spec.Paused = nil })
	r.settle(machine)
	r.wantGone(machine)
	r.wantInCloud(0)
}

// TestDeletionBeforeCreationNeedsNoCall deletes one before there was bootstrap data.
func TestDeletionBeforeCreationNeedsNoCall(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	machine, owner := r.machine("worker")
	r.update(owner, func() {
		owner.Spec.Bootstrap = clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.drover.io", Kind: "BootstrapConfig", Name: "b"}}
	})
	r.settle(machine)
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.WaitingForBootstrapReason)
	r.delete(machine)
	r.settle(machine)
	r.wantGone(machine)
	if made := r.cloud.Snapshot().Calls["create"]; made > 0 {
		t.Errorf("%d creations were asked for", made)
	}
}

// TestInvalidSpecCanBeDeleted has a configuration that cannot be, and one that the cloud refuses.
func TestInvalidSpecCanBeDeleted(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	machine, _ := r.machine("worker", func(m *infrav1.SimMachine) { m.Spec.InstanceType = "xlarge" })
	result, err := r.reconcile(machine)
	for range 3 {
		result, err = r.reconcile(machine)
	}
	if err != nil || result.RequeueAfter != 10*time.Minute {
		t.Errorf("got %+v and %v, want another try in 10 minutes", result, err)
	}
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InvalidConfigurationReason)
	r.delete(machine)
	r.settle(machine)
	r.wantGone(machine)
	r.wantInCloud(0)
}
