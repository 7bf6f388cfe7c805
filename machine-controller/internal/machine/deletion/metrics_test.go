// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/runtime/metric/metrictest"
)

// waits is a step that is done once done is true.
type waits struct {
	done bool
	err  error
}

func (w *waits) run(context.Context, *State) (Progress, error) { return Progress{Done: w.done}, w.err }

func TestEveryStepHasAName(t *testing.T) {
	t.Parallel()
	if d := New(Options{Clock: testingclock.NewFakePassiveClock(epoch)}); len(d.steps) != len(stepNames) {
		t.Errorf("%d steps have %d names", len(d.steps), len(stepNames))
	}
}

// deleter is a Deleter whose steps a test ends.
func deleter(clock *testingclock.FakePassiveClock) (*Deleter, []*waits) {
	d, all := &Deleter{stopwatch: newStopwatch(clock)}, []*waits{}
	for range stepNames {
		one := &waits{}
		all, d.steps = append(all, one), append(d.steps, one)
	}
	return d, all
}

// differences are how many samples each step got, and how long they took together.
func differences(t *testing.T, do func()) (counts, seconds map[string]float64) {
	t.Helper()
	registry := metrictest.Of(t, stepSeconds)
	was, wasSeconds := metrictest.Counts(t, registry), metrictest.Samples(t, registry)
	do()
	counts, seconds = map[string]float64{}, map[string]float64{}
	for _, step := range stepNames {
		key := "machine_controller_deletion_step_duration_seconds step=" + step
		if n := metrictest.Counts(t, registry)[key] - was[key]; n > 0 {
			counts[step], seconds[step] = n, metrictest.Samples(t, registry)[key]-wasSeconds[key]
		}
	}
	return counts, seconds
}

func (d *Deleter) must(t *testing.T, m *clusterv1.Machine) {
	t.Helper()
	if _, err := d.Run(t.Context(), State{Machine: m}); err != nil {
		t.Fatal(err)
	}
}

// It runs alone, as the histogram is shared by the process.
func TestEachStepIsMeasuredOnce(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(epoch)
	d, steps := deleter(clock)
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{UID: "a"}}
	counts, seconds := differences(t, func() {
		for i, step := range steps {
			d.must(t, m)
			d.must(t, m) // a reconcile without progress
			clock.SetTime(clock.Now().Add(time.Duration(i+1) * time.Minute))
			step.done = true
		}
		d.must(t, m)
		d.must(t, m) // the cache was behind
	})
	want, wantSeconds := map[string]float64{}, map[string]float64{}
	for i, name := range stepNames {
		want[name], wantSeconds[name] = 1, float64(60*(i+1))
	}
	if diff := cmp.Diff(want, counts) + cmp.Diff(wantSeconds, seconds); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// It runs alone, as the histogram is shared by the process.
func TestStepThatAnEarlierProcessBeganIsNotMeasured(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(epoch)
	d, steps := deleter(clock)
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{UID: "b"}}
	m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineDeletingCondition, Status: metav1.ConditionTrue}}
	steps[0].done = true
	counts, seconds := differences(t, func() {
		d.must(t, m)
		steps[1].done, steps[2].err = true, errors.New("an error of volumes")
		if _, err := d.Run(t.Context(), State{Machine: m}); err == nil {
			t.Error("no error")
		}
		clock.SetTime(clock.Now().Add(time.Hour))
		steps[2].done, steps[2].err = true, nil
		d.must(t, m)
	})
	if diff := cmp.Diff(map[string]float64{"volumes": 1}, counts) + cmp.Diff(map[string]float64{"volumes": 3600}, seconds); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
