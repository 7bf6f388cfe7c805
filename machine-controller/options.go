// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2/textlogger"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/client/config"
)

// options are the flags of the manager.
type options struct {
	metricsAddress, probeAddress, pprofAddress string
	leaderElect                                bool
	leaderElectionNamespace                    string
	namespace, watchFilter                     string
	workers, burst                             int
	qps                                        float32
	syncPeriod, remoteGrace                    time.Duration
	syncLabels, syncAnnotations                []*regexp.Regexp
	log                                        *textlogger.Config
}

func parseOptions(args []string) (*options, error) {
	o := &options{log: textlogger.NewConfig()}
	var labels, annotations []string
	flags := pflag.NewFlagSet("machine-controller", pflag.ContinueOnError)
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8085", "address of the metrics endpoint; 0 turns it off")
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", ":9440", "address of /healthz and /readyz")
	flags.StringVar(&o.pprofAddress, "pprof-bind-address", "", "address of /debug/pprof; empty turns it off")
	flags.BoolVar(&o.leaderElect, "leader-elect", true, "run only while holding the leader election lease")
	flags.StringVar(&o.leaderElectionNamespace, "leader-election-namespace", "", "namespace of the lease; empty is the namespace of the pod")
	flags.StringVar(&o.namespace, "namespace", "", "reconcile objects of this namespace only; empty is all")
	flags.StringVar(&o.watchFilter, "watch-filter", "", "reconcile only objects whose label "+clusterv1.WatchLabel+" has this value")
	flags.IntVar(&o.workers, "worker-count", 20, "how many objects of each kind to reconcile at a time")
	flags.Float32Var(&o.qps, "kube-api-qps", -1, "requests a second to the management cluster; negative leaves it to the API server's priority and fairness")
	flags.IntVar(&o.burst, "kube-api-burst", 200, "how far --kube-api-qps may be exceeded for a moment")
	flags.DurationVar(&o.syncPeriod, "sync-period", 10*time.Minute, "how often everything is reconciled even if nothing changed")
	flags.DurationVar(&o.remoteGrace, "remote-conditions-grace-period", 5*time.Minute, "how long a Node's last known health stands while its cluster cannot be reached; at least 2m")
	flags.StringSliceVar(&labels, "additional-sync-machine-labels", nil, "regular expressions of label keys that go from a Machine to its Node beside the managed domains; '.*' is all")
	flags.StringSliceVar(&annotations, "additional-sync-machine-annotations", nil, "the same for annotations")
	inherited := flag.NewFlagSet("", flag.ContinueOnError)
	o.log.AddFlags(inherited)
	ctrlconfig.RegisterFlags(inherited)
	flags.AddGoFlagSet(inherited)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			os.Exit(0)
		}
		return nil, fmt.Errorf("reading flags: %w", err)
	}
	return o, o.validate(labels, annotations)
}

func (o *options) validate(labels, annotations []string) error {
	if o.workers < 1 {
		return fmt.Errorf("--worker-count must be at least 1, not %d", o.workers)
	}
	if o.remoteGrace < 2*time.Minute {
		return fmt.Errorf("--remote-conditions-grace-period must be at least 2m, not %s: a connection is only given up after a minute", o.remoteGrace)
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
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		compiled = append(compiled, one)
	}
	return compiled, nil
}
