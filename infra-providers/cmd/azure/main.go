// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command azure is the infrastructure provider of Azure. It runs the controllers for AzureMachines and AzureMachineTemplates.
package main

import (
	"context"

	"github.com/spf13/pflag"

	"drover.io/infra-providers/azure"
	"drover.io/infra-providers/internal/provider"
	"drover.io/runtime/manager"
)

func main() { manager.Main("infra-azure", run) }

func run(ctx context.Context, args []string) error {
	var cloud azure.Options
	options, err := provider.Parse("infra-azure", args, func(flags *pflag.FlagSet) {
		flags.StringVar(&cloud.Cloud, "cloud", "AzurePublic", "cloud of Microsoft: AzurePublic, AzureGovernment or AzureChina")
		flags.StringVar(&cloud.Endpoint, "endpoint", "", "https URL of the Resource Manager, such as a private endpoint; empty for that of --cloud")
		flags.StringVar(&cloud.AuthorityHost, "authority-host", "", "https URL of Microsoft Entra, where tokens are requested; empty for that of --cloud")
	})
	if err != nil {
		return err
	}
	if err := cloud.Validate(); err != nil {
		return err
	}
	return provider.Run(ctx, azure.Cloud(cloud), options)
}
