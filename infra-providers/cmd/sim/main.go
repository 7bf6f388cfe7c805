// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command sim is the infrastructure provider of the simulated cloud. It runs the controllers for
// SimMachines and, in the same process, the simulated hosts.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/infra-providers/internal/provider"
	"drover.io/infra-providers/sim"
	"drover.io/infra-providers/sim/hypervisor"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(1)
	}
}

func run() error {
	options := provider.AddFlags(pflag.CommandLine)
	stateDir := pflag.String("state-dir", "/var/lib/drover-sim", "folder that keeps the simulated instances over restarts")
	pflag.Parse()
	ctrl.SetLogger(options.Logger())

	hosts, err := hypervisor.Open(*stateDir)
	if err != nil {
		return err
	}
	err = provider.Run(ctrl.SetupSignalHandler(), sim.Cloud(hosts), options)
	return errors.Join(err, hosts.Close())
}
