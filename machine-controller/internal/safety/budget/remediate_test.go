// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover.io/machine-controller/internal/safety/policy"
)

// machinesOf returns Machines a0, a1, … of owner a; each letter is one: h healthy, u unhealthy,
// p pending, n a replacement that has not proved itself, r being replaced, d being deleted
// otherwise, t timed out before it joined, v a replacement that failed again, q requested by an operator.
func machinesOf(owner, letters, domain string) []Machine {
	all := make([]Machine, 0, len(letters))
	for i, letter := range letters {
		m := Machine{Name: fmt.Sprintf("%s%s%d", owner, domain, i), Owner: owner, Domain: domain, Joined: true}
		switch letter {
		case 'u':
			m.Unhealthy = true
		case 'q':
			m.Requested, m.Unhealthy = true, true
		case 'p':
			m.Joined = false
		case 'n':
			m.Proving = true
		case 'v':
			m.Proving, m.Unhealthy = true, true
		case 't':
			m.Joined, m.Unhealthy = false, true
		case 'r':
			m.Deleting, m.Unhealthy, m.Replaced = true, true, true
		case 'd':
			m.Deleting = true
		}
		all = append(all, m)
	}
	return all
}

func concat(groups ...[]Machine) []Machine {
	var all []Machine
	for _, group := range groups {
		all = append(all, group...)
	}
	return all
}

// neverStop turns the stop by threshold off.
func neverStop(p *policy.Settings) { p.StopAbove = policy.Percent(100) }

