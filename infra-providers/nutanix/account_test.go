// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanix_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/internal/account"
	"drover.io/infra-providers/nutanix/nutanixfake"
)

// TestAnotherPrismCentralAtTheSameAddressIsNotUsed: it was deployed anew with the same credentials, and the clusters, whose virtual
// machines go on running, are not registered there yet. The Secret did not change.
func TestAnotherPrismCentralAtTheSameAddressIsNotUsed(t *testing.T) {
	t.Parallel()
	w := newEnv(t, nutanixfake.Options{})
	cache := account.NewCache(w.description(), account.Options{Secrets: drivertest.Secrets{Data: w.secret()}, Now: w.clock.Now, Changed: func(driver.Identity) {}, Interval: time.Minute})
	machine := &infrav1.NutanixMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "x"}, Spec: newSpec(func(s *infrav1.NutanixMachineSpec) { s.CredentialsSecretName = "nutanix" })}
	unpinned := machine.DeepCopy()
	connected, err := cache.Driver(t.Context(), machine)
	if err != nil {
		t.Fatal(err)
	}
	if machine.Status.Account, err = connected.ID(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(creationTime)
	created := patiently(t, connected.Direct, newRequest(identity, newConfig(t, unchanged)))
	known, unknown := identity, identity
	known.ProviderID = created.ProviderID
	unknown.UID, unknown.Name = "0a1b2c3d-0000-4000-8000-000000000002", "worker-2"
	if _, err := connected.ID(t.Context()); err != nil {
		t.Fatal(err)
	}

	w.cloud.Replace()
	for name, call := range map[string]func() error{
		"reading by provider ID":  func() error { _, err := connected.Direct.Get(t.Context(), known); return err },
		"reading":                 func() error { _, err := connected.Direct.Get(t.Context(), unknown); return err },
		"deleting by provider ID": func() error { return connected.Direct.Delete(t.Context(), known) },
		"deleting":                func() error { return connected.Direct.Delete(t.Context(), unknown) },
		"creating": func() error {
			_, err := connected.Direct.Create(t.Context(), newRequest(unknown, newConfig(t, unchanged)))
			return err
		},
	} {
		if err := call(); !driver.IsAccountMismatch(err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if got := w.cloud.Counts()["POST vms"]; got != 1 {
		t.Errorf("%d virtual machines were requested, want 1", got)
	}
	if _, err := cache.Driver(t.Context(), machine); !driver.IsAccountMismatch(err) {
		t.Errorf("a machine of the first Prism Central: got %v", err)
	}
	if connected, err = cache.Driver(t.Context(), unpinned); err != nil {
		t.Fatal(err)
	}
	if now, err := connected.ID(t.Context()); err != nil || now == "" || now == machine.Status.Account {
		t.Errorf("a machine without an account: got %q and %v", now, err)
	}
}
