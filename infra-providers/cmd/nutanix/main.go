// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command nutanix is the infrastructure provider of Nutanix AHV. It runs the controllers for NutanixMachines and
// NutanixMachineTemplates.
package main

import (
	"context"

	"drover.io/infra-providers/internal/provider"
	"drover.io/infra-providers/nutanix"
	"drover.io/runtime/manager"
)

func main() { manager.Main("infra-nutanix", run) }

func run(ctx context.Context, args []string) error {
	options, err := provider.Parse("infra-nutanix", args, nil)
	if err != nil {
		return err
	}
	return provider.Run(ctx, nutanix.Cloud(nutanix.Options{}), options)
}