func TestReplace(t *testing.T) {
	t.Parallel()
	const twenty = "hhhhhhhhhhhhhhhhhhhh"
	tests := map[string]struct {
		policy     func(*policy.Settings)
		hold       *Refusal
		machines   []Machine
		desired    int
		others     map[string]Owner
		vacant     int
		candidates []string
		allowed    []string
		refused    map[string]string
	}{
		"replaces one of one": {
			machines: machinesOf("a", "u", ""), desired: 1, candidates: []string{"a0"}, allowed: []string{"a0"},
		},
		"replaces a tenth by default, the first first": {
			machines: machinesOf("a", "uuuh"+twenty, ""), desired: 24, candidates: []string{"a1", "a2", "a0"}, allowed: []string{"a1", "a2"},
			refused: map[string]string{"a0": ReasonBudgetUsed},
		},
		"waits for one that is being deleted": {
			machines: machinesOf("a", "urhhh", ""), desired: 5, candidates: []string{"a0"}, refused: map[string]string{"a0": ReasonBudgetUsed},
		},
		"waits for the place to be taken again": {
			machines: machinesOf("a", "uhhh", ""), desired: 5, vacant: 1, candidates: []string{"a0"}, refused: map[string]string{"a0": ReasonBudgetUsed},
		},
		"waits for the new one to prove itself": {
			machines: machinesOf("a", "unhhh", ""), desired: 5, candidates: []string{"a0"}, refused: map[string]string{"a0": ReasonBudgetUsed},
		},
		"replaces one that took a place and failed again": {
			machines: machinesOf("a", "vhhhh", ""), desired: 5, candidates: []string{"a0"}, allowed: []string{"a0"},
		},
		"replaces one that failed again although the budget has shrunk below what failed": {
			machines: machinesOf("a", "vvhhhhh", ""), desired: 7, candidates: []string{"a0"}, allowed: []string{"a0"},
		},
		"replaces one that failed again although that of another owner has the last place of the Cluster": {
			machines: concat(machinesOf("a", "vhhhh", ""), machinesOf("b", "vhhhh", "")), desired: 5, others: map[string]Owner{"b": {Desired: 5}},
			candidates: []string{"a0"}, allowed: []string{"a0"},
		},
		"replaces none that failed again with a budget of 0": {
			policy:   func(p *policy.Settings) { p.PerOwner = policy.Number(0) },
			machines: machinesOf("a", "vhhhh", ""), desired: 5, candidates: []string{"a0"}, refused: map[string]string{"a0": ReasonBudgetUsed},
		},
		"counts one that failed again in a failure domain that is down": {
			policy:   func(p *policy.Settings) { neverStop(p); p.PerOwner = policy.Number(2) },
			machines: concat(machinesOf("a", "vu", "x"), machinesOf("a", "uhhh", "y")), desired: 6, candidates: []string{"ax0", "ay0"},
			refused: map[string]string{"ax0": ReasonFailureDomainDown, "ay0": ReasonBudgetUsed},
		},
		"does not wait for a scale-up": {
			machines: machinesOf("a", "uhhhpppppp", ""), desired: 30, candidates: []string{"a0"}, allowed: []string{"a0"},
		},
		"does not wait for a scale-down": {
			machines: machinesOf("a", "ud"+twenty, ""), desired: 21, candidates: []string{"a0"}, allowed: []string{"a0"},
		},
		"replaces one that has never joined": {
			machines: machinesOf("a", "t"+twenty, ""), desired: 21, candidates: []string{"a0"}, allowed: []string{"a0"},
		},
		"goes on at bring-up, when none has joined": {
			machines: machinesOf("a", "ttt", ""), desired: 3, candidates: []string{"a0", "a1", "a2"}, allowed: []string{"a0"},
			refused: map[string]string{"a1": ReasonBudgetUsed, "a2": ReasonBudgetUsed},
		},
		"takes a percentage of replicas": {
			policy:   func(p *policy.Settings) { p.PerOwner, p.PerCluster = policy.Percent(10), policy.Percent(100) },
			machines: machinesOf("a", "uuu"+twenty, ""), desired: 23, candidates: []string{"a0", "a1", "a2"}, allowed: []string{"a0", "a1"},
			refused: map[string]string{"a2": ReasonBudgetUsed},
		},
		"replaces nothing with a budget of 0": {
			policy:   func(p *policy.Settings) { p.PerOwner = policy.Number(0) },
			machines: machinesOf("a", "u"+twenty, ""), desired: 21, candidates: []string{"a0"}, refused: map[string]string{"a0": ReasonBudgetUsed},
		},
		"keeps to the budget of the Cluster": {
			policy:   func(p *policy.Settings) { p.PerOwner, p.PerCluster = policy.Number(5), policy.Number(2) },
			machines: concat(machinesOf("a", "uu"+twenty, ""), machinesOf("b", "rh", "")), desired: 22, others: map[string]Owner{"b": {Desired: 2}},
			candidates: []string{"a0", "a1"}, allowed: []string{"a0"}, refused: map[string]string{"a1": ReasonBudgetUsed},
		},
		"counts the empty places of another owner": {
			policy:   func(p *policy.Settings) { p.PerCluster = policy.Number(1) },
			machines: concat(machinesOf("a", "u"+twenty, ""), machinesOf("b", "h", "")), desired: 21, others: map[string]Owner{"b": {Desired: 2, Unfilled: 1}},
			candidates: []string{"a0"}, refused: map[string]string{"a0": ReasonBudgetUsed},
		},
		"keeps to the budget of a failure domain": {
			policy: func(p *policy.Settings) {
				p.PerOwner, p.PerCluster, p.PerDomain = policy.Number(9), policy.Number(9), policy.Number(1)
			},
			machines: concat(machinesOf("a", "uuhhh", "x"), machinesOf("a", "uhhhh", "y")), desired: 10,
			candidates: []string{"ax0", "ax1", "ay0"}, allowed: []string{"ax0", "ay0"}, refused: map[string]string{"ax1": ReasonBudgetUsed},
		},
		"does not limit Machines without a failure domain by one": {
			policy: func(p *policy.Settings) {
				p.PerOwner, p.PerCluster, p.PerDomain = policy.Number(9), policy.Number(9), policy.Number(0)
			},
			machines: machinesOf("a", "uuhhhhhh", ""), desired: 8, candidates: []string{"a0", "a1"}, allowed: []string{"a0", "a1"},
		},
		"stops when too many are unhealthy": {
			machines: machinesOf("a", "uuuhh", ""), desired: 5, candidates: []string{"a0"}, refused: map[string]string{"a0": ReasonTooManyUnhealthy},
		},
		"counts those that are being deleted as unhealthy": {
			machines: machinesOf("a", "urrhh", ""), desired: 5, candidates: []string{"a0"}, refused: map[string]string{"a0": ReasonTooManyUnhealthy},
		},
		"counts candidates whose Node looks well as unhealthy": {
			machines: machinesOf("a", "hhhhh", ""), desired: 5, candidates: []string{"a0", "a1", "a2"},
			refused: map[string]string{"a0": ReasonTooManyUnhealthy, "a1": ReasonTooManyUnhealthy, "a2": ReasonTooManyUnhealthy},
		},
		"goes on at the threshold": {
			machines: machinesOf("a", "uuhhh", ""), desired: 5, candidates: []string{"a0"}, allowed: []string{"a0"},
		},
		"never stops at 100%": {
			policy: neverStop, machines: machinesOf("a", "uuuuu", ""), desired: 5, candidates: []string{"a0"}, allowed: []string{"a0"},
		},
		"stops in a failure domain that is down, and goes on elsewhere": {
			policy: neverStop, machines: concat(machinesOf("a", "uup", "x"), machinesOf("b", "hhu", "y"), machinesOf("a", "u", "y")),
			desired: 3, others: map[string]Owner{"b": {Desired: 3}},
			candidates: []string{"ax0", "ax1"}, refused: map[string]string{"ax0": ReasonFailureDomainDown, "ax1": ReasonFailureDomainDown},
		},
		"replaces those requested in a failure domain that is down, within the budgets": {
			policy: neverStop, machines: concat(machinesOf("a", "uqq", "x"), machinesOf("a", "hhh", "y")), desired: 6,
			candidates: []string{"ax0", "ax1", "ax2"}, allowed: []string{"ax1"},
			refused: map[string]string{"ax0": ReasonFailureDomainDown, "ax2": ReasonBudgetUsed},
		},
		"stops for those requested too when too many are unhealthy": {
			machines: machinesOf("a", "qqqhh", ""), desired: 5, candidates: []string{"a0"}, refused: map[string]string{"a0": ReasonTooManyUnhealthy},
		},
		"stops for those requested in a failure domain while none elsewhere is healthy": {
			machines: concat(machinesOf("a", "qq", "x"), machinesOf("a", "u", "y")), desired: 3, candidates: []string{"ax0"},
			refused: map[string]string{"ax0": ReasonTooManyUnhealthy},
		},
		"does not take one unhealthy Machine for an unhealthy failure domain": {
			policy: neverStop, machines: concat(machinesOf("a", "u", "x"), machinesOf("a", "hhh", "y")), desired: 4, candidates: []string{"ax0"}, allowed: []string{"ax0"},
		},
		"does not take the only failure domain for an unhealthy one": {
			policy: neverStop, machines: machinesOf("a", "uu", "x"), desired: 2, candidates: []string{"ax0"}, allowed: []string{"ax0"},
		},
		"replaces nothing while blocked": {
			hold: &Refusal{Reason: ReasonUnreachable}, machines: machinesOf("a", "u", ""), desired: 1, candidates: []string{"a0"},
			refused: map[string]string{"a0": ReasonUnreachable},
		},
		"skips unknown Machines, Machines being deleted, those of other owners, and duplicates": {
			machines: concat(machinesOf("a", "ru"+twenty, ""), machinesOf("b", "u", "")), desired: 23, policy: func(p *policy.Settings) { p.PerOwner, p.PerCluster = policy.Number(5), policy.Number(5) },
			others:     map[string]Owner{"b": {Desired: 1}},
			candidates: []string{"a0", "zz", "b0", "a1", "a1"}, allowed: []string{"a1"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := policy.Default()
			if test.policy != nil {
				test.policy(&settings)
			}
			owners := map[string]Owner{"a": {Title: "a", Desired: test.desired, Unfilled: test.vacant}}
			for key, owner := range test.others {
				owners[key] = owner
			}
			got := Gate{settings}.AllowRemediation(State{Owner: "a", Owners: owners, Machines: test.machines, Blocked: test.hold}, test.candidates)
			refused := map[string]string{}
			for name, refusal := range got.Refused {
				refused[name] = refusal.Reason
				if refusal.Message == "" && test.hold == nil {
					t.Errorf("%s is refused without a message", name)
				}
			}
			if test.refused == nil {
				test.refused = map[string]string{}
			}
			if diff := cmp.Diff(test.allowed, got.Allowed); diff != "" {
				t.Errorf("allowed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.refused, refused); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
}
