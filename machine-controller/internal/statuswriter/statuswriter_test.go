// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package statuswriter

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/testenv"
)

// A MachineSet of 5,000 counts its Machines every two seconds and sums up their conditions every five.
func TestWriteSummaryComputesARecentSummaryOnlyWhenUrgent(t *testing.T) {
	t.Parallel()
	const machines = 5000
	c := server.Client(t)
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: server.Namespace(t), Name: "set"}}
	set.Spec.ClusterName, set.Spec.Template.Spec = "c", testenv.TemplateSpec()
	set.Spec.Selector.MatchLabels = map[string]string{"a": "b"}
	set.Spec.Template.Labels = set.Spec.Selector.MatchLabels
	if err := c.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	start := time.Unix(0, 0)
	now := testingclock.NewFakePassiveClock(start)
	writer := New(c, now)
	type outcome struct {
		summaries int
		written   int32
		after     time.Duration
	}
	var summaries int
	for _, step := range []struct {
		at     time.Duration
		ready  int32
		urgent bool
		want   outcome
	}{
		{at: 0, ready: 1, want: outcome{1, 1, 0}},
		{at: time.Second, ready: 2, want: outcome{1, 1, time.Second}},
		{at: 2 * time.Second, ready: 3, want: outcome{1, 3, 3 * time.Second}},
		{at: 3 * time.Second, ready: 4, want: outcome{1, 3, time.Second}},
		{at: 5 * time.Second, ready: 5, want: outcome{2, 5, 0}},
		{at: 6 * time.Second, ready: 6, urgent: true, want: outcome{3, 6, 0}},
		{at: 8 * time.Second, ready: 6, want: outcome{3, 6, 3 * time.Second}},
		{at: 11 * time.Second, ready: 6, want: outcome{4, 6, 0}},
	} {
		now.SetTime(start.Add(step.at))
		before := &clusterv1.MachineSet{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(set), before); err != nil {
			t.Fatal(err)
		}
		after := before.DeepCopy()
		after.Status.ReadyReplicas = &step.ready
		result, err := writer.WriteSummary(t.Context(), before, after, step.urgent, Summary{Machines: machines, Set: func() { summaries++ }})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(set), before); err != nil {
			t.Fatal(err)
		}
		got := outcome{summaries, *before.Status.ReadyReplicas, result.RequeueAfter}
		if diff := cmp.Diff(step.want, got, cmp.AllowUnexported(outcome{})); diff != "" {
			t.Errorf("after %s:\n%s", step.at, diff)
		}
	}
}

func TestUrgent(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, after Counts
		want          bool
	}{
		"is growth":                             {Counts{Desired: 5, Replicas: 1}, Counts{Desired: 5, Replicas: 2}, true},
		"is being complete":                     {Counts{5, 5, 5, 4, 5}, Counts{5, 5, 5, 5, 5}, true},
		"is being empty as it should":           {Counts{Replicas: 1}, Counts{}, true},
		"is not staying complete":               {Counts{5, 5, 5, 5, 5}, Counts{5, 5, 5, 5, 5}, false},
		"is not one more that is ready":         {Counts{Desired: 5, Replicas: 5, Ready: 1}, Counts{Desired: 5, Replicas: 5, Ready: 2}, false},
		"is not one fewer":                      {Counts{Desired: 1, Replicas: 5}, Counts{Desired: 1, Replicas: 4}, false},
		"is not one more that is not available": {Counts{5, 5, 5, 5, 5}, Counts{5, 5, 5, 4, 5}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := test.before.Urgent(test.after); got != test.want {
				t.Errorf("urgent is %t, want %t", got, test.want)
			}
		})
	}
}
