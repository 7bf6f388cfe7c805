// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"drover.io/runtime/manager"
)

// options are the flags of the manager.
type options struct {
	manager.Options
	remoteGrace                             time.Duration
	safetyUp, safetyDown                    int
	overshooting, probePeriod, probeTimeout time.Duration
	syncLabels, syncAnnotations             []*regexp.Regexp
	allowProxy                              bool
	nodeMemory                              resource.QuantityValue
}

func parseOptions(args []string) (*options, error) {
	o := &options{nodeMemory: resource.QuantityValue{Quantity: resource.MustParse("128Mi")}}
	var labels, annotations []string
	shared, err := manager.Parse("machine-controller", args, func(flags *pflag.FlagSet) {
		flags.DurationVar(&o.remoteGrace, "remote-conditions-grace-period", 5*time.Minute, "how long the last known health of a Node is kept while its cluster cannot be reached; at least 2m")
		flags.BoolVar(&o.allowProxy, "allow-kubeconfig-proxy", false, manager.AllowKubeconfigProxyUsage)
		flags.Var(&o.nodeMemory, "node-memory-per-namespace", "how much memory the Nodes of all workload clusters of a namespace may take, at about 5Ki each; a cluster that would take more is not connected. 0 is no limit")
		o.addSafety(flags)
		flags.StringSliceVar(&labels, "additional-sync-machine-labels", nil, "regular expressions of label keys that go from a Machine to its Node beside the managed domains; '.*' is all")
		flags.StringSliceVar(&annotations, "additional-sync-machine-annotations", nil, "the same for annotations")
	})
	if err != nil {
		return nil, err
	}
	o.Options = *shared
	return o, o.validate(labels, annotations)
}

// addSafety adds the flags of package safety; a MachinePolicy takes precedence over the first two.
func (o *options) addSafety(flags *pflag.FlagSet) {
	flags.IntVar(&o.safetyUp, "safety-up", 2, "how many Machines a MachineDeployment may have beyond its replicas and surge before it is frozen")
	flags.IntVar(&o.safetyDown, "safety-down", 1, "how many fewer than that limit unfreeze it")
	flags.DurationVar(&o.overshooting, "machine-safety-overshooting-period", time.Minute, "how long there must be too many Machines to freeze")
	flags.DurationVar(&o.probePeriod, "machine-safety-apiserver-statuscheck-period", 10*time.Second, "how often the API servers of the management and workload clusters are probed")
	flags.DurationVar(&o.probeTimeout, "machine-safety-apiserver-statuscheck-timeout", 50*time.Second, "how long an API server may be unreachable before health timers restart; creation and replacement stop at the first failed probe")
}

func (o *options) validateSafety() error {
	switch {
	case o.safetyUp < 0 || o.safetyDown < 0:
		return fmt.Errorf("--safety-up and --safety-down must be at least 0, not %d and %d", o.safetyUp, o.safetyDown)
	case o.safetyDown > o.safetyUp:
		return fmt.Errorf("--safety-down must not be greater than --safety-up: %d, %d", o.safetyDown, o.safetyUp)
	case o.overshooting < 0:
		return fmt.Errorf("--machine-safety-overshooting-period must not be negative: %s", o.overshooting)
	case o.probePeriod < time.Second:
		return fmt.Errorf("--machine-safety-apiserver-statuscheck-period must be at least 1s, not %s", o.probePeriod)
	case o.probeTimeout < 2*o.probePeriod:
		return fmt.Errorf("--machine-safety-apiserver-statuscheck-timeout must be at least twice the period of %s, not %s: one failed probe must not count as an outage", o.probePeriod, o.probeTimeout)
	case o.remoteGrace <= o.probeTimeout:
		return fmt.Errorf("--remote-conditions-grace-period must be longer than --machine-safety-apiserver-statuscheck-timeout: %s, %s", o.remoteGrace, o.probeTimeout)
	}
	return nil
}

// failures is how many probes in a row must fail until an API server has been unreachable for too long.
func (o *options) failures() int {
	return int((o.probeTimeout + o.probePeriod - 1) / o.probePeriod)
}

// leastNodeMemory has the Nodes of a small cluster. A smaller number was meant in another unit than bytes.
const leastNodeMemory = 1 << 20

func (o *options) validate(labels, annotations []string) error {
	if memory := o.nodeMemory.Value(); memory != 0 && memory < leastNodeMemory {
		return fmt.Errorf("--node-memory-per-namespace must be 0 or at least 1Mi, not %s", o.nodeMemory.String())
	}
	if o.remoteGrace < 2*time.Minute {
		return fmt.Errorf("--remote-conditions-grace-period must be at least 2m, not %s: a connection is only given up after a minute", o.remoteGrace)
	}
	if err := o.validateSafety(); err != nil {
		return err
	}
	var err error
	if o.syncLabels, err = compile("--additional-sync-machine-labels", labels); err != nil {
		return err
	}
	o.syncAnnotations, err = compile("--additional-sync-machine-annotations", annotations)
	return err
}

func compile(flag string, expressions []string) ([]*regexp.Regexp, error) {
	var compiled []*regexp.Regexp
	for _, expression := range expressions {
		one, err := regexp.Compile(expression)
		if err != nil {
			return nil, fmt.Errorf("%s must be regular expressions with commas, not %q: %w", flag, expression, err)
		}
		compiled = append(compiled, one)
	}
	return compiled, nil
}
