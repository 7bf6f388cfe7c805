// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command hetzner is the infrastructure provider of Hetzner Cloud. It runs the controllers for
// HetznerMachines.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/infra-providers/hetzner"
	"drover.io/infra-providers/internal/provider"
)

func main() {
	options := provider.AddFlags(pflag.CommandLine)
	pflag.Parse()
	ctrl.SetLogger(options.Logger())
	if err := provider.Run(ctrl.SetupSignalHandler(), hetzner.Cloud(), options); err != nil {
		fmt.Fprintln(os.Stderr, "hetzner:", err)
		os.Exit(1)
	}
}
