// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command kubevirt is the infrastructure provider of KubeVirt. It runs the controllers for KubeVirtMachines and
// KubeVirtMachineTemplates.
package main

import (
	"context"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/infra-providers/internal/provider"
	"drover.io/infra-providers/kubevirt"
	"drover.io/runtime/manager"
)

func main() { manager.Main("infra-kubevirt", run) }

func run(ctx context.Context, args []string) error {
	cloud := kubevirt.Options{Own: ctrl.GetConfig}
	options, err := provider.Parse("infra-kubevirt", args, func(flags *pflag.FlagSet) {
		flags.BoolVar(&cloud.AllowProxy, "allow-kubeconfig-proxy", false, "accept a proxy-url in the kubeconfigs of infrastructure clusters; the author of such a Secret can then make the provider connect to any host that it reaches")
	})
	if err != nil {
		return err
	}
	return provider.Run(ctx, kubevirt.Cloud(cloud), options)
}
