// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package openstack_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/driver/drivertest"
	"drover.io/infra-providers/internal/faulttest"
	"drover.io/infra-providers/openstack"
	"drover.io/infra-providers/openstack/openstackfake"
)

// TestRealFaultInjection creates and deletes machines with real services and a transport that fails at random.
// DROVER_SOAK_LIFECYCLES sets their number.
func TestRealFaultInjection(t *testing.T) {
	real(t)
	faulttest.Run(t, shared.Cluster(t), func(t *testing.T, _ *faulttest.Rand) faulttest.Environment[*infrav1.OpenStackMachine, openstack.InstanceConfig] {
		faults := &openstackfake.Faults{}
		// The driver's clock is faster than that of the services, so that the claim of a stopped process expires. A server
		// that was requested under it is listed by then: no request of the test is in progress.
		var passed atomic.Int64
		cloud := openstack.Cloud(openstack.Options{Transport: faults, Clock: drivertest.ClockFunc(func() time.Time { return time.Now().Add(time.Duration(passed.Load())) })})
		var machines []*infrav1.OpenStackMachine
		reliable := connect(t, nil, driver.Account{}, nil)
		cinder := inProject(t).Volume != nil
		return faulttest.Environment[*infrav1.OpenStackMachine, openstack.InstanceConfig]{
			Cloud: cloud,
			Machine: func() *infrav1.OpenStackMachine {
				spec := realSpec()
				if cinder && len(machines)%2 == 1 {
					spec = volumeSpec()
				}
				machines = append(machines, &infrav1.OpenStackMachine{Spec: spec})
				return machines[len(machines)-1]
			},
			Pass: func(more time.Duration) { passed.Add(int64(more)) },
			Hooks: drivertest.Environment[openstack.InstanceConfig]{
				Driver:    reliable,
				Lose:      func() { faults.Lose(openstackfake.Changes) },
				Interrupt: func() { faults.Fail(openstackfake.Creates("servers"), http.StatusInternalServerError, "") },
				Refuse: map[drivertest.Refusal]func(){
					drivertest.RateLimited: func() { faults.Fail(anyRequest, http.StatusTooManyRequests, "") },
					drivertest.ServerError: func() { faults.Fail(anyRequest, http.StatusServiceUnavailable, "") },
				},
				Leftovers: func() []string {
					var uids []string
					for _, machine := range machines {
						uids = append(uids, string(machine.UID))
					}
					return leftovers(t, uids...)
				},
			},
		}
	})
}
