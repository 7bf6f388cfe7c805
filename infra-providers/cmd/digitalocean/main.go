// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command digitalocean is the infrastructure provider of DigitalOcean. It runs the controllers for DigitalOceanMachines
// and DigitalOceanMachineTemplates.
package main

import (
	"context"

	"drover.io/infra-providers/digitalocean"
	"drover.io/infra-providers/internal/provider"
	"drover.io/runtime/manager"
)

func main() { manager.Main("infra-digitalocean", run) }

func run(ctx context.Context, args []string) error {
	options, err := provider.Parse("infra-digitalocean", args, nil)
	if err != nil {
		return err
	}
	return provider.Run(ctx, digitalocean.Cloud(digitalocean.Options{}), options)
}
