// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package manager is what the programs of all managers have in common: flags and their checks, the log, leader election,
// metrics, probes and the exit status. What a manager reconciles is its own.
package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"drover.io/runtime/httplimit"
	"drover.io/runtime/metric"
)

// metricsCommand is the argument with which every program writes what metrics it has, and ends.
const metricsCommand = "metrics"

// Main runs a program until it ends by itself or by SIGTERM or SIGINT, and ends the process: with status 0,
// or with 1 after an error, which it prints on one line after the name of the program, or a [LinesError] on its lines.
func Main(program string, run func(ctx context.Context, args []string) error) {
	if slices.Equal(os.Args[1:], []string{metricsCommand}) {
		os.Exit(status(os.Stderr, program, metric.WriteReference(os.Stdout)))
	}
	limitMemory(memlimit.FromCgroup)
	os.Exit(status(os.Stderr, program, run(ctrl.SetupSignalHandler(), os.Args[1:])))
}

func status(stderr io.Writer, program string, err error) int {
	if err == nil || errors.Is(err, ErrDone) {
		return 0
	}
	message := strings.ReplaceAll(err.Error(), "\n", "; ")
	if lines, ok := errors.AsType[LinesError](err); ok {
		message = strings.ReplaceAll(lines.Error(), "\n", "\n"+program+": ")
	}
	fmt.Fprintf(stderr, "%s: %s\n", program, message)
	return 1
}

// LinesError is an error of which each line is a problem of its own, and is printed as a line.
type LinesError struct{ Err error }

func (e LinesError) Error() string { return e.Err.Error() }
func (e LinesError) Unwrap() error { return e.Err }

// limitMemory has the garbage collector keep the heap below nine tenths of the container's memory limit. The rest is for
// what it does not count. The environment variable GOMEMLIMIT takes precedence. Without a limit, or where it cannot be
// read, nothing changes.
func limitMemory(limit memlimit.Provider) {
	_, _ = memlimit.Set(memlimit.WithRatio(0.9), memlimit.WithProvider(limit))
}

// shutdownTimeout bounds the orderly end of a manager. The Lease is released after it, within the 10 seconds that the
// Deployments grant.
const shutdownTimeout = 8 * time.Second

// New sets up the log and returns a manager of the management cluster that the flags and the environment name. The name
// is that of its leader election Lease and its user agent. Settings have what is the program's own: its scheme, and
// what its cache and client need; the flags decide the rest. It fails where the API server does not answer soon.
func New(ctx context.Context, name string, o *Options, settings ctrl.Options) (ctrl.Manager, error) {
	config, err := o.findCluster()
	if err != nil {
		return nil, err
	}
	o.setUpLogging() // after GetConfig, which logs that this is no pod
	config.QPS, config.Burst, config.UserAgent = o.KubeAPIQPS, o.KubeAPIBurst, name
	config.Wrap(httplimit.WrapNested)
	config.WarningHandlerWithContext = log.NewKubeAPIWarningLogger(log.KubeAPIWarningLoggerOptions{Deduplicate: true})
	if err := o.checkCluster(ctx, name, config, settings.Scheme); err != nil {
		return nil, err
	}
	made, err := ctrl.NewManager(config, o.apply(name, settings))
	if err != nil {
		return nil, fmt.Errorf("making manager: %w", err)
	}
	tracer, err := o.tracing.start(ctx, name)
	if err != nil {
		return nil, err
	}
	mgr := &readyManager{Manager: made, elects: o.LeaderElect, tracer: tracer}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("controllers", mgr.check); err != nil {
		return nil, fmt.Errorf("adding readiness check: %w", err)
	}
	setBuildInfo()
	return mgr, metric.Register(metrics.Registry)
}

// apply returns the settings with what the flags decide.
func (o *Options) apply(name string, settings ctrl.Options) ctrl.Options {
	settings.Metrics = o.metricsOptions()
	settings.HealthProbeBindAddress = o.HealthProbeBindAddress
	settings.PprofBindAddress = o.PprofBindAddress
	settings.LeaderElection = o.LeaderElect
	settings.LeaderElectionID = name
	settings.LeaderElectionNamespace = o.OwnNamespace()
	settings.LeaderElectionReleaseOnCancel = true
	settings.GracefulShutdownTimeout = new(shutdownTimeout)
	settings.LeaseDuration, settings.RenewDeadline, settings.RetryPeriod = &o.LeaseDuration, &o.RenewDeadline, &o.RetryPeriod
	if o.Namespace != "" {
		settings.Cache.DefaultNamespaces = map[string]cache.Config{o.Namespace: {}}
	}
	return settings
}

// UncachedClient returns a client that reads from the management cluster itself, with the manager's scheme and connections.
func UncachedClient(mgr ctrl.Manager) (client.Client, error) {
	return client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
}

// maxObject is how many bytes an object is read with by [BoundedReader]: more than etcd stores of one.
const maxObject = 8 << 20

// BoundedReader returns a client that reads from the management cluster itself, and JSON alone: objects without Go type. One
// that has more elements than allowed fails with an [httplimit.TooManyElementsError] before it is decoded, which takes some
// hundred bytes for each element of what tenants write.
func BoundedReader(mgr ctrl.Manager, elements int) (client.Reader, error) {
	bounded := *mgr.GetHTTPClient()
	bounded.Transport = httplimit.WrapJSON(bounded.Transport, maxObject, elements)
	return client.New(mgr.GetConfig(), client.Options{HTTPClient: &bounded, Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
}

// podNamespace is where a pod finds the name of its own namespace.
const podNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// OwnNamespace is where the manager keeps Leases: the one of --leader-election-namespace, that of the pod, or, outside of
// a pod, kube-system, which always exists.
func (o *Options) OwnNamespace() string {
	if o.LeaderElectionNamespace != "" {
		return o.LeaderElectionNamespace
	}
	if own, err := os.ReadFile(podNamespace); err == nil {
		return strings.TrimSpace(string(own))
	}
	return metav1.NamespaceSystem
}

// Identity is a name for this process as the holder of a Lease, which no other process has.
func Identity() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("reading the host name: %w", err)
	}
	return host + "_" + string(uuid.NewUUID()), nil
}
