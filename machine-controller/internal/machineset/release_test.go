// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/machineset/creation"
)

// TestReleasedUnseenMachineIsNotAwaited takes a Machine out of its set, by a label, before the set has seen it in its cache.
func TestReleasedUnseenMachineIsNotAwaited(t *testing.T) {
	t.Parallel()
	cluster, set := clusterAndSet()
	m := creation.NewMachine(set, "m")
	m.Finalizers = nil
	r, inner := reconcilerWith(t, interceptor.Funcs{}, cluster, set, m)
	clk := testingclock.NewFakePassiveClock(epoch)
	r.Clock, r.tracker = clk, &expectation.Tracker{Clock: clk}
	r.tracker.SetVerified(set.UID)
	r.tracker.Created(set.UID, m)
	before := m.DeepCopy()
	m.Labels["pool"] = "quarantine"
	if err := inner.Patch(t.Context(), m, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	s := &state{set: set, cluster: cluster}
	var fresh bool
	for range 4 {
		machines, err := r.observe(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		s.machines = machines
		if fresh, err = r.cacheCurrent(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		clk.SetTime(clk.Now().Add(time.Hour))
	}
	if !fresh || len(s.machines) != 0 {
		t.Errorf("the set with %d Machines waits for one that is not its own any more", len(s.machines))
	}
}
