// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"testing"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/faultrig"
	"drover.io/infra-providers/sim"
)

func TestFaultRig(t *testing.T) {
	t.Parallel()
	faultrig.Run(t, func(t *testing.T, _ *faultrig.Dice) faultrig.World[*infrav1.SimMachine, sim.Config] {
		hosts := open(t)
		return faultrig.World[*infrav1.SimMachine, sim.Config]{
			Cloud:   sim.Cloud(hosts),
			Machine: func() *infrav1.SimMachine { return &infrav1.SimMachine{} },
			Hooks:   world(t, hosts),
		}
	})
}
