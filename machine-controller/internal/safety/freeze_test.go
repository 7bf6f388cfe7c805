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
	type freeze struct {
		Label  bool
		Over   time.Time
		Again  time.Duration
		Reason string
	}
	ago := noon.Add(-time.Minute)
	// 10 replicas, a surge of 1, up 2, down 1: more than 13 freeze, 12 thaw.
	tests := map[string]struct {
		input FreezeInput
		want  freeze
	}{
		"leaves a owner alone":                        {FreezeInput{Machines: 10}, freeze{}},
		"leaves a owner at the limit alone":           {FreezeInput{Machines: 13}, freeze{}},
		"waits for a period first":                    {FreezeInput{Machines: 14}, freeze{Over: noon, Again: time.Minute}},
		"goes on waiting":                             {FreezeInput{Machines: 14, OvershootSince: noon.Add(-20 * time.Second)}, freeze{Over: noon.Add(-20 * time.Second), Again: 40 * time.Second}},
		"freezes after a period":                      {FreezeInput{Machines: 14, OvershootSince: ago}, freeze{Label: true, Over: ago, Reason: policyv1.OvershootReason}},
		"forgets a blip":                              {FreezeInput{Machines: 13, OvershootSince: ago}, freeze{}},
		"begins anew when the clock was set back":     {FreezeInput{Machines: 14, OvershootSince: noon.Add(time.Hour)}, freeze{Over: noon, Again: time.Minute}},
		"stays frozen at the limit":                   {FreezeInput{Machines: 13, Labelled: true}, freeze{Label: true, Reason: policyv1.OvershootReason}},
		"stays frozen beyond, without waiting again":  {FreezeInput{Machines: 20, Labelled: true}, freeze{Label: true, Reason: policyv1.OvershootReason}},
		"thaws below the limit":                       {FreezeInput{Machines: 12, Labelled: true}, freeze{}},
		"is frozen by an operator":                    {FreezeInput{Machines: 10, Order: policyv1.FreezeOn}, freeze{Reason: policyv1.FrozenByAnnotationReason}},
		"takes the label back for an operator's word": {FreezeInput{Machines: 20, Labelled: true, Order: policyv1.FreezeOn}, freeze{Reason: policyv1.FrozenByAnnotationReason}},
		"is thawed by an operator":                    {FreezeInput{Machines: 20, Labelled: true, Order: policyv1.FreezeOff, OvershootSince: ago}, freeze{}},
		"is frozen by a word that is not understood":  {FreezeInput{Machines: 10, Order: policyv1.FreezeUnclear, Value: "yes"}, freeze{Reason: policyv1.FreezeUnclearReason}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.input.Owner = Owner{Title: "a", Desired: 10, Surge: 1}
			test.input.Now, test.input.Period = noon, time.Minute
			got := Gate{Default()}.Freeze(test.input)
			if diff := cmp.Diff(test.want, freeze{got.Label, got.OvershootSince, got.RequeueAfter, got.Reason}); diff != "" {
				t.Errorf("freeze (-want +got):\n%s", diff)
			}
			if got.Frozen() != (got.Reason != "") {
				t.Errorf("frozen is %t, but the reason is %q", got.Frozen(), got.Reason)
			}
		})
	}
}

// TestFreezeDoesNotFlap lets the number of Machines wander and sees that the label changes
// only for a reason: it comes when there have been too many for a period, and goes at the
// lower limit; nothing between the two limits ever changes it.
func TestFreezeDoesNotFlap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policy := Default()
		policy.Up = rapid.IntRange(0, 5).Draw(t, "up")
		policy.Down = rapid.IntRange(0, 7).Draw(t, "down")
		owner := Owner{Desired: rapid.IntRange(0, 9).Draw(t, "desired"), Surge: rapid.IntRange(0, 3).Draw(t, "surge")}
		most := owner.Desired + owner.Surge + policy.Up
		least := max(most-policy.Down, owner.Desired+owner.Surge)
		input := FreezeInput{Owner: owner, Now: noon, Period: time.Minute}
		tooManySince := time.Time{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			input.Machines = rapid.IntRange(0, most+4).Draw(t, "alive")
			input.Now = input.Now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			switch {
			case input.Machines <= most:
				tooManySince = time.Time{}
			case tooManySince.IsZero():
				tooManySince = input.Now
			}
			got := Gate{policy}.Freeze(input)
			if !input.Labelled && got.Label && (tooManySince.IsZero() || input.Now.Sub(tooManySince) < time.Minute) {
				t.Fatalf("froze at %d of %d without a period of too many", input.Machines, most)
			}
			if !input.Labelled && !got.Label && !tooManySince.IsZero() && input.Now.Sub(tooManySince) >= time.Minute {
				t.Fatalf("did not freeze at %d of %d after a period", input.Machines, most)
			}
			if input.Labelled == got.Label {
				if again := nextFreeze(policy, input, got); again.Label != got.Label {
					t.Fatalf("changed its mind about %d at once", input.Machines)
				}
			}
			if input.Labelled && got.Label != (input.Machines > least) {
				t.Fatalf("label is %t at %d, which thaws at %d", got.Label, input.Machines, least)
			}
			input.Labelled, input.OvershootSince = got.Label, got.OvershootSince
			if !got.Label && input.Machines <= most {
				tooManySince = time.Time{}
			}
		}
	})
}

// nextFreeze asks once more about the same, with what the last answer has written.
func nextFreeze(policy Policy, input FreezeInput, last FreezeDecision) FreezeDecision {
	input.Labelled, input.OvershootSince = last.Label, last.OvershootSince
	return Gate{policy}.Freeze(input)
}
