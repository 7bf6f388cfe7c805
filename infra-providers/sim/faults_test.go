// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"testing"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/faulttest"
	"drover.io/infra-providers/internal/testenv"
	"drover.io/infra-providers/sim"
)

func TestFaultInjection(t *testing.T) {
	t.Parallel()
	faulttest.Run(t, testenv.New(t), func(t *testing.T, _ *faulttest.Rand) faulttest.Environment[*infrav1.SimMachine, sim.InstanceConfig] {
		hosts := openHypervisor(t)
		return faulttest.Environment[*infrav1.SimMachine, sim.InstanceConfig]{
			Cloud:   sim.Cloud(hosts),
			Machine: func() *infrav1.SimMachine { return &infrav1.SimMachine{} },
			Hooks:   newEnv(t, hosts),
		}
	})
}
