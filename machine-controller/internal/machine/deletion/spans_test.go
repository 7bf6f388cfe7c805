// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/runtime/tracing"
	"drover.io/runtime/tracing/tracingtest"
)

func deletedMachine(seconds int) *clusterv1.Machine {
	return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{UID: "u", DeletionTimestamp: new(metav1.NewTime(epoch.Add(time.Duration(seconds) * time.Second)))}}
}

func setReason(m *clusterv1.Machine, reason string) {
	m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineDeletingCondition, Status: metav1.ConditionTrue, Reason: reason, Message: "m"}}
}

// runTraced runs a Deleter within the trace of a Machine.
func runTraced(t *testing.T, d *Deleter, tracer *tracing.Tracer, s State) {
	t.Helper()
	if _, err := d.Run(tracing.NewContext(t.Context(), tracer.Trace(s.Machine)), s); err != nil {
		t.Fatal(err)
	}
}

func wantSpans(t *testing.T, recorded *tracingtest.Recorder, lines ...string) {
	t.Helper()
	if diff := cmp.Diff(lines, recorded.Lines()); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}

func TestEachStepIsASpan(t *testing.T) {
	t.Parallel()
	tracer, recorded := tracingtest.New(t)
	clock := testingclock.NewFakePassiveClock(epoch)
	d, steps := deleter(clock)
	m := deletedMachine(0)
	for i, step := range steps {
		runTraced(t, d, tracer, State{Machine: m})
		setReason(m, stepReasons[i])
		clock.SetTime(clock.Now().Add(time.Duration(i+1) * time.Second))
		step.done = true
	}
	runTraced(t, d, tracer, State{Machine: m})
	runTraced(t, d, tracer, State{Machine: m}) // the cache was behind
	wantSpans(t, recorded,
		"machine.delete.pre_drain_hooks of another 1s drover.wait.reason=WaitingForPreDrainHook drover.wait.message=m",
		"machine.delete.drain of another 2s drover.wait.reason=DrainingNode drover.wait.message=m",
		"machine.delete.volumes of another 3s drover.wait.reason=WaitingForVolumeDetach drover.wait.message=m",
		"machine.delete.pre_terminate_hooks of another 4s drover.wait.reason=WaitingForPreTerminateHook drover.wait.message=m",
		"machine.delete.instance of another 5s drover.wait.reason=WaitingForInfrastructureDeletion drover.wait.message=m",
		"machine.delete.bootstrap of another 6s drover.wait.reason=WaitingForBootstrapDeletion drover.wait.message=m",
		"machine.delete.node of another 7s drover.wait.reason=DeletingNode drover.wait.message=m",
	)
}

// TestStepThatAnEarlierProcessBeganIsASpan ends each step in the process after the one that it began in: in its first
// reconcile, or after one that still waited.
func TestStepThatAnEarlierProcessBeganIsASpan(t *testing.T) {
	t.Parallel()
	at := func(seconds int) metav1.Time { return metav1.NewTime(epoch.Add(time.Duration(seconds) * time.Second)) }
	object := func(seconds int) Object {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetDeletionTimestamp(new(at(seconds)))
		return Object{Unstructured: o}
	}
	for name, test := range map[string]struct {
		step   int
		status clusterv1.MachineDeletionStatus
		infra  Object
		want   string
	}{
		"drain":                        {1, clusterv1.MachineDeletionStatus{NodeDrainStartTime: at(10)}, Object{}, "machine.delete.drain of another 1m30s"},
		"volume":                       {2, clusterv1.MachineDeletionStatus{NodeDrainStartTime: at(10), WaitForNodeVolumeDetachStartTime: at(30)}, Object{}, "machine.delete.volumes of another 1m10s"},
		"instance that is still there": {4, clusterv1.MachineDeletionStatus{NodeDrainStartTime: at(10)}, object(40), "machine.delete.instance of another 1m0s"},
		"instance that is gone":        {4, clusterv1.MachineDeletionStatus{NodeDrainStartTime: at(10)}, Object{Err: notFound}, "machine.delete.instance of another 1m30s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, waits := range []bool{true, false} {
				tracer, recorded := tracingtest.New(t)
				d, steps := deleter(testingclock.NewFakePassiveClock(epoch.Add(100 * time.Second)))
				m := deletedMachine(0)
				m.Status.Deletion = &test.status
				setReason(m, stepReasons[test.step])
				for i := range test.step {
					steps[i].done = true
				}
				if waits {
					runTraced(t, d, tracer, State{Machine: m, Infrastructure: test.infra})
				}
				steps[test.step].done = true
				runTraced(t, d, tracer, State{Machine: m, Infrastructure: test.infra})
				wantSpans(t, recorded, test.want+" drover.wait.reason="+stepReasons[test.step]+" drover.wait.message=m")
			}
		})
	}
}

func TestStepsHaveReasons(t *testing.T) {
	t.Parallel()
	if len(stepReasons) != len(stepNames) || len(spanNames) != len(stepNames) {
		t.Errorf("%d steps have %d reasons and %d spans", len(stepNames), len(stepReasons), len(spanNames))
	}
}

func TestDrainIsTraced(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	tracer, recorded := tracingtest.New(t)
	e.pod("web", nil)
	ctx := tracing.NewContext(t.Context(), tracer.Trace(e.state.Machine).Within(spanNames[1]))
	if _, err := e.drain().run(ctx, e.state); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, span := range recorded.Spans() {
		line := span.Name
		for _, event := range span.Events {
			for _, a := range event.Attributes {
				line += " " + a.Value.String()
			}
		}
		got = append(got, line)
	}
	if diff := cmp.Diff([]string{"node.cordon", "node.drain_pass " + e.state.Machine.Namespace + " web evicted"}, got); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
}

func TestSpansOfStepsThatAreOffAllocateNothing(t *testing.T) {
	w := newStopwatch(testingclock.NewFakePassiveClock(epoch))
	s := &State{Machine: deletedMachine(0)}
	setReason(s.Machine, stepReasons[1])
	ctx := context.Background()
	if n := testing.AllocsPerRun(100, func() {
		p := position{step: 1}
		w.passed(tracing.FromContext(ctx), &p, 1, s)
		p = resumed(tracing.FromContext(ctx), 1, s)
		emitCall(ctx, "node.delete", "node", epoch, epoch, nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
