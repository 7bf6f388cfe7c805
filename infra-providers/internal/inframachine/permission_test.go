// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine_test

import (
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver/fake"
)

// TestAStatusCreatesNothingWithoutPermission: a user of a namespace that may not use the provider's own credentials writes
// into the status that its machines have instances in that account.
func TestAStatusCreatesNothingWithoutPermission(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{Account: "shared"})
	victim, _ := r.machine("victim")
	r.settle(victim)
	r.wantInCloud(1)
	r.ownCredentials = nil
	r.restart()
	for name, test := range map[string]struct{ providerID, reason string }{
		"no-instance":       {"", infrav1.UnauthorizedReason},
		"missing-instance":  {"fake:///none", infrav1.InstanceMissingReason},
		"anothers-instance": {victim.Spec.ProviderID, infrav1.InstanceNotOwnedReason},
	} {
		machine, _ := r.machine(name, func(m *infrav1.SimMachine) {
			m.Spec.ProviderID = test.providerID
			m.Annotations = map[string]string{infrav1.AccountAnnotation: "shared"}
		})
		machine.Status.Account = "shared"
		if err := cluster.Client.Status().Update(t.Context(), machine); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			_, _ = r.reconcile(machine)
		}
		r.wantReason(machine, clusterv1.ReadyCondition, test.reason)
		r.wantInCloud(1)
		r.delete(machine)
		for range 5 {
			_, _ = r.reconcile(machine)
		}
		r.wantInCloud(1)
	}
}
