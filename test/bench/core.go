// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"slices"

	"drover.io/test/bench/audit"
	"drover.io/test/bench/fakeinfra"
	"drover.io/test/controlplane"
	"drover.io/test/framework"
	"drover.io/test/interop/peer"
)

// coreUser is whom the core is in workload clusters.
const coreUser = "bench-core"

// core is a core that is measured.
type core struct {
	name string
	// manager and account are the core's process and user.
	manager, account string
	// upstream is true for upstream's core; newestOnly leaves out the kinds' older versions and with
	// them the conversions that cost upstream time.
	upstream, newestOnly bool
	// args are further arguments.
	args []string
}

// cores are all that there are. Upstream without conversions is the one to be judged by.
func cores() []core {
	const upstream = "system:serviceaccount:capi-system:capi-manager"
	return []core{
		{name: "drover", manager: "machine-controller", account: "system:serviceaccount:drover-system:drover-machine-controller"},
		{name: "upstream", manager: peer.Core, account: upstream, upstream: true, newestOnly: true},
		{name: "upstream-shipped", manager: peer.Core, account: upstream, upstream: true},
	}
}

func choose(names, args []string) ([]core, error) {
	var chosen []core
	for _, each := range cores() {
		if slices.Contains(names, each.name) {
			each.args = args
			chosen = append(chosen, each)
		}
	}
	if len(chosen) != len(names) {
		return nil, fmt.Errorf("--cores: some of %q are none of drover, upstream, upstream-shipped", names)
	}
	return chosen, nil
}

// start starts a management and a workload cluster with the core in between, and our other managers
// where the scenario is a full one. The core serves its metrics on the port.
func (c core) start(ctx context.Context, peers *peer.Peers, full bool, port int) (*framework.Stack, error) {
	options := framework.Options{
		ControlPlane: record,
		Args:         map[string][]string{c.manager: append(c.args, fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", port))},
	}
	if !full {
		options.Without = []string{"bootstrap", "infra-sim"}
	}
	if c.upstream {
		options.Without = append(options.Without, c.manager, "machine-controller")
	}
	options.Prepare = func(ctx context.Context, stack *framework.Stack) error {
		if c.upstream {
			of := *peers
			of.NewestOnly = c.newestOnly
			if err := of.Launch(ctx, stack, c.manager, append(c.args, fmt.Sprintf("--diagnostics-address=127.0.0.1:%d", port))...); err != nil {
				return err
			}
		}
		return framework.Apply(ctx, stack.ManagementClient, fakeinfra.Kinds)
	}
	return framework.Start(ctx, options)
}

// record makes both clusters log the managers' requests, and prevents the workload cluster's controllers
// from marking Nodes without heartbeats as unreachable.
func record(options *controlplane.Options) {
	if options.Name == "management" {
		options.AuditPolicy = audit.Policy("userGroups", "system:serviceaccounts:drover-system", "system:serviceaccounts:capi-system")
		return
	}
	options.AuditPolicy = audit.Policy("users", coreUser)
	options.ControllerManagerArgs = []string{"--controllers=*,-node-lifecycle-controller"}
}

// freePort returns a free port on loopback.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close() //nolint:errcheck // awaitNothingLeft was accepted
	return listener.Addr().(*net.TCPAddr).Port, nil
}
