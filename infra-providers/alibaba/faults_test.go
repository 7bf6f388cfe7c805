// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package alibaba_test

import (
	"net/http"
	"testing"
	"time"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/alibaba"
	"drover.io/infra-providers/alibaba/alibabafake"
	"drover.io/infra-providers/internal/faulttest"
)

// TestFaultInjection creates and deletes machines in an ECS that lists with a delay and whose every request may fail. At times
// its zone has no stock; the other zone has.
func TestFaultInjection(t *testing.T) {
	t.Parallel()
	faulttest.Run(t, shared.Cluster(t), func(t *testing.T, random *faulttest.Rand) faulttest.Environment[*infrav1.AlibabaMachine, alibaba.InstanceConfig] {
		w := newEnv(t, alibabafake.Options{PendingReads: 2, StoppingReads: 2, ListDelay: 1, TagDelay: 1, ReplayRefusals: true, Faults: func(action string) alibabafake.Fault {
			return faults[random.Fault(alibabafake.IsChange(action))]
		}})
		return faulttest.Environment[*infrav1.AlibabaMachine, alibaba.InstanceConfig]{
			Cloud:   w.description(),
			Secret:  credentialsSecret(),
			Machine: func() *infrav1.AlibabaMachine { return &infrav1.AlibabaMachine{Spec: newSpec(withFallbacks)} },
			Hooks:   conformanceEnv(t, w),
			Pass: func(passed time.Duration) {
				w.clock.Advance(passed)
				w.cloud.Advance()
			},
		}
	})
}

func withFallbacks(s *infrav1.AlibabaMachineSpec) {
	withDisk(s)
	s.CredentialsSecretName = "alibaba"
	s.Fallbacks = []infrav1.AlibabaFallback{{InstanceType: "ecs.g8i.xlarge"}, {ZoneID: alibabafake.ZoneB}}
}

var faults = map[faulttest.Fault]alibabafake.Fault{
	faulttest.Lost:      {Lost: true},
	faulttest.Broken:    {Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable", Message: "The request has failed due to a temporary failure of the server."},
	faulttest.Throttled: throttled,
}
