// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover.io/test/bench/report"
)

// TestMeasuresScenario takes a few machines through every phase under our core. It asserts what does
// not depend on how fast the machine is: what is made costs writes, and rest and restarts cost none.
func TestMeasuresScenario(t *testing.T) {
	t.Parallel()
	cores, err := choose([]string{"drover"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]scenario{
		"in one cluster":   {name: "4", clusters: 1, machines: 4, idle: time.Second},
		"in many clusters": {name: "2x2", clusters: 2, machines: 2, idle: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			measured, err := run(t.Context(), cores[0], of, nil)
			if err != nil {
				t.Fatal(err)
			}
			type cost struct{ Writes, Workload, Reconciles bool }
			got := map[string]cost{}
			for _, phase := range measured.Phases {
				got[phase.Name] = cost{phase.Writes > 0, phase.WorkloadWrites > 0, phase.Reconciles > 0}
			}
			delete(got, report.Empty)
			restart := got[report.Restart]
			want := map[string]cost{
				report.Create: {true, true, true}, report.Roll: {true, true, true}, report.Delete: {true, true, true},
				report.Idle: {false, false, got[report.Idle].Reconciles}, report.Restart: {false, false, restart.Reconciles},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("what was used (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnknownChoicesAreRefused(t *testing.T) {
	t.Parallel()
	if _, err := choose([]string{"drover", "another"}, nil); err == nil {
		t.Error("an unknown core was accepted")
	}
	if _, err := find([]string{"200", "another"}, 0, report.Delete); err == nil {
		t.Error("an unknown scenario was accepted")
	}
	if _, err := find([]string{"200"}, 0, "lunch"); err == nil {
		t.Error("an unknown phase was accepted")
	}
}
