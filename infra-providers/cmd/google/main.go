// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command google is the infrastructure provider of Google Compute Engine. It runs the controllers for GoogleMachines and
// GoogleMachineTemplates.
package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"drover.io/infra-providers/google"
	"drover.io/infra-providers/internal/provider"
	"drover.io/runtime/flagcheck"
	"drover.io/runtime/manager"
)

func main() { manager.Main("infra-google", run) }

func run(ctx context.Context, args []string) error {
	var cloud google.Options
	options, err := provider.Parse("infra-google", args, func(flags *pflag.FlagSet) {
		flags.StringVar(&cloud.Endpoint, "endpoint", "", "URL of the Compute Engine API without a path, such as a private endpoint in a VPC; empty for Google's own")
		flags.StringVar(&cloud.TokenEndpoint, "token-endpoint", "", "URL where tokens are requested with keys of service accounts; empty for Google's own")
	})
	if err != nil {
		return err
	}
	if err := cmp.Or(flagcheck.URL("--endpoint", cloud.Endpoint), flagcheck.URL("--token-endpoint", cloud.TokenEndpoint)); err != nil {
		return err
	}
	if parsed, err := url.Parse(cloud.Endpoint); err != nil || strings.Trim(parsed.Path, "/") != "" {
		return fmt.Errorf("--endpoint must be a URL without a path, not %q", cloud.Endpoint)
	}
	return provider.Run(ctx, google.Cloud(cloud), options)
}
