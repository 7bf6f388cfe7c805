// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/driver/fake"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	habits := map[string]fake.Options{
		"at once": {},
		"slowly":  {BootReads: 2, DeleteReads: 3},
	}
	for name, options := range habits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.Run(t, func(*testing.T) drivertest.World[fake.Config] { return world(options) })
		})
	}
}

// world connects the suite to the fault function: what is armed strikes the next call it fits, once.
func world(options fake.Options) drivertest.World[fake.Config] {
	var armed atomic.Pointer[func(fake.Call) (fake.Fault, bool)]
	arm := func(strike func(fake.Call) (fake.Fault, bool)) func() {
		return func() { armed.Store(&strike) }
	}
	options.Faults = func(call fake.Call) fake.Fault {
		strike := armed.Load()
		if strike == nil {
			return fake.Fault{}
		}
		fault, strikes := (*strike)(call)
		if strikes {
			armed.Store(nil)
		}
		return fault
	}
	always := func(err error) func() {
		return arm(func(fake.Call) (fake.Fault, bool) { return fake.Fault{Err: err}, true })
	}
	on := func(operation string, fault fake.Fault) func() {
		return arm(func(call fake.Call) (fake.Fault, bool) {
			if call.Operation != operation {
				return fake.Fault{}, false
			}
			return fault, true
		})
	}
	cloud := fake.New(options)
	return drivertest.World[fake.Config]{
		Driver:  cloud,
		Config:  fake.Config{InstanceType: "small", Zone: "zone-a"},
		Other:   &fake.Config{InstanceType: "large", Zone: "zone-b"},
		Invalid: map[string]fake.Config{"unknown type": {InstanceType: "huge", Zone: "zone-a"}},
		Lose: arm(func(call fake.Call) (fake.Fault, bool) {
			if call.Operation != "create" && call.Operation != "delete" {
				return fake.Fault{}, false
			}
			return fake.Fault{Err: fake.ErrLost, Lost: true}, true
		}),
		Refuse: map[drivertest.Refusal]func(){
			drivertest.Unauthorized:         always(&driver.UnauthorizedError{Err: errors.New("token refused")}),
			drivertest.RateLimited:          always(&driver.RateLimitedError{Err: errors.New("too many requests")}),
			drivertest.ServerError:          always(errors.New("internal error")),
			drivertest.QuotaExceeded:        on("create", fake.Fault{Err: &driver.QuotaExceededError{Err: errors.New("quota")}}),
			drivertest.InsufficientCapacity: on("create", fake.Fault{Err: &driver.InsufficientCapacityError{InstanceType: "small", Zone: "zone-a", Err: errors.New("full")}}),
		},
		Interrupt: on("create", fake.Fault{Err: errors.New("internal error")}),
		Hide:      cloud.HideNext,
		Leftovers: func() (left []string) {
			census := cloud.Census()
			for uid := range census.Instances {
				left = append(left, "instance "+string(uid))
			}
			for uid := range census.Disks {
				left = append(left, "disk "+string(uid))
			}
			return left
		},
	}
}
