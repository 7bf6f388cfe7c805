// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	record "drover.io/runtime/claim"
)

// TestOtherManagersReadWhatIsClaimed: the bootstrap controller reads the Leases that are written here.
func TestOtherManagersReadWhatIsClaimed(t *testing.T) {
	t.Parallel()
	cluster := client.ObjectKey{Namespace: "team", Name: "c"}
	remote := ctrlfake.NewClientBuilder().Build()
	management := func() (client.Client, *History) {
		c := ctrlfake.NewClientBuilder().Build()
		return c, &History{Client: c, Namespace: "drover-system", Holder: "", Clock: clock.RealClock{}}
	}
	original, history := management()
	history.Holder = "original"
	if err := history.Advance(t.Context()); err != nil {
		t.Fatal(err)
	}
	elsewhere := func(c client.Client) bool {
		t.Helper()
		leases := &coordinationv1.LeaseList{}
		if err := remote.List(t.Context(), leases); err != nil {
			t.Fatal(err)
		}
		set := fake.NewClientset(leases)
		_, foreign, err := (&record.Reader{Management: c, Namespace: "drover-system"}).Elsewhere(t.Context(), set.CoordinationV1(), cluster)
		if err != nil {
			t.Fatal(err)
		}
		return foreign
	}
	copied, copyHistory := management()
	copyHistory.Holder = "original"
	if elsewhere(original) || elsewhere(copied) {
		t.Error("a workload cluster without a claim counts as claimed")
	}
	if err := copyHistory.Advance(t.Context()); err != nil { // the snapshot
		t.Fatal(err)
	}
	copyHistory.Holder = "copy"
	if err := history.Advance(t.Context()); err != nil {
		t.Fatal(err)
	}
	claimer := &Claimer{History: history, Clusters: original, Clock: clock.RealClock{}}
	if _, err := claimer.Claim(t.Context(), remote, cluster); err != nil {
		t.Fatal(err)
	}
	if elsewhere(original) || !elsewhere(copied) {
		t.Errorf("the claim is another's for the original: %t; for the copy: %t", elsewhere(original), elsewhere(copied))
	}
	if err := copyHistory.Advance(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !elsewhere(copied) {
		t.Error("after its start the copy holds the claim")
	}
	if none, _ := management(); elsewhere(none) {
		t.Error("an installation without a machine-controller is stopped")
	}
}
