// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package google_test

import (
	"testing"
	"time"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/google"
	"drover.io/infra-providers/google/googlefake"
	"drover.io/infra-providers/internal/faulttest"
)

// TestFaultInjection creates and deletes machines in a Compute Engine that lists late and whose every request may fail. At
// times its zone has no capacity, and the failed insertion may leave its disks; the other zone has capacity.
func TestFaultInjection(t *testing.T) {
	t.Parallel()
	faulttest.Run(t, shared.Cluster(t), func(t *testing.T, random *faulttest.Rand) faulttest.Environment[*infrav1.GoogleMachine, google.InstanceConfig] {
		gce := newEnv(t, googlefake.Options{OperationReads: 1, StoppingReads: 2, ListDelay: 1, Faults: func(method string) googlefake.Fault {
			return faults[random.Fault(googlefake.IsChange(method))]
		}})
		return faulttest.Environment[*infrav1.GoogleMachine, google.InstanceConfig]{
			Cloud:   gce.description(),
			Secret:  gce.credentialsSecret(),
			Machine: func() *infrav1.GoogleMachine { return &infrav1.GoogleMachine{Spec: newSpec(withFallbacks)} },
			Hooks:   conformanceEnv(t, gce),
			Pass: func(passed time.Duration) {
				gce.clock.Advance(passed)
				gce.cloud.Advance()
			},
		}
	})
}

func withFallbacks(s *infrav1.GoogleMachineSpec) {
	withDisk(s)
	s.CredentialsSecretName = "google"
	s.Fallbacks = []infrav1.GoogleFallback{{MachineType: "n4-standard-4"}, {Zone: googlefake.ZoneB}}
}

var faults = map[faulttest.Fault]googlefake.Fault{
	faulttest.Lost:      {Lost: true},
	faulttest.Broken:    {Status: 503, Reason: "backendError", Message: "Backend Error"},
	faulttest.Throttled: {Status: 403, Reason: "rateLimitExceeded", Message: "Rate Limit Exceeded", RetryAfter: "1"},
}
