// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"drover.io/runtime/flagcheck"
	"drover.io/runtime/version"
)

// maxWorkers is more than an API server answers at the same time. Each one is a goroutine of every controller.
const maxWorkers = 10_000

// ErrDone is the error of arguments that have been answered, such as --help and --version: there is nothing to run.
var ErrDone = errors.New("the arguments have been answered")

// Options are the flags that every manager has.
type Options struct {
	MetricsBindAddress string
	// MetricsSecure serves metrics over HTTPS to authorized users only.
	MetricsSecure bool
	// MetricsCertDir has the certificate of the metrics endpoint; empty is one that the manager makes and signs itself.
	MetricsCertDir         string
	HealthProbeBindAddress string
	PprofBindAddress       string

	LeaderElect             bool
	LeaderElectionNamespace string
	LeaseDuration           time.Duration
	RenewDeadline           time.Duration
	RetryPeriod             time.Duration

	// Namespace limits the manager to the objects of one namespace; empty is all.
	Namespace string
	// WatchFilter limits the manager to objects whose label cluster.x-k8s.io/watch-filter has this value; empty is all.
	WatchFilter string
	// WorkerCount is how many objects of each kind are reconciled at the same time.
	WorkerCount int
	// SyncPeriod is how often each object is reconciled even if nothing changed.
	SyncPeriod time.Duration

	KubeAPIQPS   float32
	KubeAPIBurst int

	logging logging
	tracing tracingOptions
	// kubeconfig is the value of --kubeconfig, which controller-runtime reads.
	kubeconfig string
}

// AllowKubeconfigProxyUsage is the text of --allow-kubeconfig-proxy, which the managers have that connect to workload clusters.
const AllowKubeconfigProxyUsage = "accept a proxy-url in the kubeconfigs of workload clusters; the author of such a Secret can then make the manager connect to any host that it reaches"

// Parse reads the arguments of a program: the flags that every manager has, and those that add adds. Its error is one
// line that names the flag, or [ErrDone] after --help and --version, which are answered on standard output.
func Parse(program string, args []string, add func(*pflag.FlagSet)) (*Options, error) {
	return parse(os.Stdout, program, args, add)
}

func parse(stdout io.Writer, program string, args []string, add func(*pflag.FlagSet)) (*Options, error) {
	flags := pflag.NewFlagSet(program, pflag.ContinueOnError)
	flags.SetOutput(stdout)
	o := &Options{}
	o.addFlags(flags)
	showVersion := flags.Bool("version", false, "print the version and exit")
	if add != nil {
		add(flags)
	}
	err := flagcheck.Parse(flags, args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return nil, ErrDone
	case err != nil:
		return nil, err
	case *showVersion:
		_, err := fmt.Fprintf(stdout, "%s %s\n", program, version.Get())
		return nil, cmp.Or(err, ErrDone)
	}
	o.kubeconfig = flags.Lookup(config.KubeconfigFlagName).Value.String()
	return o, cmp.Or(flagcheck.NoArguments(flags.Args()), o.validate())
}

func (o *Options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.MetricsBindAddress, "metrics-bind-address", ":8085", "address of the metrics endpoint; 0 turns it off")
	flags.BoolVar(&o.MetricsSecure, "metrics-secure", false, "serve metrics over HTTPS, and only to users who may get the non-resource URL /metrics")
	flags.StringVar(&o.MetricsCertDir, "metrics-cert-dir", "", "folder with tls.crt and tls.key of the metrics endpoint; empty makes a self-signed certificate at each start")
	flags.StringVar(&o.HealthProbeBindAddress, "health-probe-bind-address", ":9440", "address of /healthz and /readyz; 0 turns them off")
	flags.StringVar(&o.PprofBindAddress, "pprof-bind-address", "0", "address of /debug/pprof; 0 turns it off")
	flags.BoolVar(&o.LeaderElect, "leader-elect", true, "run only while holding the leader election Lease")
	flags.StringVar(&o.LeaderElectionNamespace, "leader-election-namespace", "", "namespace of the Leases; empty is the namespace of the pod, or kube-system outside of one")
	flags.DurationVar(&o.LeaseDuration, "leader-elect-lease-duration", 15*time.Second, "how long replicas that do not lead wait for a leader that no longer renews its Lease")
	flags.DurationVar(&o.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second, "how long the leader tries to renew its Lease before it exits")
	flags.DurationVar(&o.RetryPeriod, "leader-elect-retry-period", 2*time.Second, "time between two attempts to get or renew the Lease")
	flags.StringVar(&o.Namespace, "namespace", "", "reconcile objects of this namespace only; empty is all")
	flags.StringVar(&o.WatchFilter, "watch-filter", "", "reconcile only objects whose label "+clusterv1.WatchLabel+" has this value; empty is all")
	flags.IntVar(&o.WorkerCount, "worker-count", 20, "how many objects of each kind are reconciled at the same time")
	flags.DurationVar(&o.SyncPeriod, "sync-period", 10*time.Minute, "how often each object is reconciled even if nothing changed")
	flags.Float32Var(&o.KubeAPIQPS, "kube-api-qps", -1, "requests per second to the management cluster; negative is no limit but that of the API server's priority and fairness")
	flags.IntVar(&o.KubeAPIBurst, "kube-api-burst", 200, "burst above --kube-api-qps")
	o.logging.addFlags(flags)
	o.tracing.addFlags(flags)
	kubeconfig := flag.NewFlagSet("", flag.ContinueOnError)
	config.RegisterFlags(kubeconfig)
	flags.AddGoFlagSet(kubeconfig)
}

