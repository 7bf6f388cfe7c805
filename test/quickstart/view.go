// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"drover.io/test/workflow"
)

// refresh is how often the machines are drawn.
const refresh = 250 * time.Millisecond

// view shows what happens: on a terminal a table of machines that redraws in place, and
// elsewhere a line for every change.
type view struct {
	out      *os.File
	terminal bool
	began    time.Time

	mu    sync.Mutex
	drawn int // lines of the table that stand on the terminal
	last  map[string]string
}

func newView(out *os.File) *view {
	return &view{out: out, terminal: term.IsTerminal(int(out.Fd())), began: time.Now(), last: map[string]string{}}
}

// printStep prints a step of the workflow, above the table.
func (v *view) printStep(step string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drawn = 0
	fmt.Fprintf(v.out, "%6.1fs  %s\n", time.Since(v.began).Seconds(), step)
}

// showWhile shows the machines while do runs.
func (v *view) showWhile(ctx context.Context, demo *workflow.Workflow, do func(context.Context) error) error {
	drawing, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(refresh)
		defer ticker.Stop()
		for {
			select {
			case <-drawing.Done():
				return
			case <-ticker.C:
				if machines, err := demo.Machines(drawing); err == nil {
					v.draw(machines)
				}
			}
		}
	})
	err := do(ctx)
	cancel()
	group.Wait()
	return err
}

func (v *view) draw(machines []clusterv1.Machine) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.terminal {
		v.redraw(machines)
		return
	}
	present := map[string]bool{}
	for i := range machines {
		name, line := machines[i].Name, describe(&machines[i])
		present[name] = true
		if v.last[name] != line {
			fmt.Fprintf(v.out, "%6.1fs    %-32s %s\n", time.Since(v.began).Seconds(), name, line)
		}
		v.last[name] = line
	}
	for name := range v.last {
		if !present[name] {
			fmt.Fprintf(v.out, "%6.1fs    %-32s gone\n", time.Since(v.began).Seconds(), name)
			delete(v.last, name)
		}
	}
}

// redraw replaces the table on the terminal.
func (v *view) redraw(machines []clusterv1.Machine) {
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", v.drawn)
	}
	for i := range machines {
		fmt.Fprintf(&b, "         %-32s %s\n", machines[i].Name, describe(&machines[i]))
	}
	v.drawn = len(machines)
	fmt.Fprint(v.out, b.String())
}

// describe is a machine in one line: phase, Node, and whether it is ready and up to date.
func describe(m *clusterv1.Machine) string {
	phase := m.Status.Phase
	switch {
	case m.DeletionTimestamp != nil:
		phase = string(clusterv1.MachinePhaseDeleting)
	case phase == "":
		phase = string(clusterv1.MachinePhasePending)
	}
	words := []string{fmt.Sprintf("%-12s", phase)}
	if m.Status.NodeRef.Name != "" {
		words = append(words, "node "+m.Status.NodeRef.Name)
	}
	if conditions.IsTrue(m, clusterv1.MachineReadyCondition) {
		words = append(words, "ready")
	}
	if conditions.IsFalse(m, clusterv1.MachineUpToDateCondition) {
		words = append(words, "outdated")
	}
	if conditions.IsTrue(m, clusterv1.MachineDeletingCondition) {
		words = append(words, conditions.GetReason(m, clusterv1.MachineDeletingCondition))
	}
	return strings.TrimSpace(strings.Join(words, "  "))
}
