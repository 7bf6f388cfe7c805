// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Command bootstrap is the manager of BootstrapConfigs: it turns them into user data and keeps the bootstrap
// tokens of machines that have not joined yet. It talks to the management cluster it runs against, and to the
// workload cluster of each Cluster with the kubeconfig in that Cluster's Secret.
package main

import (
	"fmt"
	"os"

	"k8s.io/klog/v2/textlogger"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"drover.io/bootstrap/internal/bootstrapconfig"
	"drover.io/bootstrap/internal/csrapproval"
	"drover.io/bootstrap/internal/token"
	"drover.io/bootstrap/internal/workload"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bootstrap:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	ctrl.SetLogger(textlogger.NewLogger(o.log))
	rest, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the management cluster: %w", err)
	}
	rest.QPS, rest.Burst, rest.UserAgent = 100, 200, "drover-bootstrap"
	rest.WarningHandlerWithContext = log.NewKubeAPIWarningLogger(log.KubeAPIWarningLoggerOptions{Deduplicate: true})
	mgr, err := newManager(rest, o)
	if err != nil {
		return err
	}
	connections := workload.NewConnections(mgr.GetAPIReader(), clock.RealClock{})
	recorder := mgr.GetEventRecorder("drover-bootstrap")
	reconciler := &bootstrapconfig.Reconciler{
		Client:      mgr.GetClient(),
		Live:        mgr.GetAPIReader(),
		Connections: connections,
		Recorder:    recorder,
		Clock:       clock.RealClock{},
		NewToken:    token.New,
		Filter:      o.filter(),
		Workers:     o.workers,
	}
	if err := reconciler.Register(mgr); err != nil {
		return fmt.Errorf("registering controller: %w", err)
	}
	if o.approve {
		approver := &csrapproval.Reconciler{Client: mgr.GetClient(), Connections: connections, Recorder: recorder, Filter: o.filter()}
		if err := approver.Register(mgr); err != nil {
			return fmt.Errorf("registering approver: %w", err)
		}
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
