// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command bootstrap is the manager of BootstrapConfigs: it renders them as user data and renews the bootstrap tokens of
// machines that have not joined yet. It connects to the management cluster, and to the workload cluster of each Cluster
// with the kubeconfig in the Secret of that Cluster.
//
// With the argument merge it writes what BootstrapConfigs in files become with their NodeProfiles, and connects to nothing.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"drover.io/bootstrap/internal/bootstrapconfig"
	"drover.io/bootstrap/internal/checksum"
	"drover.io/bootstrap/internal/csrapproval"
	"drover.io/bootstrap/internal/token"
	"drover.io/bootstrap/internal/workload"
	"drover.io/runtime/claim"
	"drover.io/runtime/manager"
	"drover.io/runtime/predicates"
)

// name is that of the manager's Lease, its events and its user agent.
const name = "drover-bootstrap"

func main() { manager.Main("bootstrap", run) }

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == mergeCommand {
		return merge(args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
	}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		return fmt.Errorf("there is no command %q: there is merge, which shows what BootstrapConfigs become; without a command, and with flags only, the manager is started", args[0])
	}
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	mgr, err := newManager(ctx, o)
	if err != nil {
		return err
	}
	connections := workload.NewConnections(mgr.GetAPIReader(), clock.RealClock{})
	connections.AllowProxy = o.allowProxy
	claims := &claim.Reader{Management: mgr.GetAPIReader(), Namespace: o.OwnNamespace()}
	recorder := mgr.GetEventRecorder(name)
	reconciler := &bootstrapconfig.Reconciler{
		Client:       mgr.GetClient(),
		Live:         mgr.GetAPIReader(),
		Connections:  connections,
		Claims:       claims,
		Events:       recorder,
		Clock:        clock.RealClock{},
		NewToken:     token.New,
		ReadChecksum: checksum.Read,
		Watch:        predicates.WatchFilter(o.WatchFilter),
		Workers:      o.WorkerCount,
		Tracer:       manager.Tracer(mgr),
	}
	if err := reconciler.Register(mgr); err != nil {
		return fmt.Errorf("registering controller: %w", err)
	}
	counter := &bootstrapconfig.Counter{Reader: mgr.GetClient(), Leading: mgr.Elected(), Watch: predicates.WatchFilter(o.WatchFilter)}
	if err := metrics.Registry.Register(counter); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	if o.approve {
		approver := &csrapproval.Reconciler{
			Client: mgr.GetClient(), Connections: connections, Events: recorder, Watch: predicates.WatchFilter(o.WatchFilter), Live: mgr.GetAPIReader(), Resolve: net.DefaultResolver.LookupHost,
			TrustReported: o.trustReported, Claims: claims, Tracer: manager.Tracer(mgr),
		}
		if err := approver.Register(mgr); err != nil {
			return fmt.Errorf("registering approver: %w", err)
		}
	}
	return mgr.Start(ctx)
}
