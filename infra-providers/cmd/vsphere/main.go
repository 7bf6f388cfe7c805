// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command vsphere is the infrastructure provider of VMware vSphere. It runs the controllers for
// VSphereMachines.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/infra-providers/internal/provider"
	"drover.io/infra-providers/vsphere"
	"drover.io/infra-providers/vsphere/vcenter"
)

// farewell bounds how long logging out may take.
const farewell = 10 * time.Second

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "vsphere:", err)
		os.Exit(1)
	}
}

func run() error {
	options := provider.AddFlags(pflag.CommandLine)
	pflag.Parse()
	ctrl.SetLogger(options.Logger())

	sessions := &vcenter.Pool{}
	err := provider.Run(ctrl.SetupSignalHandler(), vsphere.Cloud(sessions), options)
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	return errors.Join(err, sessions.Close(ctx))
}
