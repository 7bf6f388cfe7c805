// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/runtime/fairshare"
)

// TestANamespaceHoldsHalfOfTheWorkers has one with as many Machines at work as it may have, whose API servers take their time.
func TestANamespaceHoldsHalfOfTheWorkers(t *testing.T) {
	t.Parallel()
	r := &Reconciler{Clock: testingclock.NewFakePassiveClock(epoch), fairShare: fairshare.NewGate(2)}
	r.writes.Clock = r.Clock
	leave, _ := r.fairShare.Enter("tenant")
	defer leave()
	result, err := r.Reconcile(t.Context(), &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "m", UID: "m"}})
	if err != nil || result.RequeueAfter != busyRetry {
		t.Errorf("got %v, %v; want another attempt after %s", result, err, busyRetry)
	}
	if leave, ok := r.fairShare.Enter("other"); !ok {
		t.Error("another namespace finds no worker")
	} else {
		leave()
	}
}
