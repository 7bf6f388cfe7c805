// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"testing"
	"time"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/azure"
	"drover.io/infra-providers/azure/azurefake"
	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/faulttest"
)

// TestFaultInjection creates and deletes machines in an Azure that lists late and whose every request may fail. At times it has
// no host for what it has accepted, and a failed virtual machine may leave its disks.
func TestFaultInjection(t *testing.T) {
	t.Parallel()
	faulttest.Run(t, shared.Cluster(t), func(t *testing.T, random *faulttest.Rand) faulttest.Environment[*infrav1.AzureMachine, azure.InstanceConfig] {
		options := azurefake.Options{
			CreateReads: 1, DeleteReads: 2, NetworkReads: 1, NetworkDeleteReads: 1, ListDelay: 1, GraphDelay: true, KeepsAttached: true,
			Faults: func(method string) azurefake.Fault { return faults[random.Fault(azurefake.IsChange(method))] },
		}
		arm := newEnv(t, options)
		return faulttest.Environment[*infrav1.AzureMachine, azure.InstanceConfig]{
			Cloud:   arm.description(),
			Secret:  credentialsSecret(),
			Machine: func() *infrav1.AzureMachine { return &infrav1.AzureMachine{Spec: newSpec(withFallbacks)} },
			Hooks:   conformanceEnv(t, arm),
			Pass: func(passed time.Duration) {
				arm.clock.Advance(passed)
				arm.cloud.Advance()
			},
		}
	})
}

func withFallbacks(s *infrav1.AzureMachineSpec) {
	everything(s)
	s.CredentialsSecretName = account.SecretName
	s.Fallbacks = []infrav1.AzureFallback{{VMSize: "Standard_D4s_v5"}, {Zone: "2"}}
}

var faults = map[faulttest.Fault]azurefake.Fault{
	faulttest.Lost:      {Lost: true},
	faulttest.Broken:    {Status: 503, Code: "ServiceUnavailable", Message: "Try again."},
	faulttest.Throttled: {Status: 429, Code: "TooManyRequests", Message: "The request is being throttled.", RetryAfter: "1"},
}

var _ driver.Driver[azure.InstanceConfig] = (*azure.Driver)(nil)
