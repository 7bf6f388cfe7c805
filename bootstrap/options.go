// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2/textlogger"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"drover.io/api/logflags"
)

// options are the flags of the manager.
type options struct {
	metricsAddress, probeAddress, pprofAddress string
	leaderElect, approve                       bool
	leaderElectionNamespace                    string
	namespace, watchFilter                     string
	workers                                    int
	syncPeriod                                 time.Duration
	log                                        *textlogger.Config
}

func parseOptions(args []string) (*options, error) {
	o := &options{log: textlogger.NewConfig()}
	flags := pflag.NewFlagSet("bootstrap", pflag.ContinueOnError)
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8085", "address of the metrics endpoint; 0 turns it off")
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", ":9440", "address of /healthz and /readyz")
	flags.StringVar(&o.pprofAddress, "pprof-bind-address", "", "address of /debug/pprof; empty turns it off")
	flags.BoolVar(&o.leaderElect, "leader-elect", true, "run only while holding the leader election lease")
	flags.StringVar(&o.leaderElectionNamespace, "leader-election-namespace", "", "namespace of the lease; empty is the namespace of the pod")
	flags.StringVar(&o.namespace, "namespace", "", "reconcile objects of this namespace only; empty is all")
	flags.StringVar(&o.watchFilter, "watch-filter", "", "reconcile only objects whose label "+clusterv1.WatchLabel+" has this value")
	flags.IntVar(&o.workers, "worker-count", 10, "how many BootstrapConfigs to reconcile at a time")
	flags.BoolVar(&o.approve, "approve-certificates", true, "approve certificate requests of kubelets in workload clusters that belong to a Machine")
	flags.DurationVar(&o.syncPeriod, "sync-period", 10*time.Minute, "how often everything is reconciled even if nothing changed")
	inherited := flag.NewFlagSet("", flag.ContinueOnError)
	o.log.AddFlags(inherited)
	logflags.Bound(inherited)
	ctrlconfig.RegisterFlags(inherited)
	flags.AddGoFlagSet(inherited)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			os.Exit(0)
		}
		return nil, fmt.Errorf("reading flags: %w", err)
	}
	if o.workers < 1 {
		return nil, fmt.Errorf("--worker-count must be at least 1, not %d", o.workers)
	}
	return o, nil
}

// filter selects what --watch-filter says; nil selects all.
func (o *options) filter() predicate.Predicate {
	if o.watchFilter == "" {
		return nil
	}
	return predicate.NewPredicateFuncs(func(object client.Object) bool {
		return object.GetLabels()[clusterv1.WatchLabel] == o.watchFilter
	})
}
