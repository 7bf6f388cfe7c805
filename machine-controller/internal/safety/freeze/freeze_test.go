// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package freeze

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/goldentest"
	"drover.io/machine-controller/internal/safety/budget"
	"drover.io/machine-controller/internal/safety/policy"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestDecide(t *testing.T) {
	t.Parallel()
	type freeze struct {
		Label  bool
		Over   time.Time
		Again  time.Duration
		Reason string
	}
	ago := noon.Add(-time.Minute)
	// 10 replicas, a surge of 1, up 2, down 1: more than 13 begin a freeze, 12 end it.
	tests := map[string]struct {
		input Input
		want  freeze
	}{
		"does not freeze an owner within the limit":  {Input{Machines: 10}, freeze{}},
		"does not freeze an owner at the limit":      {Input{Machines: 13}, freeze{}},
		"waits for a period first":                   {Input{Machines: 14}, freeze{Over: noon, Again: time.Minute}},
		"keeps the beginning of the overshoot":       {Input{Machines: 14, OvershootSince: noon.Add(-20 * time.Second)}, freeze{Over: noon.Add(-20 * time.Second), Again: 40 * time.Second}},
		"freezes after a period":                     {Input{Machines: 14, OvershootSince: ago}, freeze{Label: true, Over: ago, Reason: droverpolicyv1.OvershootReason}},
		"drops an overshoot that has ended":          {Input{Machines: 13, OvershootSince: ago}, freeze{}},
		"begins again when the clock was set back":   {Input{Machines: 14, OvershootSince: noon.Add(time.Hour)}, freeze{Over: noon, Again: time.Minute}},
		"stays frozen at the limit":                  {Input{Machines: 13, Labelled: true}, freeze{Label: true, Reason: droverpolicyv1.OvershootReason}},
		"stays frozen beyond, without waiting again": {Input{Machines: 20, Labelled: true}, freeze{Label: true, Reason: droverpolicyv1.OvershootReason}},
		"ends below the limit":                       {Input{Machines: 12, Labelled: true}, freeze{}},
		"is frozen by an annotation":                 {Input{Machines: 10, Setting: droverpolicyv1.FreezeOn}, freeze{Reason: droverpolicyv1.FrozenByAnnotationReason}},
		"removes the label for an annotation":        {Input{Machines: 20, Labelled: true, Setting: droverpolicyv1.FreezeOn}, freeze{Reason: droverpolicyv1.FrozenByAnnotationReason}},
		"is ended by an annotation":                  {Input{Machines: 20, Labelled: true, Setting: droverpolicyv1.FreezeOff, OvershootSince: ago}, freeze{}},
		"is frozen by an invalid annotation":         {Input{Machines: 10, Setting: droverpolicyv1.FreezeInvalid, Value: "yes"}, freeze{Reason: droverpolicyv1.FreezeInvalidReason}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.input.Owner = budget.Owner{Title: "a", Desired: 10, Surge: 1}
			test.input.Now, test.input.Period = noon, time.Minute
			got := Decide(policy.Default(), test.input)
			if diff := cmp.Diff(test.want, freeze{got.Label, got.OvershootSince, got.RequeueAfter, got.Reason}); diff != "" {
				t.Errorf("freeze (-want +got):\n%s", diff)
			}
			if got.Frozen() != (got.Reason != "") {
				t.Errorf("frozen is %t, but the reason is %q", got.Frozen(), got.Reason)
			}
		})
	}
}