func (o *Options) validate() error {
	if err := cmp.Or(
		flagcheck.Address("--metrics-bind-address", o.MetricsBindAddress),
		flagcheck.Address("--health-probe-bind-address", o.HealthProbeBindAddress),
		flagcheck.Address("--pprof-bind-address", o.PprofBindAddress),
		flagcheck.Namespace("--leader-election-namespace", o.LeaderElectionNamespace),
		flagcheck.Namespace("--namespace", o.Namespace),
		flagcheck.LabelValue("--watch-filter", o.WatchFilter),
		flagcheck.AtLeast("--worker-count", o.WorkerCount, 1),
		flagcheck.AtMost("--worker-count", o.WorkerCount, maxWorkers),
		flagcheck.AtLeast("--sync-period", o.SyncPeriod, time.Second),
		flagcheck.AtLeast("--kube-api-burst", o.KubeAPIBurst, 1),
		flagcheck.AtLeast("--leader-elect-retry-period", o.RetryPeriod, 100*time.Millisecond),
		flagcheck.AtLeast("--leader-elect-lease-duration", o.LeaseDuration, time.Second), // a Lease has whole seconds
	); err != nil {
		return err
	}
	switch {
	case o.MetricsBindAddress == o.HealthProbeBindAddress && o.MetricsBindAddress != "0" && !strings.HasSuffix(o.MetricsBindAddress, ":0"):
		return fmt.Errorf("--metrics-bind-address and --health-probe-bind-address must differ, and both are %s", o.MetricsBindAddress)
	case o.MetricsSecure && o.MetricsBindAddress == "0":
		return errors.New("--metrics-secure has no effect with --metrics-bind-address=0")
	case o.MetricsCertDir != "" && !o.MetricsSecure:
		return errors.New("--metrics-cert-dir has no effect without --metrics-secure")
	case o.logging.vmodule != "" && o.logging.format != textFormat:
		return fmt.Errorf("--vmodule has no effect with --log-format=%s", o.logging.format)
	case !(o.KubeAPIQPS < 0 || o.KubeAPIQPS > 0): // 0 would be the client's default of 5, and NaN nothing at all
		return fmt.Errorf("--kube-api-qps must be greater than 0, or negative for no limit, not %v", o.KubeAPIQPS)
	case o.RenewDeadline <= o.RetryPeriod*6/5: // client-go adds a fifth to the period at random
		return fmt.Errorf("--leader-elect-renew-deadline must be longer than 1.2 times --leader-elect-retry-period: %s, %s", o.RenewDeadline, o.RetryPeriod)
	case o.LeaseDuration <= o.RenewDeadline:
		return fmt.Errorf("--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline: %s, %s", o.LeaseDuration, o.RenewDeadline)
	}
	return cmp.Or(checkCertificate(o.MetricsCertDir), o.tracing.validate())
}

// checkCertificate checks that a folder, if it is set, has a certificate. Without one controller-runtime would make one
// itself, without a word.
func checkCertificate(folder string) error {
	if folder == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")); err != nil {
		return fmt.Errorf("--metrics-cert-dir must be a folder with tls.crt and tls.key, not %q: %w", folder, err)
	}
	return nil
}
