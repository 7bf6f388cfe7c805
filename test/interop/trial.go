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

	"drover.io/test/interop/cell"
	"drover.io/test/interop/peer"
	"drover.io/test/kit"
)

// trial is something that is tried, and how it is expected to end.
type trial struct {
	name string
	cell cell.Cell
	tell func(*cell.World, context.Context) error
	// fails is a part of the reason for which it cannot work; empty where it must.
	fails string
}

// trials lists everything that is tried, cells first.
func trials() []trial {
	var all []trial
	for _, core := range []string{cell.Drover, cell.Upstream} {
		for _, infrastructure := range []string{cell.Sim, cell.InMemory} {
			for _, bootstrap := range []string{cell.Drover, cell.Kubeadm} {
				c := cell.Cell{Core: core, Infrastructure: infrastructure, Bootstrap: bootstrap}
				all = append(all, trial{name: c.Name(), cell: c, tell: (*cell.World).Tell})
			}
		}
	}
	ours := cell.Cell{Core: cell.Drover, Infrastructure: cell.Sim, Bootstrap: cell.Drover}
	return append(all,
		trial{name: "clusterctl get kubeconfig", cell: ours, tell: (*cell.World).Kubeconfig},
		trial{name: "clusterctl describe cluster", cell: ours, tell: (*cell.World).Describe},
		trial{name: "clusterctl move", cell: ours, tell: (*cell.World).Move},
	)
}

// try starts the cell, tells its story, and says in one line how it ended.
func (t trial) try(ctx context.Context, peers *peer.Peers, keep string, timeout time.Duration) (line string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := time.Now()
	err := t.run(ctx, peers, keep)
	took := time.Since(began).Round(time.Second)
	switch {
	case err == nil && t.fails == "":
		return fmt.Sprintf("pass  %s (%s)", t.name, took), true
	case err == nil:
		return fmt.Sprintf("FAIL  %s: passed, but was expected to fail with %q", t.name, t.fails), false
	case t.fails != "" && strings.Contains(err.Error(), t.fails):
		return fmt.Sprintf("no    %s: %s", t.name, t.fails), true
	}
	return fmt.Sprintf("FAIL  %s: %v", t.name, err), false
}

func (t trial) run(ctx context.Context, peers *peer.Peers, keep string) error {
	options := kit.Options{Dir: keep}
	if keep != "" {
		options.Dir = filepath.Join(keep, strings.NewReplacer(" ", "-", ",", "").Replace(t.name))
		if err := os.MkdirAll(options.Dir, 0o700); err != nil {
			return err
		}
	}
	w, err := cell.Start(ctx, peers, t.cell, options)
	if err != nil {
		return err
	}
	defer w.Stack.Stop() //nolint:errcheck // the story has been told
	return t.tell(w, ctx)
}