// TestDecideDoesNotFlap changes the number of Machines and checks that the label changes
// only for a reason: it comes when there have been too many for a period, and goes at the
// lower limit; nothing between the two limits ever changes it.
func TestDecideDoesNotFlap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		settings := policy.Default()
		settings.Up = rapid.IntRange(0, 5).Draw(t, "up")
		settings.Down = rapid.IntRange(0, 7).Draw(t, "down")
		owner := budget.Owner{Desired: rapid.IntRange(0, 9).Draw(t, "desired"), Surge: rapid.IntRange(0, 3).Draw(t, "surge")}
		most := owner.Desired + owner.Surge + settings.Up
		least := max(most-settings.Down, owner.Desired+owner.Surge)
		input := Input{Owner: owner, Now: noon, Period: time.Minute}
		tooManySince := time.Time{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			input.Machines = rapid.IntRange(0, most+4).Draw(t, "machines")
			input.Now = input.Now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			switch {
			case input.Machines <= most:
				tooManySince = time.Time{}
			case tooManySince.IsZero():
				tooManySince = input.Now
			}
			got := Decide(settings, input)
			if !input.Labelled && got.Label && (tooManySince.IsZero() || input.Now.Sub(tooManySince) < time.Minute) {
				t.Fatalf("froze at %d of %d without a period of too many", input.Machines, most)
			}
			if !input.Labelled && !got.Label && !tooManySince.IsZero() && input.Now.Sub(tooManySince) >= time.Minute {
				t.Fatalf("did not freeze at %d of %d after a period", input.Machines, most)
			}
			if input.Labelled == got.Label {
				if again := decideAgain(settings, input, got); again.Label != got.Label {
					t.Fatalf("changed the decision about %d at once", input.Machines)
				}
			}
			if input.Labelled && got.Label != (input.Machines > least) {
				t.Fatalf("label is %t at %d, which ends at %d", got.Label, input.Machines, least)
			}
			input.Labelled, input.OvershootSince = got.Label, got.OvershootSince
			if !got.Label && input.Machines <= most {
				tooManySince = time.Time{}
			}
		}
	})
}

// decideAgain decides about the same input with the result of the last decision.
func decideAgain(settings policy.Settings, input Input, last Decision) Decision {
	input.Labelled, input.OvershootSince = last.Label, last.OvershootSince
	return Decide(settings, input)
}

// TestGoldenFreeze follows an overshoot minute by minute until the freeze begins and ends.
func TestGoldenFreeze(t *testing.T) {
	t.Parallel()
	owner := budget.Owner{Title: `MachineDeployment "a"`, Desired: 5, Surge: 1}
	input := Input{Owner: owner, Now: noon, Period: time.Minute}
	var out strings.Builder
	for _, step := range []struct {
		after   time.Duration
		running int
		word    string
	}{
		{0, 5, ""}, {time.Minute, 9, ""}, {30 * time.Second, 8, ""}, {20 * time.Second, 9, ""}, {30 * time.Second, 9, ""}, {30 * time.Second, 9, ""},
		{time.Minute, 8, ""}, {time.Minute, 7, ""}, {time.Minute, 8, ""}, {time.Minute, 9, ""}, {time.Minute, 9, ""},
		{time.Minute, 9, "false"}, {time.Hour, 9, "false"}, {time.Minute, 9, ""}, {time.Minute, 9, ""}, {time.Minute, 5, "true"}, {time.Minute, 5, ""},
	} {
		input.Now = input.Now.Add(step.after)
		input.Machines, input.Value, input.Setting = step.running, step.word, droverpolicyv1.FreezeUnset
		if step.word != "" {
			input.Setting = droverpolicyv1.FreezeSettingOf(map[string]string{droverpolicyv1.FreezeAnnotation: step.word})
		}
		decision := Decide(policy.Default(), input)
		fmt.Fprintf(&out, "%s %d Machines", input.Now.Format(time.TimeOnly), step.running)
		if step.word != "" {
			fmt.Fprintf(&out, ", drover.io/freeze: %q", step.word)
		}
		if decision.Frozen() {
			fmt.Fprintf(&out, " | %s: %s", decision.Reason, decision.Message)
		}
		if decision.RequeueAfter > 0 {
			fmt.Fprintf(&out, " | looks again after %s", decision.RequeueAfter)
		}
		out.WriteString("\n")
		input.Labelled, input.OvershootSince = decision.Label, decision.OvershootSince
	}
	goldentest.Compare(t, "freeze", out.String())
}
