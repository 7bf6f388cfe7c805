// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
)

// newAccountFixture is a fixture whose Secret leads to the cloud while its token is home, and to another account otherwise.
func newAccountFixture(t *testing.T) (*fixture, *corev1.Secret) {
	t.Helper()
	return newAccountFixtureOf(t, fake.Options{})
}

// newAccountFixtureOf has a cloud with other settings.
func newAccountFixtureOf(t *testing.T, options fake.Options) (*fixture, *corev1.Secret) {
	t.Helper()
	r := newFixture(t, options)
	r.secret, r.elsewhere = "cloud", fake.New(fake.Options{})
	r.restart()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.home.Namespace, Name: "cloud"}, StringData: map[string]string{"token": "home"}}
	if err := cluster.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	return r, secret
}

func (r *fixture) rotate(secret *corev1.Secret, token string) {
	r.t.Helper()
	r.update(secret, func() { secret.StringData = map[string]string{"token": token} })
	r.restart()
}

// TestCredentialsOfAnotherAccount rotates a Secret to another project and back.
func TestCredentialsOfAnotherAccount(t *testing.T) {
	t.Parallel()
	for name, deleted := range map[string]bool{"for a machine that runs": false, "for a machine that is deleted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, secret := newAccountFixture(t)
			machine, _ := r.machine("worker")
			r.settle(machine)
			pinned := machine.Status.Account
			if pinned == "" || machine.Annotations[infrav1.AccountAnnotation] != pinned {
				t.Fatalf("pinned to %q by the status and to %q by the annotation", pinned, machine.Annotations[infrav1.AccountAnnotation])
			}
			r.rotate(secret, "elsewhere")
			if deleted {
				r.delete(machine)
			}
			r.settle(machine)
			r.wantReason(machine, clusterv1.ReadyCondition, infrav1.AccountMismatchReason)
			r.wantMessage(machine, pinned, `Secret "cloud"`, infrav1.AccountAnnotation)
			r.wantInCloud(1)
			if calls := r.elsewhere.Snapshot().Calls; calls["get"]+calls["delete"]+calls["create"] > 0 {
				t.Errorf("the other account was asked %v", calls)
			}
			r.rotate(secret, "home")
			r.settle(machine)
			if deleted {
				r.wantGone(machine)
				r.wantInCloud(0)
				return
			}
			r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceRunningReason)
		})
	}
}

// TestAccountIsStoredBeforeCreation: the credentials cannot be proven when the machine is claimed.
func TestAccountIsStoredBeforeCreation(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	var broken error = &driver.UnauthorizedError{Err: errors.New("the token is not valid")}
	r.faults = func(call fake.Call) fake.Fault {
		if call.Operation == "account" {
			return fake.Fault{Err: broken}
		}
		if call.Operation != "create" {
			return fake.Fault{}
		}
		stored := &infrav1.SimMachine{}
		stored.Namespace, stored.Name = r.home.Namespace, call.Identity.Name
		if _ = cluster.Client.Get(t.Context(), keyOf(stored), stored); stored.Annotations[infrav1.AccountAnnotation] == "" {
			t.Error("an instance is created before its account is stored")
		}
		return fake.Fault{}
	}
	machine, _ := r.machine("worker")
	r.settle(machine)
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.UnauthorizedReason)
	r.wantInCloud(0)
	broken = nil
	r.settle(machine)
	r.wantReason(machine, clusterv1.ReadyCondition, infrav1.InstanceRunningReason)
	r.wantInCloud(1)
}

// TestAccountOfAMachineOfAnEarlierRelease and not before.
func TestAccountOfAMachineOfAnEarlierRelease(t *testing.T) {
	t.Parallel()
	r, _ := newAccountFixture(t)
	machine, _ := r.machine("worker")
	r.settle(machine)
	pinned := machine.Status.Account
	r.update(machine, func() { delete(machine.Annotations, infrav1.AccountAnnotation) })
	machine.Status.Account = ""
	if err := cluster.Client.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	r.settle(machine)
	if machine.Status.Account != pinned || machine.Annotations[infrav1.AccountAnnotation] != pinned {
		t.Errorf("pinned to %q and %q, want %q", machine.Status.Account, machine.Annotations[infrav1.AccountAnnotation], pinned)
	}
}
