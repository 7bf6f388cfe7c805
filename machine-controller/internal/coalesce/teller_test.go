// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package coalesce

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

// A fleet of 5,000 counts its Machines every two seconds and sums up their conditions every five.
func TestSummedLeavesOutASumThatIsYoung(t *testing.T) {
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
	began := time.Unix(0, 0)
	now := testingclock.NewFakePassiveClock(began)
	teller := NewStatusWriter(c, now)
	type look struct {
		sums    int
		written int32
		again   time.Duration
	}
	var sums int
	for _, step := range []struct {
		at       time.Duration
		ready    int32
		pressing bool
		want     look
	}{
		{at: 0, ready: 1, want: look{1, 1, 0}},
		{at: time.Second, ready: 2, want: look{1, 1, time.Second}},
		{at: 2 * time.Second, ready: 3, want: look{1, 3, 3 * time.Second}},
		{at: 3 * time.Second, ready: 4, want: look{1, 3, time.Second}},
		{at: 5 * time.Second, ready: 5, want: look{2, 5, 0}},
		{at: 6 * time.Second, ready: 6, pressing: true, want: look{3, 6, 0}},
		{at: 8 * time.Second, ready: 6, want: look{3, 6, 3 * time.Second}},
		{at: 11 * time.Second, ready: 6, want: look{4, 6, 0}},
	} {
		now.SetTime(began.Add(step.at))
		before := &clusterv1.MachineSet{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(set), before); err != nil {
			t.Fatal(err)
		}
		after := before.DeepCopy()
		after.Status.ReadyReplicas = &step.ready
		again, err := teller.Summed(t.Context(), before, after, step.pressing, Sum{Machines: machines, To: func() { sums++ }})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(set), before); err != nil {
			t.Fatal(err)
		}
		got := look{sums, *before.Status.ReadyReplicas, again.RequeueAfter}
		if diff := cmp.Diff(step.want, got, cmp.AllowUnexported(look{})); diff != "" {
			t.Errorf("after %s:\n%s", step.at, diff)
		}
	}
}
