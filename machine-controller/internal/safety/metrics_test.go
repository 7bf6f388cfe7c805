// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"testing"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/runtime/metric/metrictest"
)

// It runs alone, as the counters are shared by the process.
func TestDenialsAreCounted(t *testing.T) {
	s := newFixture(t)
	md, set := s.deployment(t, "a", 3)
	registry := metrictest.Of(t, denials)
	create := "machine_controller_budget_denials_total operation=create reason=Frozen"
	replace := "machine_controller_budget_denials_total operation=replace reason=Frozen"
	before := metrictest.Samples(t, registry)
	s.create(t, set, 1)
	if after := metrictest.Samples(t, registry); after[create] != before[create] {
		t.Error("a creation that was allowed is counted as denied")
	}
	md.Labels[droverpolicyv1.FrozenLabel] = "true"
	if err := s.store.Update(t.Context(), md); err != nil {
		t.Fatal(err)
	}
	s.create(t, set, 1)
	s.replace(t, set, s.makeUnhealthy(t, "a-0"))
	after := metrictest.Samples(t, registry)
	if after[create]-before[create] != 1 || after[replace]-before[replace] != 1 {
		t.Errorf("before %v, after %v", before, after)
	}
}
