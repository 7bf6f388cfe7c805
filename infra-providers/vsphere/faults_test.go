// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package vsphere_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/faulttest"
	"drover.io/infra-providers/internal/testenv"
	"drover.io/infra-providers/vsphere"
	"drover.io/infra-providers/vsphere/vcenter"
)

// TestFaultInjection takes machines of one anti-affinity group through their lives in vcsim, while every request may
// go wrong and tasks take their time. Who is killed leaves its session behind, as a process does.
func TestFaultInjection(t *testing.T) {
	t.Parallel()
	faulttest.Run(t, testenv.New(t, "vsphere"), func(t *testing.T, rand *faulttest.Rand) faulttest.Environment[*infrav1.VSphereMachine, vsphere.InstanceConfig] {
		w := newEnv(t)
		described := vsphere.Cloud(w.pool)
		described.Connect = func(context.Context, driver.Account, driver.Credentials) (driver.Driver[vsphere.InstanceConfig], error) {
			return w.connectTo(&vcenter.Pool{Transport: w.wire.wrap}), nil
		}
		w.wire.inject = func(method string) *rule { return drawFault(rand, method) }
		return faulttest.Environment[*infrav1.VSphereMachine, vsphere.InstanceConfig]{
			Cloud: described,
			Machine: func() *infrav1.VSphereMachine {
				return &infrav1.VSphereMachine{Spec: infrav1.VSphereMachineSpec{
					Template: template, CPUs: 2, MemoryMiB: 1024, AntiAffinityGroup: "web",
					VSpherePlacement: infrav1.VSpherePlacement{ComputeCluster: "DC0_C0"},
				}}
			},
			Hooks: w.conformance(),
			Pass:  func(passed time.Duration) { w.ahead.Add(int64(passed)) },
		}
	})
}

// drawFault draws the fault of one call.
func drawFault(rand *faulttest.Rand, method string) *rule {
	switch rand.Fault(isChange(method)) {
	case faulttest.Lost:
		return &rule{lost: true, slow: rand.UpTo(2) == 0}
	case faulttest.Broken:
		return &rule{answer: fault("SystemError")}
	case faulttest.Throttled:
		return &rule{answer: &answer{status: http.StatusTooManyRequests}}
	default:
		return &rule{slow: rand.UpTo(5) == 0}
	}
}
