// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"drover.io/test/framework"
	"drover.io/test/interop/cell"
	"drover.io/test/interop/peer"
)

// noKubelet is the message of a simulated host with kubeadm's data: it boots from its data
// alone, and kubeadm's data counts on an image with a kubelet, its unit and kubeadm in it.
const noKubelet = "kubelet does not start: there is no unit"

// combination is something that is tried, and how it is expected to end.
type combination struct {
	name  string
	cell  cell.Cell
	steps func(*cell.Environment, context.Context) error
}

// runOptions are the options of a run.
type runOptions struct {
	// keep is the folder for logs and kubeconfigs, if they are to be kept.
	keep    string
	timeout time.Duration
}

// combinations lists everything that is tried, cells first.
func combinations() []combination {
	var all []combination
	for _, core := range []string{cell.Drover, cell.Upstream} {
		for _, infrastructure := range []string{cell.Sim, cell.InMemory} {
			for _, bootstrap := range []string{cell.Drover, cell.Kubeadm} {
				c := cell.Cell{Core: core, Infrastructure: infrastructure, Bootstrap: bootstrap}
				if infrastructure == cell.Sim && bootstrap == cell.Kubeadm {
					c.Hopeless = noKubelet
				}
				all = append(all, combination{name: c.Name(), cell: c, steps: (*cell.Environment).Run})
			}
		}
	}
	ours := cell.Cell{Core: cell.Drover, Infrastructure: cell.Sim, Bootstrap: cell.Drover}
	return append(all,
		combination{name: "clusterctl get kubeconfig", cell: ours, steps: (*cell.Environment).Kubeconfig},
		combination{name: "clusterctl describe cluster", cell: ours, steps: (*cell.Environment).Describe},
		combination{name: "clusterctl move", cell: ours, steps: (*cell.Environment).Move},
		combination{
			name: "from upstream's core to Drover's and back", steps: (*cell.Environment).Switch,
			cell: cell.Cell{Core: cell.Upstream, Infrastructure: cell.Sim, Bootstrap: cell.Drover},
		},
	)
}

// runReported runs the workflow with a cell and prints the result in one line.
func (t combination) runReported(ctx context.Context, peers *peer.Peers, how runOptions) (line string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, how.timeout)
	defer cancel()
	began := time.Now()
	err := t.run(ctx, peers, how)
	took := time.Since(began).Round(time.Second)
	switch {
	case err == nil && t.cell.Hopeless == "":
		return fmt.Sprintf("pass  %s (%s)", t.name, took), true
	case err == nil:
		return fmt.Sprintf("FAIL  %s: passed, but was expected to fail with %q", t.name, t.cell.Hopeless), false
	case t.cell.Hopeless != "" && strings.Contains(err.Error(), t.cell.Hopeless):
		return fmt.Sprintf("no    %s: %s", t.name, t.cell.Hopeless), true
	}
	return fmt.Sprintf("FAIL  %s: %v", t.name, err), false
}

func (t combination) run(ctx context.Context, peers *peer.Peers, how runOptions) error {
	options := framework.Options{Dir: how.keep}
	if how.keep != "" {
		options.Dir = filepath.Join(how.keep, strings.NewReplacer(" ", "-", ",", "").Replace(t.name))
		if err := os.MkdirAll(options.Dir, 0o700); err != nil {
			return err
		}
	}
	w, err := cell.Start(ctx, peers, t.cell, options)
	if err != nil {
		return err
	}
	defer w.Stack.Stop() //nolint:errcheck // the result of the workflow is what counts
	return t.steps(w, ctx)
}
