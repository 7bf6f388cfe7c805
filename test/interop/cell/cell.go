// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package cell puts a core, an infrastructure provider and a bootstrap provider together,
// each Drover's or upstream's, and runs one workflow with them: create, scale, roll, delete. It uses
// the clusters as a user would and provides what each part needs from its user; which cells
// there are, and which are expected to work, is the command's business.
package cell

import (
	"context"
	"fmt"
	"time"

	"drover.io/test/framework"
	"drover.io/test/interop/peer"
)

// The parts of a cell.
const (
	Drover   = "drover"
	Upstream = "upstream"
	Sim      = "sim"
	InMemory = "in-memory"
	Kubeadm  = "kubeadm"
)

const (
	namespace = "default"
	cluster   = "demo"
	version   = "v1.36.3"
	core      = "machine-controller"
	look      = 200 * time.Millisecond
)

// Cell is what works together.
type Cell struct {
	Core, Infrastructure, Bootstrap string
	// Hopeless is what is seen where a cell cannot work; empty where it must.
	Hopeless string
}

// Name of the cell as it is printed.
func (c Cell) Name() string {
	return fmt.Sprintf("core %s, infrastructure %s, bootstrap %s", c.Core, c.Infrastructure, c.Bootstrap)
}

// Environment is a cell that runs.
type Environment struct {
	Cell
	Stack *framework.Stack
	peers *peer.Peers
	// work reaches the workload cluster.
	work *workload
	// keep is the folder for logs and kubeconfigs; empty if they are not kept.
	keep string
}

// part is one of the three roles, and the program in it.
type part struct {
	is             bool
	ours, upstream string
}

func (c Cell) parts() []part {
	return []part{
		{c.Core == Upstream, core, peer.Core},
		{c.Bootstrap == Kubeadm, "bootstrap", peer.Kubeadm},
		{c.Infrastructure == InMemory, "infra-sim", peer.InMemory},
	}
}

// UpstreamParts names upstream's programs in the cell.
func (c Cell) UpstreamParts() []string {
	var upstream []string
	for _, part := range c.parts() {
		if part.is {
			upstream = append(upstream, part.upstream)
		}
	}
	return upstream
}

// Start starts the managers of a cell beside a management cluster.
func Start(ctx context.Context, peers *peer.Peers, c Cell, options framework.Options) (*Environment, error) {
	w := &Environment{Cell: c, peers: peers, keep: options.Dir}
	for _, part := range c.parts() {
		if part.is {
			options.Without = append(options.Without, part.ours)
		}
	}
	options.Prepare = func(ctx context.Context, stack *framework.Stack) error {
		for _, name := range c.UpstreamParts() {
			if err := peers.Launch(ctx, stack, name); err != nil {
				return err
			}
		}
		return nil
	}
	var err error
	w.Stack, err = framework.Start(ctx, options)
	return w, err
}

// Run runs the workflow. The error has the step that did not end, and what it waited for.
func (w *Environment) Run(ctx context.Context) error {
	for _, step := range []struct {
		title string
		do    func(context.Context) error
	}{
		{"create", w.create},
		{"create", w.running(2)},
		{"scale up", w.scale(3)},
		{"scale up", w.running(3)},
		{"roll", w.roll("medium")},
		{"roll", w.running(3)},
		{"scale down", w.scale(1)},
		{"scale down", w.running(1)},
		{"delete", w.deleteCluster},
		{"delete", w.awaitNothingLeft},
	} {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.title, err)
		}
	}
	return nil
}
