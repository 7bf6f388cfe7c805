// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	policyv1 "drover.io/api/policy/v1alpha1"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestFreeze(t *testing.T) {
	t.Parallel()
	type frost struct {
		Label  bool
		Over   time.Time
		Again  time.Duration
		Reason string
	}
	ago := noon.Add(-time.Minute)
	// 10 replicas, a surge of 1, up 2, down 1: more than 13 freeze, 12 thaw.
	tests := map[string]struct {
		crowd Crowd
		want  frost
	}{
		"leaves a fleet alone":                        {Crowd{Alive: 10}, frost{}},
		"leaves a fleet at the limit alone":           {Crowd{Alive: 13}, frost{}},
		"waits for a period first":                    {Crowd{Alive: 14}, frost{Over: noon, Again: time.Minute}},
		"goes on waiting":                             {Crowd{Alive: 14, Over: noon.Add(-20 * time.Second)}, frost{Over: noon.Add(-20 * time.Second), Again: 40 * time.Second}},
		"freezes after a period":                      {Crowd{Alive: 14, Over: ago}, frost{Label: true, Over: ago, Reason: policyv1.OvershootReason}},
		"forgets a blip":                              {Crowd{Alive: 13, Over: ago}, frost{}},
		"begins anew when the clock was set back":     {Crowd{Alive: 14, Over: noon.Add(time.Hour)}, frost{Over: noon, Again: time.Minute}},
		"stays frozen at the limit":                   {Crowd{Alive: 13, Frozen: true}, frost{Label: true, Reason: policyv1.OvershootReason}},
		"stays frozen beyond, without waiting again":  {Crowd{Alive: 20, Frozen: true}, frost{Label: true, Reason: policyv1.OvershootReason}},
		"thaws below the limit":                       {Crowd{Alive: 12, Frozen: true}, frost{}},
		"is frozen by an operator":                    {Crowd{Alive: 10, Word: "true"}, frost{Reason: policyv1.FrozenByAnnotationReason}},
		"takes the label back for an operator's word": {Crowd{Alive: 20, Frozen: true, Word: "true"}, frost{Reason: policyv1.FrozenByAnnotationReason}},
		"is thawed by an operator":                    {Crowd{Alive: 20, Frozen: true, Word: "false", Over: ago}, frost{}},
		"takes any other word for none":               {Crowd{Alive: 20, Frozen: true, Word: "yes"}, frost{Label: true, Reason: policyv1.OvershootReason}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.crowd.Fleet = Fleet{Title: "a", Desired: 10, Surge: 1}
			test.crowd.Now, test.crowd.Period = noon, time.Minute
			got := Gate{Default()}.Freeze(test.crowd)
			if diff := cmp.Diff(test.want, frost{got.Label, got.Over, got.Again, got.Reason}); diff != "" {
				t.Errorf("frost (-want +got):\n%s", diff)
			}
			if got.Frozen() != (got.Reason != "") {
				t.Errorf("frozen is %t, but the reason is %q", got.Frozen(), got.Reason)
			}
		})
	}
}

// TestFreezeNeverFlaps lets the number of Machines wander and sees that the label changes
// only for a reason: it comes when there have been too many for a period, and goes at the
// lower limit; nothing between the two limits ever changes it.
func TestFreezeNeverFlaps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policy := Default()
		policy.Up = rapid.IntRange(0, 5).Draw(t, "up")
		policy.Down = rapid.IntRange(0, 7).Draw(t, "down")
		fleet := Fleet{Desired: rapid.IntRange(0, 9).Draw(t, "desired"), Surge: rapid.IntRange(0, 3).Draw(t, "surge")}
		most := fleet.Desired + fleet.Surge + policy.Up
		least := max(most-policy.Down, fleet.Desired+fleet.Surge)
		crowd := Crowd{Fleet: fleet, Now: noon, Period: time.Minute}
		tooManySince := time.Time{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			crowd.Alive = rapid.IntRange(0, most+4).Draw(t, "alive")
			crowd.Now = crowd.Now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			switch {
			case crowd.Alive <= most:
				tooManySince = time.Time{}
			case tooManySince.IsZero():
				tooManySince = crowd.Now
			}
			got := Gate{policy}.Freeze(crowd)
			if !crowd.Frozen && got.Label && (tooManySince.IsZero() || crowd.Now.Sub(tooManySince) < time.Minute) {
				t.Fatalf("froze at %d of %d without a period of too many", crowd.Alive, most)
			}
			if !crowd.Frozen && !got.Label && !tooManySince.IsZero() && crowd.Now.Sub(tooManySince) >= time.Minute {
				t.Fatalf("did not freeze at %d of %d after a period", crowd.Alive, most)
			}
			if crowd.Frozen == got.Label {
				if again := askAgain(policy, crowd, got); again.Label != got.Label {
					t.Fatalf("changed its mind about %d at once", crowd.Alive)
				}
			}
			if crowd.Frozen && got.Label != (crowd.Alive > least) {
				t.Fatalf("label is %t at %d, which thaws at %d", got.Label, crowd.Alive, least)
			}
			crowd.Frozen, crowd.Over = got.Label, got.Over
			if !got.Label && crowd.Alive <= most {
				tooManySince = time.Time{}
			}
		}
	})
}

// askAgain asks once more about the same, with what the last answer has written.
func askAgain(policy Policy, crowd Crowd, last Frost) Frost {
	crowd.Frozen, crowd.Over = last.Label, last.Over
	return Gate{policy}.Freeze(crowd)
}
