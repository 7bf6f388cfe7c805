// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command openstack is the infrastructure provider of OpenStack. It runs the controllers for
// OpenStackMachines.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/infra-providers/internal/provider"
	"drover.io/infra-providers/openstack"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "openstack:", err)
		os.Exit(1)
	}
}

func run() error {
	options := provider.AddFlags(pflag.CommandLine)
	pflag.Parse()
	ctrl.SetLogger(options.Logger())
	return provider.Run(ctrl.SetupSignalHandler(), openstack.Cloud(openstack.Options{}), options)
}
