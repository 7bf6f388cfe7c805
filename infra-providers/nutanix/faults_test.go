// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanix_test

import (
	"net/http"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/faulttest"
	"drover.io/infra-providers/nutanix"
	"drover.io/infra-providers/nutanix/nutanixfake"
)

func TestFaultInjection(t *testing.T) {
	t.Parallel()
	faulttest.Run(t, shared.Cluster(t), func(t *testing.T, random *faulttest.Rand) faulttest.Environment[*infrav1.NutanixMachine, nutanix.InstanceConfig] {
		w := newEnv(t, nutanixfake.Options{TaskRequests: 3, ListDelay: 1, ReportsDoubles: true, Faults: func(method string) nutanixfake.Fault {
			fault := faults[random.Fault(nutanixfake.IsChange(method))]
			if method == "POST vms" && random.Fault(false) == faulttest.Broken {
				fault.Task, fault.LeavesVM = "VM_CREATE_FAILED", random.UpTo(2) == 0
			}
			return fault
		}})
		return faulttest.Environment[*infrav1.NutanixMachine, nutanix.InstanceConfig]{
			Cloud:   w.description(),
			Secret:  w.credentialsSecret(),
			Machine: func() *infrav1.NutanixMachine { return &infrav1.NutanixMachine{Spec: newSpec(withFallbacks)} },
			Hooks:   conformanceEnv(t, w),
			// What does not start is deleted, and another one made.
			ReportsDoubles: true,
			Pass: func(passed time.Duration) {
				w.clock.Advance(passed)
				if random.UpTo(3) == 0 {
					w.cloud.Advance()
				}
			},
		}
	})
}

func withFallbacks(s *infrav1.NutanixMachineSpec) {
	withDisk(s)
	s.CredentialsSecretName = "nutanix"
	s.Fallbacks = []infrav1.NutanixFallback{{VCPUSockets: ptr.To[int32](1)}, {Cluster: nutanixfake.ClusterB}}
}

var faults = map[faulttest.Fault]nutanixfake.Fault{
	faulttest.Lost:      {Lost: true},
	faulttest.Broken:    {Status: http.StatusServiceUnavailable, Group: "VM_SERVICE_UNAVAILABLE"},
	faulttest.Throttled: {Status: http.StatusTooManyRequests, Group: "RATE_LIMIT_EXCEEDED"},
}
