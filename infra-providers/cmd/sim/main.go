// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command sim is the infrastructure provider of the simulated cloud. It runs the controllers for
// SimMachines and SimMachineTemplates and, in the same process, the simulated hosts.
package main

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"drover.io/infra-providers/internal/provider"
	"drover.io/infra-providers/sim"
	"drover.io/infra-providers/sim/hypervisor"
	"drover.io/runtime/flagcheck"
	"drover.io/runtime/manager"
)

func main() { manager.Main("infra-sim", run) }

func run(ctx context.Context, args []string) error {
	var stateDir string
	options, err := provider.Parse("infra-sim", args, func(flags *pflag.FlagSet) {
		flags.StringVar(&stateDir, "state-dir", "/var/lib/drover-sim", "folder that keeps the simulated instances over restarts")
	})
	if err != nil {
		return err
	}
	if err := flagcheck.Folder("--state-dir", stateDir); err != nil {
		return err
	}
	hosts, err := hypervisor.Open(stateDir)
	if err != nil {
		return err
	}
	err = provider.Run(ctx, sim.Cloud(hosts), options)
	return errors.Join(err, hosts.Close())
}
