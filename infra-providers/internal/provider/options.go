// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"time"

	"github.com/spf13/pflag"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/infra-providers/internal/orphan"
	"drover.io/runtime/flagcheck"
	"drover.io/runtime/manager"
)

// Options are the flags that every provider has.
type Options struct {
	manager.Options
	// InventoryInterval is how often all instances of an account are listed; 0 is never.
	InventoryInterval time.Duration
	// ConsoleAfter is how long an instance has run without a Node when its console is read; 0 is never.
	ConsoleAfter time.Duration
	// OwnCredentials are the namespaces that may use the provider's own credentials, beside those with the label.
	OwnCredentials []string

	Orphans orphan.Options
}

// Parse reads the arguments of a provider: the flags that all have, and those that own adds, if set.
// Its errors are those of [manager.Parse].
func Parse(program string, args []string, own func(*pflag.FlagSet)) (*Options, error) {
	o := &Options{}
	shared, err := manager.Parse(program, args, func(flags *pflag.FlagSet) {
		o.addFlags(flags)
		if own != nil {
			own(flags)
		}
	})
	if err != nil {
		return nil, err
	}
	o.Options = *shared
	return o, o.validate()
}

func (o *Options) validate() error {
	return cmp.Or(
		flagcheck.OffOrAtLeast("--inventory-interval", o.InventoryInterval, time.Second),
		flagcheck.OffOrAtLeast("--console-after", o.ConsoleAfter, time.Second),
		flagcheck.OffOrAtLeast("--machine-safety-orphan-vms-period", o.Orphans.Period, time.Second),
		flagcheck.AtLeast("--machine-safety-orphan-vms-grace", o.Orphans.Grace, time.Second),
		flagcheck.AtLeast("--machine-safety-orphan-vms-max", o.Orphans.Cap, 0),
		flagcheck.Namespaces("--own-credentials-namespaces", o.OwnCredentials),
	)
}

func (o *Options) addFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&o.InventoryInterval, "inventory-interval", time.Minute, "how often all instances of an account are listed; 0 reads each instance by itself")
	flags.DurationVar(&o.ConsoleAfter, "console-after", 5*time.Minute, "how long an instance has run without a Node when its console is read for the reason; 0 is never")
	flags.StringSliceVar(&o.OwnCredentials, "own-credentials-namespaces", nil,
		"namespaces whose machines may use the provider's own credentials, beside those with the label "+infrav1.OwnCredentialsLabel+"="+infrav1.OwnCredentialsAllowed+`; "*" is all; the one of --namespace always may`)
	flags.DurationVar(&o.Orphans.Period, "machine-safety-orphan-vms-period", 30*time.Minute, "how often orphans are searched for: instances that no machine owns; 0 is never")
	flags.DurationVar(&o.Orphans.Grace, "machine-safety-orphan-vms-grace", 20*time.Minute, "how old an orphan must be, and for how long known, before it is deleted")
	flags.IntVar(&o.Orphans.Cap, "machine-safety-orphan-vms-max", 5, "how many orphans of one account are deleted in one sweep at most")
	flags.BoolVar(&o.Orphans.DryRun, "machine-safety-orphan-vms-dry-run", false, "only report orphans")
}

// ownCredentials are the namespaces that the flags allow to use the provider's own credentials.
func (o *Options) ownCredentials() []string {
	if o.Namespace == "" {
		return o.OwnCredentials
	}
	return append([]string{o.Namespace}, o.OwnCredentials...)
}
