// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"context"
	"errors"
	"testing"
	"time"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/fake"
	"drover.io/infra-providers/internal/faulttest"
	"drover.io/infra-providers/internal/testenv"
)

func TestFaultInjection(t *testing.T) {
	t.Parallel()
	faulttest.Run(t, testenv.New(t), func(_ *testing.T, rand *faulttest.Rand) faulttest.Environment[*infrav1.SimMachine, fake.Config] {
		now := time.Now()
		hooks := fake.Environment(fake.Options{
			BootReads: 2, DeleteReads: 2, ListLag: 2, Steps: 2,
			Now:    func() time.Time { return now },
			Faults: func(call fake.Call) fake.Fault { return fault(rand, call) },
		})
		return faulttest.Environment[*infrav1.SimMachine, fake.Config]{
			Cloud: driver.Cloud[*infrav1.SimMachine, fake.Config]{
				Name:           "fake",
				NewMachine:     func() *infrav1.SimMachine { return &infrav1.SimMachine{} },
				NewMachineList: func() driver.MachineList { return &infrav1.SimMachineList{} },
				Config: func(machine *infrav1.SimMachine, _ string) (fake.Config, error) {
					return fake.Config{InstanceType: machine.Spec.InstanceType, Zone: "a"}, nil
				},
				Alternatives: func(fake.Config) []fake.Config {
					return []fake.Config{{InstanceType: "large", Zone: "a"}, {InstanceType: "small", Zone: "b"}, {InstanceType: "large", Zone: "b"}}
				},
				Offering: func(c fake.Config) (string, string) { return c.InstanceType, c.Zone },
				Account:  func(*infrav1.SimMachine) driver.Account { return driver.Account{} },
				Connect: func(context.Context, driver.Account, driver.Credentials) (driver.Driver[fake.Config], error) {
					return hooks.Driver, nil
				},
			},
			Machine: func() *infrav1.SimMachine {
				return &infrav1.SimMachine{Spec: infrav1.SimMachineSpec{InstanceType: "small"}}
			},
			Hooks: hooks,
			Pass:  func(passed time.Duration) { now = now.Add(passed) },
		}
	})
}

// fault fails single requests in the middle of a driver's call.
func fault(rand *faulttest.Rand, call fake.Call) fake.Fault {
	switch rand.Fault(call.Operation != "get" && call.Operation != "list") {
	case faulttest.Lost:
		return fake.Fault{Err: fake.ErrLost, Lost: true}
	case faulttest.Broken:
		return fake.Fault{Err: errors.New("internal error")}
	case faulttest.Throttled:
		return fake.Fault{Err: &driver.RateLimitedError{RetryAfter: 10 * time.Second, Err: errors.New("slow down")}}
	default:
		return fake.Fault{}
	}
}
