// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"drover.io/runtime/manager"
)

// options are the flags of the manager.
type options struct {
	manager.Options
	approve, allowProxy, trustReported bool
}

func parseOptions(args []string) (*options, error) {
	o := &options{}
	shared, err := manager.Parse("bootstrap", args, func(flags *pflag.FlagSet) {
		flags.Usage = func() {
			fmt.Fprint(flags.Output(), "Usage: bootstrap [flags], the manager of BootstrapConfigs; or bootstrap merge --filename FILE, which shows what BootstrapConfigs become.\n\n"+flags.FlagUsages())
		}
		flags.BoolVar(&o.approve, "approve-certificates", true, "approve certificate requests of kubelets in workload clusters that belong to a Machine")
		flags.BoolVar(&o.trustReported, "trust-reported-addresses", false, "approve serving certificates for addresses that only the guest reports, as on vSphere: root on a worker then chooses them, except those of the control plane and of other Machines; with infrastructure providers of other projects host names count, too, also for client certificates")
		flags.BoolVar(&o.allowProxy, "allow-kubeconfig-proxy", false, manager.AllowKubeconfigProxyUsage)
	})
	if err != nil {
		return nil, err
	}
	if o.trustReported && !o.approve {
		return nil, errors.New("--trust-reported-addresses has no effect with --approve-certificates=false")
	}
	o.Options = *shared
	return o, nil
}
