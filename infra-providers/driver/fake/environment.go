// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"errors"
	"sync/atomic"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
)

// Environment returns a fake cloud for the conformance suite. What a hook arms is the fault of the next call that it fits,
// once; all other calls have the fault of the options.
func Environment(options Options) drivertest.Environment[Config] {
	var armed atomic.Pointer[func(Call) (Fault, bool)]
	arm := func(fits func(Call) (Fault, bool)) func() {
		return func() { armed.Store(&fits) }
	}
	faults := options.Faults
	options.Faults = func(call Call) Fault {
		if fits := armed.Load(); fits != nil {
			if fault, ok := (*fits)(call); ok {
				armed.Store(nil)
				return fault
			}
		}
		if faults == nil {
			return Fault{}
		}
		return faults(call)
	}
	always := func(err error) func() {
		return arm(func(Call) (Fault, bool) { return Fault{Err: err}, true })
	}
	on := func(operation string, fault Fault) func() {
		return arm(func(call Call) (Fault, bool) {
			if call.Operation != operation {
				return Fault{}, false
			}
			return fault, true
		})
	}
	cloud := New(options)
	return drivertest.Environment[Config]{
		Driver:  cloud,
		Config:  Config{InstanceType: "small", Zone: "zone-a"},
		Other:   &Config{InstanceType: "large", Zone: "zone-b"},
		Invalid: map[string]Config{"unknown type": {InstanceType: "huge", Zone: "zone-a"}},
		NoImage: map[string]Config{"unknown image": {InstanceType: "small", Zone: "zone-a", Image: "none"}},
		ImageOf: cloud.ImageOf,
		Write:   func(created driver.Instance, output string) { cloud.Write(created.Identity.UID, output) },
		Untag: func(created driver.Instance, keys ...string) func() bool {
			return cloud.Untag(created.ProviderID, keys...)
		},
		Lose: arm(func(call Call) (Fault, bool) {
			if call.Operation != "create" && call.Operation != "delete" {
				return Fault{}, false
			}
			return Fault{Err: ErrLost, Lost: true}, true
		}),
		Refuse: map[drivertest.Refusal]func(){
			drivertest.Unauthorized:         always(&driver.UnauthorizedError{Err: errors.New("token refused")}),
			drivertest.RateLimited:          always(&driver.RateLimitedError{Err: errors.New("too many requests")}),
			drivertest.ServerError:          always(errors.New("internal error")),
			drivertest.QuotaExceeded:        on("create", Fault{Err: &driver.QuotaExceededError{Err: errors.New("quota")}}),
			drivertest.InsufficientCapacity: on("create", Fault{Err: &driver.InsufficientCapacityError{InstanceType: "small", Zone: "zone-a", Err: errors.New("full")}}),
		},
		Interrupt: on("create", Fault{Err: errors.New("internal error")}),
		Hide:      cloud.HideNext,
		Stop: func() {
			for uid := range cloud.Snapshot().Instances {
				cloud.Set(uid, func(instance *driver.Instance) { instance.State = driver.Stopped })
			}
		},
		Restarts: func() (count int) {
			for _, times := range cloud.Snapshot().Restarts {
				count += times
			}
			return count
		},
		Changes: cloud.Changes,
		Leftovers: func() (left []string) {
			snapshot := cloud.Snapshot()
			for uid := range snapshot.Instances {
				left = append(left, "instance "+string(uid))
			}
			for uid := range snapshot.Disks {
				left = append(left, "disk "+string(uid))
			}
			return left
		},
	}
}
