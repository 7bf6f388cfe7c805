// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"flag"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2/textlogger"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"drover.io/api/logflags"
	"drover.io/infra-providers/internal/orphan"
)

// Options are the flags that every provider has.
type Options struct {
	MetricsBindAddress      string
	HealthProbeBindAddress  string
	PprofBindAddress        string
	LeaderElect             bool
	LeaderElectionNamespace string
	Namespace               string
	WatchFilter             string
	WorkerCount             int
	SyncPeriod              time.Duration
	InventoryInterval       time.Duration

	Orphans orphan.Options

	logging *textlogger.Config
}

// AddFlags registers the flags and returns the options they set.
func AddFlags(flags *pflag.FlagSet) *Options {
	o := &Options{logging: textlogger.NewConfig()}
	native := flag.NewFlagSet("", flag.ContinueOnError)
	o.logging.AddFlags(native)
	logflags.Bound(native)
	config.RegisterFlags(native)
	flags.AddGoFlagSet(native)

	flags.StringVar(&o.MetricsBindAddress, "metrics-bind-address", ":8085", `address to serve metrics on, "0" for none`)
	flags.StringVar(&o.HealthProbeBindAddress, "health-probe-bind-address", ":9440", "address to serve /healthz and /readyz on")
	flags.StringVar(&o.PprofBindAddress, "pprof-bind-address", "", "address to serve /debug/pprof on, empty for none")
	flags.BoolVar(&o.LeaderElect, "leader-elect", true, "work only while holding the leader election Lease")
	flags.StringVar(&o.LeaderElectionNamespace, "leader-election-namespace", "", "namespace of the leader election Lease, the provider's own by default")
	flags.StringVar(&o.Namespace, "namespace", "", "namespace to work in, empty for all")
	flags.StringVar(&o.WatchFilter, "watch-filter", "", "work only on objects whose label cluster.x-k8s.io/watch-filter has this value, empty for all")
	flags.IntVar(&o.WorkerCount, "worker-count", 10, "machines to work on at the same time")
	flags.DurationVar(&o.SyncPeriod, "sync-period", 10*time.Minute, "how often an instance that runs is looked at")
	flags.DurationVar(&o.InventoryInterval, "inventory-interval", time.Minute, "how often all instances of an account are listed, 0 to read each by itself")
	flags.DurationVar(&o.Orphans.Period, "machine-safety-orphan-vms-period", 30*time.Minute, "how often to look for instances that no machine owns, 0 for never")
	flags.DurationVar(&o.Orphans.Grace, "machine-safety-orphan-vms-grace", 20*time.Minute, "how old an orphan must be, and for how long known, before it is deleted")
	flags.IntVar(&o.Orphans.Cap, "machine-safety-orphan-vms-max", 5, "orphans to delete in one sweep at most")
	flags.BoolVar(&o.Orphans.DryRun, "machine-safety-orphan-vms-dry-run", false, "tell about orphans and delete none")
	return o
}

// Logger returns the logger that the flags describe.
func (o *Options) Logger() logr.Logger { return textlogger.NewLogger(o.logging) }
