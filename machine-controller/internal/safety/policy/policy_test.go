// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func selecting(pool string) *droverpolicyv1.Selector {
	if pool == "" {
		return &droverpolicyv1.Selector{}
	}
	return &droverpolicyv1.Selector{MatchLabels: map[string]droverpolicyv1.LabelText{"pool": droverpolicyv1.LabelText(pool)}}
}

func aPolicy(name, pool string, age time.Duration) droverpolicyv1.MachinePolicy {
	return droverpolicyv1.MachinePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-age))},
		Spec:       droverpolicyv1.MachinePolicySpec{Selector: selecting(pool)},
	}
}

func TestSelectingPoliciesByPrecedence(t *testing.T) {
	t.Parallel()
	going := aPolicy("going", "gpu", time.Hour)
	going.DeletionTimestamp = new(metav1.NewTime(noon))
	broken := aPolicy("broken", "gpu", time.Hour)
	broken.Spec.Selector.MatchExpressions = []droverpolicyv1.SelectorRequirement{{Key: "pool", Operator: "Near"}}
	exists := aPolicy("exists", "", time.Minute)
	exists.Spec.Selector.MatchExpressions = []droverpolicyv1.SelectorRequirement{
		{Key: "pool", Operator: metav1.LabelSelectorOpIn, Values: []droverpolicyv1.LabelText{"gpu", "cpu"}},
	}
	unreachable := aPolicy("unreachable", "", time.Hour)
	unreachable.Spec.Selector = nil
	tests := map[string]struct {
		policies []droverpolicyv1.MachinePolicy
		want     []string
	}{
		"selects nothing without policies":                               {nil, nil},
		"passes over what does not match":                                {[]droverpolicyv1.MachinePolicy{aPolicy("a", "cpu", 0)}, nil},
		"takes an empty selector for all":                                {[]droverpolicyv1.MachinePolicy{aPolicy("a", "", 0)}, []string{"a"}},
		"takes expressions":                                              {[]droverpolicyv1.MachinePolicy{exists}, []string{"exists"}},
		"takes the oldest first":                                         {[]droverpolicyv1.MachinePolicy{aPolicy("a", "gpu", 0), aPolicy("b", "", time.Hour)}, []string{"b", "a"}},
		"takes the first by name of the equally old":                     {[]droverpolicyv1.MachinePolicy{aPolicy("b", "gpu", 0), aPolicy("a", "", 0)}, []string{"a", "b"}},
		"skips one that is being deleted, is invalid or has no selector": {[]droverpolicyv1.MachinePolicy{going, broken, unreachable, aPolicy("a", "gpu", 0)}, []string{"a"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, p := range (&Selectors{}).Candidates(test.policies) {
				if p.Selects(map[string]string{"pool": "gpu"}) {
					got = append(got, p.Name)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("policies (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSelectorsAreCompiledOnce: a namespace may have hundreds, and each creation and replacement evaluates all of them.
func TestSelectorsAreCompiledOnce(t *testing.T) {
	t.Parallel()
	selectors, gpu := &Selectors{}, map[string]string{"pool": "gpu"}
	selects := func(p droverpolicyv1.MachinePolicy) bool {
		return selectors.Candidates([]droverpolicyv1.MachinePolicy{p})[0].Selects(gpu)
	}
	first := aPolicy("a", "gpu", 0)
	first.UID, first.Generation = "a", 1
	again, other := aPolicy("a", "cpu", 0), aPolicy("b", "cpu", 0)
	again.UID, again.Generation, other.UID, other.Generation = "a", 1, "b", 1
	if !selects(first) || !selects(again) {
		t.Error("the selector of one generation is compiled again")
	}
	if again.Generation = 2; selects(again) || selects(other) {
		t.Error("another selector is taken for one that was compiled before")
	}
}

func TestOver(t *testing.T) {
	t.Parallel()
	from := aPolicy("full", "", 0)
	from.Spec.Replacement = droverpolicyv1.ReplacementBudget{
		MaxPerDeployment: new(intstr.FromInt32(3)), MaxPerCluster: new(intstr.FromString("25%")),
		MaxPerFailureDomain: new(intstr.FromInt32(2)), StopAboveUnhealthy: new(intstr.FromString("100%")),
	}
	from.Spec.Overshoot = droverpolicyv1.OvershootLimits{Up: new(int32(5)), Down: new(int32(0))}
	from.Spec.Creation = droverpolicyv1.CreationLimits{MaxPendingPerDeployment: new(int32(4)), MaxPendingPerCluster: new(int32(9))}
	from.Spec.Rollout = droverpolicyv1.RolloutPolicy{ProgressDeadlineSeconds: new(int32(0))}
	from.Spec.Drain = droverpolicyv1.DrainPolicy{ForceAfterSeconds: new(int32(90)), SerialVolumes: new(true)}
	want := Settings{
		Name: "full", PerOwner: Number(3), PerCluster: Percent(25), PerDomain: Number(2), StopAbove: Percent(100), Up: 5, Down: 0,
		PendingPerOwner: 4, PendingPerCluster: 9, ForceDrainAfter: 90 * time.Second, SerialVolumes: true,
	}
	got, err := Default().Over(&from)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(IntOrPercent{})); diff != "" || err != nil {
		t.Errorf("policy (-want +got), error %v:\n%s", err, diff)
	}

	empty := aPolicy("empty", "", 0)
	want = Default()
	want.Name = "empty"
	got, err = Default().Over(&empty)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(IntOrPercent{})); diff != "" || err != nil {
		t.Errorf("an empty policy (-want +got), error %v:\n%s", err, diff)
	}

	broken := aPolicy("broken", "", 0)
	broken.Spec.Replacement = droverpolicyv1.ReplacementBudget{MaxPerDeployment: new(intstr.FromString("many")), MaxPerCluster: new(intstr.FromInt32(7))}
	want.Name, want.PerCluster = "broken", Number(7)
	got, err = Default().Over(&broken)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(IntOrPercent{})); diff != "" || err == nil {
		t.Errorf("an invalid policy (-want +got), error %v:\n%s", err, diff)
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		value intstr.IntOrString
		of    int
		want  int
		bad   bool
	}{
		"takes a number as it is":           {value: intstr.FromInt32(3), of: 1, want: 3},
		"takes 0 for none":                  {value: intstr.FromInt32(0), of: 10, want: 0},
		"takes 0% for none":                 {value: intstr.FromString("0%"), of: 10, want: 0},
		"rounds down":                       {value: intstr.FromString("40%"), of: 9, want: 3},
		"is at least 1":                     {value: intstr.FromString("1%"), of: 3, want: 1},
		"takes 100% for all":                {value: intstr.FromString("100%"), of: 7, want: 7},
		"refuses a negative number":         {value: intstr.FromInt32(-1), bad: true},
		"refuses a negative percentage":     {value: intstr.FromString("-5%"), bad: true},
		"refuses more than all":             {value: intstr.FromString("101%"), bad: true},
		"refuses a number that is a string": {value: intstr.FromString("5"), bad: true},
		"refuses words":                     {value: intstr.FromString("half"), bad: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			share, err := ParseIntOrPercent(test.value)
			if (err != nil) != test.bad || (!test.bad && share.Of(test.of) != test.want) {
				t.Errorf("is %d of %d, error %v", share.Of(test.of), test.of, err)
			}
			if !test.bad && share.String() != test.value.String() {
				t.Errorf("is written %q, read %q", share, test.value.String())
			}
		})
	}
}
