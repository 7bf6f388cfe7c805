// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drover.io/runtime/drainplan"
)

func TestRequeueAfter(t *testing.T) {
	t.Parallel()
	began := func(ago time.Duration) *corev1.Pod { return aPod("p", terminating(noon.Add(-ago), 600)) }
	deadline := func(in time.Duration) *time.Time { return new(noon.Add(in)) }
	tests := map[string]struct {
		pod      *corev1.Pod
		pass     executor
		deadline *time.Time
		want     time.Duration
	}{
		"looks soon after Pods were evicted":             {pod: aPod("p"), pass: executor{removed: []Removal{{}}}, want: 2 * time.Second},
		"looks at once when the pass was too short":      {pod: aPod("p"), pass: executor{progress: progressOf(awaits(Cause{Kind: NextPass}, "p"))}, want: time.Second},
		"gives an overloaded API server its time":        {pod: aPod("p"), pass: executor{retryAfter: 9 * time.Second}, want: 9 * time.Second},
		"repeats rarely when another party must act":     {pod: aPod("p"), want: 20 * time.Second},
		"returns soon for an exhausted budget":           {pod: aPod("p"), pass: executor{progress: progressOf(awaits(Cause{Kind: BudgetExhausted}, "p"))}, want: 5 * time.Second},
		"returns later for a misconfigured budget":       {pod: aPod("p"), pass: executor{progress: progressOf(awaits(Cause{Kind: BudgetMisconfigured}, "p"))}, want: 20 * time.Second},
		"looks soon at a Pod that just began to end":     {pod: began(0), want: 2 * time.Second},
		"looks less often at a Pod that takes its time":  {pod: began(16 * time.Second), want: 8 * time.Second},
		"looks rarely at a Pod that takes very long":     {pod: began(time.Hour), want: 20 * time.Second},
		"is there in time to delete for the deadline":    {pod: aPod("p"), deadline: deadline(37 * time.Second), want: 7 * time.Second},
		"is there when the deadline gives up the rest":   {pod: aPod("p", terminating(noon.Add(-time.Hour), 3605)), deadline: deadline(5 * time.Second), want: 7 * time.Second},
		"never comes back within the same second":        {pod: aPod("p"), deadline: deadline(30*time.Second + time.Millisecond), want: time.Second},
		"does not look later for a deadline far ahead":   {pod: aPod("p"), deadline: deadline(time.Hour), want: 20 * time.Second},
		"does not care for the deadline of ending Pods ": {pod: began(16 * time.Second), deadline: deadline(time.Hour), want: 8 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &test.pass
			p.view = drainplan.Input{Now: noon, ForceDeadline: test.deadline}
			if got := p.requeueAfter(drainplan.Make(drainplan.Classify([]*corev1.Pod{test.pod}, p.view))); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
