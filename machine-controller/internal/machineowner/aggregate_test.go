// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineowner

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

const target = "Sum"

// inputs are the conditions that a Machine may have; nil is none.
var inputs = []*metav1.Condition{
	nil,
	{Status: metav1.ConditionTrue},
	{Status: metav1.ConditionTrue, Message: "until tomorrow"},
	{Status: metav1.ConditionFalse, Message: "the disk is full"},
	{Status: metav1.ConditionFalse},
	{Status: metav1.ConditionUnknown, Message: "no answer"},
}

func machine(n int, source string, input *metav1.Condition) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m-%03d", n)}}
	if input != nil {
		condition := *input
		condition.Type, condition.Reason = source, "Reason"
		condition.LastTransitionTime = metav1.NewTime(time.Unix(int64(n*7919%1000), 0))
		m.Status.Conditions = []metav1.Condition{condition}
	}
	return m
}

// TestTheResultIsThatOfAllMachines, though not all of them are merged: it is what upstream makes of every one.
func TestTheResultIsThatOfAllMachines(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		// Each round has a few of the inputs only, so that sets of ready Machines occur, too.
		few := []*metav1.Condition{inputs[dice.IntN(len(inputs))], inputs[1], inputs[dice.IntN(len(inputs))]}
		var machines []*clusterv1.Machine
		for n := range 1 + dice.IntN(12) {
			machines = append(machines, machine(n, clusterv1.MachineReadyCondition, few[dice.IntN(len(few))]))
		}
		want, err := conditions.NewAggregateCondition(machines, clusterv1.MachineReadyCondition, conditions.TargetConditionType(target),
			conditions.CustomMergeStrategy{MergeStrategy: conditions.DefaultMergeStrategy(conditions.ComputeReasonFunc(
				conditions.GetDefaultComputeMergeReasonFunc(clusterv1.NotReadyReason, clusterv1.ReadyUnknownReason, clusterv1.ReadyReason),
			))})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(*want, aggregateReady(machines, target)); diff != "" {
			t.Fatalf("round %d, %d Machines (-upstream +got):\n%s", round, len(machines), diff)
		}
	}
}

func TestAggregateUpToDate(t *testing.T) {
	t.Parallel()
	well := metav1.Condition{Type: target, Status: metav1.ConditionTrue, Reason: clusterv1.UpToDateReason}
	for name, test := range map[string]struct {
		input []*metav1.Condition
		want  metav1.Condition
	}{
		"no Machines":         {nil, metav1.Condition{Type: target, Status: metav1.ConditionTrue, Reason: clusterv1.NoReplicasReason}},
		"none compared":       {[]*metav1.Condition{nil, nil}, metav1.Condition{Type: target, Status: metav1.ConditionTrue, Reason: clusterv1.NoReplicasReason}},
		"some compared, well": {[]*metav1.Condition{nil, inputs[1], inputs[1]}, well},
		"one behind": {
			[]*metav1.Condition{inputs[1], inputs[3], nil},
			metav1.Condition{Type: target, Status: metav1.ConditionFalse, Reason: clusterv1.NotUpToDateReason, Message: "* Machine m-001: the disk is full"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var machines []*clusterv1.Machine
			for n, input := range test.input {
				machines = append(machines, machine(n, clusterv1.MachineUpToDateCondition, input))
			}
			if diff := cmp.Diff(test.want, aggregateUpToDate(machines, target)); diff != "" {
				t.Errorf("sum (-want +got):\n%s", diff)
			}
		})
	}
}

// BenchmarkAggregateReady merges the conditions of many Machines of which one in a hundred is not ready.
func BenchmarkAggregateReady(b *testing.B) {
	var machines []*clusterv1.Machine
	for n := range 5000 {
		input := inputs[1]
		if n%100 == 0 {
			input = inputs[3]
		}
		machines = append(machines, machine(n, clusterv1.MachineReadyCondition, input))
	}
	b.ReportAllocs()
	for b.Loop() {
		aggregateReady(machines, target)
	}
}
