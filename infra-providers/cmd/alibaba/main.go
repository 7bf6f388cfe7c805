// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command alibaba is the infrastructure provider of Alibaba Cloud ECS. It runs the controllers for AlibabaMachines and
// AlibabaMachineTemplates.
package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"drover.io/infra-providers/alibaba"
	"drover.io/infra-providers/internal/provider"
	"drover.io/runtime/flagcheck"
	"drover.io/runtime/manager"
)

func main() { manager.Main("infra-alibaba", run) }

func run(ctx context.Context, args []string) error {
	var cloud alibaba.Options
	options, err := provider.Parse("infra-alibaba", args, func(flags *pflag.FlagSet) {
		flags.StringVar(&cloud.Endpoint, "endpoint", "", "URL of ECS without a path, such as that in a VPC or of a private cloud; empty for that of the region")
		flags.StringVar(&cloud.STSEndpoint, "sts-endpoint", "", "URL of the Security Token Service without a path, which names the account; empty for --endpoint, or that of the region")
		flags.StringVar(&cloud.MetadataEndpoint, "metadata-endpoint", "", "URL of the metadata service without a path, which has the credentials of the RAM role of the provider's instance; empty for http://100.100.100.200")
	})
	if err != nil {
		return err
	}
	for flag, value := range map[string]string{"--endpoint": cloud.Endpoint, "--sts-endpoint": cloud.STSEndpoint, "--metadata-endpoint": cloud.MetadataEndpoint} {
		if err := flagcheck.URL(flag, value); err != nil {
			return err
		}
		if parsed, err := url.Parse(value); err != nil || strings.Trim(parsed.Path, "/") != "" {
			return fmt.Errorf("%s must be a URL without a path, not %q", flag, value)
		}
	}
	return provider.Run(ctx, alibaba.Cloud(cloud), options)
}
