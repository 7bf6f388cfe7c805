// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command vcd is the infrastructure provider of VMware Cloud Director. It runs the controllers for
// VCDMachines and VCDMachineTemplates.
package main

import (
	"context"

	"drover.io/infra-providers/internal/provider"
	"drover.io/infra-providers/vcd"
	"drover.io/runtime/manager"
)

func main() { manager.Main("infra-vcd", run) }

func run(ctx context.Context, args []string) error {
	options, err := provider.Parse("infra-vcd", args, nil)
	if err != nil {
		return err
	}
	return provider.Run(ctx, vcd.Cloud(vcd.Options{}), options)
}
