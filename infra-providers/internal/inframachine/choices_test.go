// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/infra-providers/internal/throttle"
)

func TestChoicesNext(t *testing.T) {
	t.Parallel()
	type choice struct {
		Choice int
		Wait   time.Duration
	}
	for name, test := range map[string]struct {
		stored int
		known  bool
		left   []time.Duration
		want   choice
	}{
		"takes the first":                                        {0, true, []time.Duration{0, 0, 0}, choice{0, 0}},
		"keeps the stored choice":                                {1, true, []time.Duration{0, 0, 0}, choice{1, 0}},
		"takes the next where there is no room":                  {0, true, []time.Duration{9, 0, 0}, choice{1, 0}},
		"passes over several without room":                       {0, true, []time.Duration{9, 9, 0}, choice{2, 0}},
		"prefers the order of the user":                          {2, true, []time.Duration{0, 0, 9}, choice{0, 0}},
		"waits for the one that is tried again first":            {2, true, []time.Duration{9, 3, 8}, choice{1, 3}},
		"waits for the first in order where they are equal":      {1, true, []time.Duration{9, 9, 9}, choice{0, 9}},
		"waits where there is one configuration":                 {0, true, []time.Duration{9}, choice{0, 9}},
		"repeats the stored choice while its outcome is unknown": {1, false, []time.Duration{0, 9, 0}, choice{1, 0}},
		"repeats it though there is no room anywhere":            {0, false, []time.Duration{9, 9}, choice{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := choiceInput{stored: test.stored, outcomeKnown: test.known}
			for _, left := range test.left {
				options.offerings = append(options.offerings, throttle.UnavailableOffering{Left: left})
			}
			got := choice{}
			got.Choice, got.Wait = options.next()
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("choice (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOfferingThatIsAvailableAgainIsRequestedAgain: between the refusal and the choice another machine has got an instance, which
// ends the shortage. The choice stays the same, so that nothing but a requeue goes on with the machine.
func TestOfferingThatIsAvailableAgainIsRequestedAgain(t *testing.T) {
	t.Parallel()
	full := throttle.UnavailableOffering{
		Offering: throttle.Offering{InstanceType: "large", Zone: "a"}, Left: time.Minute,
		Cause: &driver.InsufficientCapacityError{InstanceType: "large", Zone: "a", Err: errors.New("full")},
	}
	for name, others := range map[string][]throttle.UnavailableOffering{"alone": nil, "beside one that is not": {full}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &Reconciler[*infrav1.SimMachine, fake.Config]{}
			machine := &infrav1.SimMachine{}
			s := &state[*infrav1.SimMachine, fake.Config]{machine: machine}
			options := choiceInput{outcomeKnown: true, offerings: append([]throttle.UnavailableOffering{{}}, others...)}
			got, err := r.storeChoice(s, options)
			if diff := cmp.Diff(ctrl.Result{RequeueAfter: time.Second}, got); diff != "" || err != nil {
				t.Errorf("(-want +got):\n%s, and %v", diff, err)
			}
			if len(machine.Status.Conditions) > 0 {
				t.Errorf("the conditions are %+v, want none of a shortage that is over", machine.Status.Conditions)
			}
		})
	}
}
