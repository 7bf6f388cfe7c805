// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package coalesce

import (
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
)

func TestPaceSpacesOutSteps(t *testing.T) {
	t.Parallel()
	now := testingclock.NewFakePassiveClock(time.Unix(0, 0))
	p := &Pace{Clock: now, Period: time.Minute}
	if due := p.Due("a"); due > 0 {
		t.Errorf("the first step is due in %s", due)
	}
	p.Took("a")
	now.SetTime(now.Now().Add(20 * time.Second))
	if due := p.Due("a"); due != 40*time.Second {
		t.Errorf("the second step is due in %s, not 40s", due)
	}
	if due := p.Due("b"); due > 0 {
		t.Errorf("another object's first step is due in %s", due)
	}
	now.SetTime(now.Now().Add(40 * time.Second))
	if due := p.Due("a"); due > 0 {
		t.Errorf("after a period the next step is due in %s", due)
	}
}

func TestPaceForgetsWhatRests(t *testing.T) {
	t.Parallel()
	now := testingclock.NewFakePassiveClock(time.Unix(0, 0))
	p := &Pace{Clock: now, Period: time.Minute}
	p.Took("a")
	now.SetTime(now.Now().Add(2 * time.Minute))
	p.Took("b")
	if _, kept := p.next["a"]; kept || len(p.next) != 1 {
		t.Errorf("remembers %v", p.next)
	}
}

func TestWhatIsPressing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, after Count
		want          bool
	}{
		"is growth":                             {Count{Desired: 5, Replicas: 1}, Count{Desired: 5, Replicas: 2}, true},
		"is being complete":                     {Count{5, 5, 5, 4, 5}, Count{5, 5, 5, 5, 5}, true},
		"is being empty as it should":           {Count{Replicas: 1}, Count{}, true},
		"is not staying complete":               {Count{5, 5, 5, 5, 5}, Count{5, 5, 5, 5, 5}, false},
		"is not one more that is ready":         {Count{Desired: 5, Replicas: 5, Ready: 1}, Count{Desired: 5, Replicas: 5, Ready: 2}, false},
		"is not one fewer":                      {Count{Desired: 1, Replicas: 5}, Count{Desired: 1, Replicas: 4}, false},
		"is not one more that is not available": {Count{5, 5, 5, 5, 5}, Count{5, 5, 5, 4, 5}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := test.before.Pressing(test.after); got != test.want {
				t.Errorf("pressing is %t, want %t", got, test.want)
			}
		})
	}
}

func TestLooksSpaceOutOnlyWhatIsLarge(t *testing.T) {
	t.Parallel()
	for machines, want := range map[int]time.Duration{0: 0, 200: 0, 400: 0, 1000: 300 * time.Millisecond, 5000: 2300 * time.Millisecond} {
		l := &Looks{Pace{Clock: testingclock.NewFakePassiveClock(time.Unix(0, 0))}}
		l.Took("fleet", machines)
		if due := l.Due("fleet"); due != want {
			t.Errorf("a fleet of %d is looked at again in %s, not %s", machines, due, want)
		}
	}
}
