// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command hetzner is the infrastructure provider of Hetzner Cloud. It runs the controllers for
// HetznerMachines and HetznerMachineTemplates.
package main

import (
	"context"

	"drover.io/infra-providers/hetzner"
	"drover.io/infra-providers/internal/provider"
	"drover.io/runtime/manager"
)

func main() { manager.Main("infra-hetzner", run) }

func run(ctx context.Context, args []string) error {
	options, err := provider.Parse("infra-hetzner", args, nil)
	if err != nil {
		return err
	}
	return provider.Run(ctx, hetzner.Cloud(hetzner.Options{}), options)
}
