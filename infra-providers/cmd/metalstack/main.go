// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command metalstack is the infrastructure provider of metal-stack. It runs the controllers for
// MetalStackMachines and MetalStackMachineTemplates.
package main

import (
	"context"

	"drover.io/infra-providers/internal/provider"
	"drover.io/infra-providers/metalstack"
	"drover.io/runtime/manager"
)

func main() { manager.Main("infra-metalstack", run) }

func run(ctx context.Context, args []string) error {
	options, err := provider.Parse("infra-metalstack", args, nil)
	if err != nil {
		return err
	}
	return provider.Run(ctx, metalstack.Cloud(metalstack.Options{}), options)
}
