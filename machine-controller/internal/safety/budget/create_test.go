// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover.io/machine-controller/internal/safety/policy"
)

// machines returns copies of a Machine.
func machines(n int, like Machine) []Machine {
	all := make([]Machine, n)
	for i := range all {
		all[i] = like
	}
	return all
}

func TestCreate(t *testing.T) {
	t.Parallel()
	running := Machine{Owner: "a", Joined: true}
	coming := Machine{Owner: "a"}
	elsewhere := Machine{Owner: "b"}
	going := Machine{Owner: "a", Joined: true, Deleting: true}
	tests := map[string]struct {
		policy   func(*policy.Settings)
		hold     *Refusal
		machines []Machine
		want     int
		allowed  int
		reason   string
	}{
		"allows everything by default":                      {want: 10, allowed: 10},
		"creates nothing while blocked":                     {want: 3, hold: &Refusal{Reason: ReasonFrozen}, reason: ReasonFrozen},
		"creates nothing when nothing is wanted":            {want: 0, hold: &Refusal{Reason: ReasonFrozen}},
		"stops at replicas, surge and up":                   {machines: machines(12, running), want: 5, allowed: 1, reason: ReasonOvershoot},
		"stays stopped beyond":                              {machines: machines(20, running), want: 5, reason: ReasonOvershoot},
		"does not count Machines being deleted":             {machines: machines(12, going), want: 5, allowed: 5},
		"does not count Machines of other owners":           {machines: machines(12, elsewhere), want: 5, allowed: 5},
		"takes its own up":                                  {policy: func(p *policy.Settings) { p.Up = 7 }, machines: machines(12, running), want: 5, allowed: 5},
		"fills up the pending of the owner":                 {policy: func(p *policy.Settings) { p.PendingPerOwner = 4 }, machines: append(machines(3, coming), machines(9, elsewhere)...), want: 5, allowed: 1, reason: ReasonMaxPending},
		"creates none when too many are pending":            {policy: func(p *policy.Settings) { p.PendingPerOwner = 4 }, machines: machines(6, coming), want: 5, reason: ReasonMaxPending},
		"fills up the pending of the Cluster":               {policy: func(p *policy.Settings) { p.PendingPerCluster = 6 }, machines: append(machines(3, coming), machines(2, elsewhere)...), want: 5, allowed: 1, reason: ReasonMaxPending},
		"counts only what has not joined as pending":        {policy: func(p *policy.Settings) { p.PendingPerCluster = 5 }, machines: machines(5, running), want: 5, allowed: 5},
		"refuses nothing when the limit is just reached":    {policy: func(p *policy.Settings) { p.PendingPerOwner = 5 }, want: 5, allowed: 5},
		"takes the narrowest limit":                         {policy: func(p *policy.Settings) { p.PendingPerOwner, p.PendingPerCluster = 3, 2 }, want: 5, allowed: 2, reason: ReasonMaxPending},
		"is held rather than limited":                       {policy: func(p *policy.Settings) { p.PendingPerOwner = 1 }, machines: machines(3, coming), hold: &Refusal{Reason: ReasonUnreachable}, want: 5, reason: ReasonUnreachable},
		"does not count a Machine being deleted as running": {machines: append(machines(10, running), machines(3, going)...), want: 3, allowed: 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := policy.Default()
			if test.policy != nil {
				test.policy(&settings)
			}
			got := Gate{settings}.AllowCreation(State{
				Owner: "a", Owners: map[string]Owner{"a": {Title: "a", Desired: 10, Surge: 1}}, Machines: test.machines, Blocked: test.hold,
			}, test.want)
			reason := ""
			if got.Refusal != nil {
				reason = got.Refusal.Reason
			}
			if diff := cmp.Diff([]any{test.allowed, test.reason}, []any{got.Allowed, reason}); diff != "" {
				t.Errorf("allowed and reason (-want +got):\n%s", diff)
			}
		})
	}
}
