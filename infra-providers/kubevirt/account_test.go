// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drover.io/infra-providers/driver"
)

// deleteNamespace deletes the namespace of the virtual machines, as the namespace controller does once it is empty.
func (e *env) deleteNamespace() {
	e.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.namespace}}
	if err := e.api.Delete(e.t.Context(), namespace); err != nil {
		e.t.Fatal(err)
	}
	namespace.Spec.Finalizers = nil
	if err := e.api.SubResource("finalize").Update(e.t.Context(), namespace); err != nil {
		e.t.Fatal(err)
	}
}

// TestAnotherNamespaceOfTheNameIsNotUsed: it was deleted and created again while the provider runs, which has the UID of the first one
// in memory. In no namespace at all nothing is left.
func TestAnotherNamespaceOfTheNameIsNotUsed(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	connected, config := e.connect(), newConfig(t, minimalSpec(), "")
	first, err := connected.(driver.AccountIdentifier).AccountID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]func() error{
		"reading":  func() error { _, err := connected.Get(t.Context(), identity("1")); return err },
		"deleting": func() error { return connected.Delete(t.Context(), identity("1")) },
		"creating": func() error {
			_, err := connected.Create(t.Context(), e.request("1", config, "#cloud-config\n"))
			return err
		},
	}
	e.deleteNamespace()
	if err := calls["reading"](); !driver.IsNotFound(err) {
		t.Errorf("reading, without a namespace: got %v", err)
	}
	if err := calls["deleting"](); err != nil {
		t.Errorf("deleting, without a namespace: got %v", err)
	}
	if err := e.api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.namespace}}); err != nil {
		t.Fatal(err)
	}
	for name, call := range calls {
		if err := call(); !driver.IsAccountMismatch(err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if left := e.leftovers(); len(left) > 0 {
		t.Errorf("%q were created", left)
	}
	connected = e.connect()
	if second, err := connected.(driver.AccountIdentifier).AccountID(t.Context()); err != nil || second == first {
		t.Errorf("a new connection has the account %q, %v; the first had %q", second, err, first)
	}
	if err := calls["creating"](); err != nil {
		t.Errorf("creating with a new connection: %v", err)
	}
}
