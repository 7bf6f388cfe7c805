// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package restart_test

import (
	"strings"
	"testing"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
)

// TestTextsOfACloudDoNotKeepAMachine has an error whose text is longer than a condition of a Machine may be: what is not
// printable becomes several characters.
func TestTextsOfACloudDoNotKeepAMachine(t *testing.T) {
	t.Parallel()
	r := newFixture(t, 1)
	long := strings.Repeat("\x00", 1<<20)
	r.faults = func(call fake.Call) fake.Fault {
		if call.Operation != "restart" {
			return fake.Fault{}
		}
		found := driver.Identity{UID: "u", Name: long, Owner: driver.Owner{Namespace: r.owner.Namespace, Name: long}}
		return fake.Fault{Err: &driver.NotOwnedError{ProviderID: long, Found: found, Requested: call.Identity}}
	}
	for range 3 {
		if _, err := r.reconcile(); err != nil {
			t.Fatalf("the Machine is not handed back: %.300v", err)
		}
	}
	r.want(infrav1.RestartRemediationHandedBack, 1, infrav1.InstanceNotOwnedReason)
	r.wantOwner(true)
}
