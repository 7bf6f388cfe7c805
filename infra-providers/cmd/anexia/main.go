// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command anexia is the infrastructure provider of Anexia. It runs the controllers for AnexiaMachines and
// AnexiaMachineTemplates.
package main

import (
	"context"

	"github.com/spf13/pflag"

	"drover.io/infra-providers/anexia"
	"drover.io/infra-providers/internal/provider"
	"drover.io/runtime/flagcheck"
	"drover.io/runtime/manager"
)

func main() { manager.Main("infra-anexia", run) }

func run(ctx context.Context, args []string) error {
	var cloud anexia.Options
	options, err := provider.Parse("infra-anexia", args, func(flags *pflag.FlagSet) {
		flags.StringVar(&cloud.Endpoint, "endpoint", "", "URL of the Anexia Engine; empty for https://engine.anexia-it.com")
	})
	if err != nil {
		return err
	}
	if err := flagcheck.URL("--endpoint", cloud.Endpoint); err != nil {
		return err
	}
	return provider.Run(ctx, anexia.Cloud(cloud), options)
}
