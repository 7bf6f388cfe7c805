// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanix_test

import (
	"net/http"
	"testing"

	"k8s.io/utils/ptr"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/faulttest"
	"drover.io/infra-providers/nutanix"
	"drover.io/infra-providers/nutanix/nutanixfake"
)

func TestFaultInjection(t *testing.T) {
	t.Parallel()
	faulttest.Run(t, shared.Cluster(t), func(t *testing.T, random *faulttest.Rand) faulttest.Environment[*infrav1.NutanixMachine, nutanix.InstanceConfig] {
		w := newEnv(t, nutanixfake.Options{
			ListDelay: 1, ReportsDoubles: true,
			TaskLength: func(operation string) int { return taskLength(random, operation) },
			Faults:     func(method string) nutanixfake.Fault { return faultOf(random, method) },
		})
		hooks := conformanceEnv(t, w)
		hooks.Leftovers = func() []string {
			w.cloud.Advance()
			return w.cloud.Leftovers()
		}
		return faulttest.Environment[*infrav1.NutanixMachine, nutanix.InstanceConfig]{
			Cloud:   w.description(),
			Secret:  w.credentialsSecret(),
			Machine: func() *infrav1.NutanixMachine { return &infrav1.NutanixMachine{Spec: newSpec(withFallbacks)} },
			Hooks:   hooks,
			// What does not start is deleted, and another one made.
			ReportsDoubles: true,
			Pass:           w.clock.Advance,
		}
	})
}

// taskLength returns after how many requests a task ends. A creation may copy an image; it ends within creationTime.
func taskLength(random *faulttest.Rand, operation string) int {
	if operation == "CreateVm" && random.UpTo(5) == 0 {
		return 1 + random.UpTo(100)
	}
	return 1 + random.UpTo(10)
}

// faultOf returns the fault of a request. A creation that is accepted may fail, and leave its virtual machine.
func faultOf(random *faulttest.Rand, method string) nutanixfake.Fault {
	fault := faults[random.Fault(nutanixfake.IsChange(method))]
	if method == "POST vms" && random.Fault(false) == faulttest.Broken {
		fault.Task, fault.LeavesVM = "VM_CREATE_FAILED", random.UpTo(2) == 0
	}
	return fault
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
