// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command aws is the infrastructure provider of Amazon EC2. It runs the controllers for AWSMachines and
// AWSMachineTemplates.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/infra-providers/aws"
	"drover.io/infra-providers/internal/provider"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "aws:", err)
		os.Exit(1)
	}
}

func run() error {
	options := provider.AddFlags(pflag.CommandLine)
	endpoint := pflag.String("endpoint", "", "URL of the EC2 API, for private clouds; empty for that of the region, or of AWS_ENDPOINT_URL_EC2")
	pflag.Parse()
	return provider.Run(ctrl.SetupSignalHandler(), aws.Cloud(aws.Options{Endpoint: *endpoint}), options)
}
