// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command openstack is the infrastructure provider of OpenStack. It runs the controllers for
// OpenStackMachines and OpenStackMachineTemplates.
package main

import (
	"context"

	"drover.io/infra-providers/internal/provider"
	"drover.io/infra-providers/openstack"
	"drover.io/runtime/manager"
)

func main() { manager.Main("infra-openstack", run) }

func run(ctx context.Context, args []string) error {
	options, err := provider.Parse("infra-openstack", args, nil)
	if err != nil {
		return err
	}
	return provider.Run(ctx, openstack.Cloud(openstack.Options{}), options)
}
