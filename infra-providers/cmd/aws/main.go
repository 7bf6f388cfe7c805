// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command aws is the infrastructure provider of Amazon EC2. It runs the controllers for AWSMachines and
// AWSMachineTemplates.
package main

import (
	"cmp"
	"context"
	"os"

	"github.com/spf13/pflag"

	"drover.io/infra-providers/aws"
	"drover.io/infra-providers/internal/provider"
	"drover.io/runtime/flagcheck"
	"drover.io/runtime/manager"
)

func main() { manager.Main("infra-aws", run) }

func run(ctx context.Context, args []string) error {
	var cloud aws.Options
	options, err := provider.Parse("infra-aws", args, func(flags *pflag.FlagSet) {
		flags.StringVar(&cloud.Endpoint, "endpoint", "", "URL of the EC2 API, for private clouds; empty for that of the region, or of AWS_ENDPOINT_URL_EC2")
		flags.StringVar(&cloud.STSEndpoint, "sts-endpoint", "", "URL of the STS API, which names the account; empty for --endpoint, or that of the region, or of AWS_ENDPOINT_URL_STS")
	})
	if err != nil {
		return err
	}
	if err := cmp.Or(flagcheck.URL("--endpoint", cloud.Endpoint), flagcheck.URL("--sts-endpoint", cloud.STSEndpoint)); err != nil {
		return err
	}
	for _, variable := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EC2", "AWS_ENDPOINT_URL_STS"} {
		if err := flagcheck.URL("the environment variable "+variable, os.Getenv(variable)); err != nil {
			return err
		}
	}
	return provider.Run(ctx, aws.Cloud(cloud), options)
}
