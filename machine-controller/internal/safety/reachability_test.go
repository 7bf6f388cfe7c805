// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"testing"
	"time"

	"drover.io/machine-controller/internal/workload"
)

func TestProbed(t *testing.T) {
	t.Parallel()
	// One letter is one probe, 10 s after the one before: + answered, - did not. The timeout is 30 s.
	tests := map[string]struct {
		probes string
		since  int // the probe with which the answers began; -1 is unreachable
		held   bool
	}{
		"is unreachable before the first probe":        {"", -1, true},
		"is unreachable until one answers":             {"--", -1, true},
		"is reachable at once when one answers":        {"-+", 1, false},
		"holds from the first failure on":              {"++-", 0, true},
		"holds until the timeout":                      {"++---", 0, true},
		"stays reachable through a blip":               {"++---+", 0, false},
		"is unreachable after the timeout":             {"+----", -1, true},
		"drops a failure that ended":                   {"+---+---+", 0, false},
		"starts anew when it comes back":               {"+----+", 5, false},
		"stays unreachable through an answer and more": {"+----+----", -1, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var reach Reachability
			for i, probe := range test.probes {
				reach = reach.Probed(probe == '+', noon.Add(time.Duration(i)*10*time.Second), 30*time.Second)
			}
			want := time.Time{}
			if test.since >= 0 {
				want = noon.Add(time.Duration(test.since) * 10 * time.Second)
			}
			if !reach.Since.Equal(want) || reach.Reachable() != (test.since >= 0) {
				t.Errorf("reachable %t since %s, want since %s", reach.Reachable(), reach.Since, want)
			}
			if refusal := managementUnreachable(reach); (refusal != nil) != test.held {
				t.Errorf("refusal is %v", refusal)
			}
		})
	}
}

func TestWorkloadUnreachable(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		initialized bool
		state       workload.State
		refused     bool
	}{
		"allows the first Machines of a cluster":            {},
		"allows everything while connected":                 {initialized: true, state: workload.State{Connected: true, Claim: workload.Claim{Status: workload.ClaimHeld}}},
		"holds everything after one probe that failed":      {initialized: true, state: workload.State{Connected: true, Claim: workload.Claim{Status: workload.ClaimHeld}, ConsecutiveFailures: 1, Message: "no answer"}, refused: true},
		"tolerates a new kubeconfig that does not work":     {initialized: true, state: workload.State{Connected: true, Claim: workload.Claim{Status: workload.ClaimHeld}, Reason: workload.ReasonUnauthorized, Message: "who are you"}},
		"holds everything while disconnected":               {initialized: true, state: workload.State{Message: "no answer"}, refused: true},
		"holds everything until a new process is connected": {initialized: true, refused: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := workloadUnreachable(test.initialized, test.state); (got != nil) != test.refused {
				t.Errorf("refusal is %v", got)
			}
		})
	}
}

func TestNotClaimed(t *testing.T) {
	t.Parallel()
	held := workload.Claim{Status: workload.ClaimHeld}
	for name, test := range map[string]struct {
		initialized bool
		state       workload.State
		refused     bool
	}{
		"allows everything with a claim":                         {initialized: true, state: workload.State{Connected: true, Claim: held}},
		"allows everything in an outage after a claim":           {initialized: true, state: workload.State{Claim: held}},
		"allows a Cluster that was never connected":              {state: workload.State{}},
		"holds a Cluster that was claimed by an earlier process": {initialized: true, state: workload.State{}, refused: true},
		"holds a Cluster between connection and claim":           {state: workload.State{Connected: true}, refused: true},
		"holds a Cluster that is claimed elsewhere":              {state: workload.State{Connected: true, Claim: workload.Claim{Status: workload.ClaimForeign, Message: "m"}}, refused: true},
		"holds a Cluster that is claimed elsewhere in an outage": {initialized: true, state: workload.State{Claim: workload.Claim{Status: workload.ClaimForeign, Message: "m"}}, refused: true},
		"holds a Cluster that may not be claimed":                {initialized: true, state: workload.State{Connected: true, Claim: workload.Claim{Status: workload.ClaimForbidden, Message: "m"}}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := notClaimed(test.initialized, test.state); (got != nil) != test.refused {
				t.Errorf("refusal is %+v", got)
			}
		})
	}
}
