// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/runtime/fairshare"
)

// TestANamespaceHoldsHalfOfTheWorkers has one with as many Machines at work as it may have, whose API servers take their time.
func TestANamespaceHoldsHalfOfTheWorkers(t *testing.T) {
	t.Parallel()
	clk := testingclock.NewFakePassiveClock(epoch)
	r := &Reconciler{Clock: clk, fairShare: fairshare.NewGate(2, clk)}
	r.writes.Clock = r.Clock
	leave, _ := r.fairShare.Enter("tenant", "busy")
	defer leave()
	clk.SetTime(epoch.Add(3 * time.Second))
	result, err := r.Reconcile(t.Context(), &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "m", UID: "m"}})
	if err != nil || result.RequeueAfter != 3*time.Second {
		t.Errorf("got %v, %v; want another attempt after 3s, which the other has taken so far", result, err)
	}
	if other, _ := r.fairShare.Enter("other", "m"); other == nil {
		t.Error("another namespace finds no worker")
	} else {
		other()
	}
}
