// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover.io/test/framework"
	"drover.io/test/workflow"
)

var seed = flag.Uint64("seed", 1, "seed of the writes at which the manager is killed")

// runTimeout bounds a run, and restartTime is added for each crash; neither measures how
// long it takes.
const (
	runTimeout  = 10 * time.Minute
	restartTime = 10 * time.Second
)

// defaultCrashes is how many crash points are tried unless DROVER_CRASHES is set: a number,
// or all.
const defaultCrashes = 4

// TestCrash runs once without a crash, then once for each crash point, and at last with one crash
// after another. The outcome must always be the same.
func TestCrash(t *testing.T) {
	w := start(t)
	var want *outcome
	var writes []string
	if !t.Run("without a crash", func(t *testing.T) {
		var killed []crashPoint
		want, writes, killed = w.run(t, nil, nil)
		if len(writes) == 0 || len(killed) > 0 || want.Machines != 2*replicas || want.Hosts != 2*replicas {
			t.Fatalf("%d writes, %d Machines and %d hosts, want some, and %d of each", len(writes), want.Machines, want.Hosts, 2*replicas)
		}
		t.Logf("the manager writes %d times", len(writes))
	}) {
		return
	}
	for _, at := range crashPoints(t, len(writes)) {
		t.Run(at.String(), func(t *testing.T) {
			t.Logf("without a crash it is %s", writes[at.write-1])
			w.runWithCrashes(t, want, []crashPoint{at})
		})
	}
	t.Run("again and again", func(t *testing.T) {
		if w.runWithCrashes(t, want, repeatedCrashes(t, len(writes))) < 2 {
			t.Error("it was not killed again")
		}
	})
}

// crashPoints picks those that are tried.
func crashPoints(t *testing.T, writes int) []crashPoint {
	t.Helper()
	var all []crashPoint
	for write := 1; write <= writes; write++ {
		all = append(all, crashPoint{write, false}, crashPoint{write, true})
	}
	requests := os.Getenv("DROVER_CRASHES")
	if requests == "all" {
		return all
	}
	number := defaultCrashes
	if requests != "" {
		var err error
		if number, err = strconv.Atoi(requests); err != nil {
			t.Fatalf("DROVER_CRASHES is a number or all: %v", err)
		}
	}
	rand.New(rand.NewPCG(*seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(number, len(all))]
}

// repeatedCrashes kills the manager at every write with DROVER_CRASHES=all, so that it never runs
// longer than one, and at every tenth otherwise: before the first of them, after the next.
func repeatedCrashes(t *testing.T, writes int) []crashPoint {
	t.Helper()
	step := 10
	if os.Getenv("DROVER_CRASHES") == "all" {
		step = 1
	}
	var due []crashPoint
	for i, write := 0, step; write <= 4*writes; i, write = i+1, write+step {
		due = append(due, crashPoint{write, i%2 == 1})
	}
	return due
}

// environment is what all runs share.
type environment struct {
	stack        *framework.Stack
	killer       *killer
	work, manage *writeProxy
	runs         int
}

func start(t *testing.T) *environment {
	t.Helper()
	w := &environment{killer: &killer{}}
	ctx, cancel := context.WithTimeout(t.Context(), runTimeout)
	defer cancel()
	var err error
	w.stack, err = framework.Start(ctx, framework.Options{Prepare: func(_ context.Context, s *framework.Stack) error {
		var errs [2]error
		w.manage, errs[0] = newWriteProxy(s.Management, w.killer)
		w.work, errs[1] = newWriteProxy(s.Workload, w.killer)
		if err := errors.Join(errs[:]...); err != nil {
			return err
		}
		s.APIServerURLs = map[string]string{"machine-controller": w.manage.URL}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, m := range w.stack.Managers() {
				t.Log(m.Tail())
			}
		}
		if err := errors.Join(w.manage.close(), w.work.close(), w.stack.Stop()); err != nil {
			t.Error(err)
		}
	})
	w.killer.manager = w.stack.Managers()[slices.IndexFunc(w.stack.Managers(), func(m *framework.Manager) bool { return m.Name == "machine-controller" })]
	w.killer.manager.AllowExit(true)
	return w
}

// run runs the workflow with the crashes that are due; its writes may be fewer than those of
// the run in which they were counted.
func (w *environment) run(t *testing.T, due []crashPoint, want *outcome) (*outcome, []string, []crashPoint) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runTimeout+time.Duration(len(due))*restartTime)
	defer cancel()
	w.runs++
	name := fmt.Sprintf("life-%d", w.runs)
	w.killer.reset(due)
	got, err := runWorkflow(ctx, &workflow.Workflow{Stack: w.stack, Namespace: name, Cluster: name, Server: w.work.URL}, want)
	writes, killed, lost := w.killer.report()
	w.killer.reset(nil)
	if err := errors.Join(err, lost); err != nil {
		t.Fatalf("killed %v: %v", killed, err)
	}
	return got, writes, killed
}

// runWithCrashes runs the workflow with crashes, compares the result, and returns the number of crashes.
func (w *environment) runWithCrashes(t *testing.T, want *outcome, due []crashPoint) int {
	t.Helper()
	got, writes, killed := w.run(t, due, want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after dying %v (-want +got):\n%s", killed, diff)
	}
	t.Logf("died %d times in %d writes", len(killed), len(writes))
	return len(killed)
}
