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

	"drover.io/test/kit"
	"drover.io/test/workflow"
)

var seed = flag.Uint64("seed", 1, "seed of the moments at which the manager dies")

// lifeTime bounds a life, and restart what each death adds to it; neither is a measure of how
// long it takes.
const (
	lifeTime = 5 * time.Minute
	restart  = 10 * time.Second
)

// usual is how many of the moments are tried unless DROVER_CRASHES says otherwise: a number,
// or all.
const usual = 4

// TestCrash lives once without a crash, then once for each moment, and at last with one crash
// after another. The outcome must always be the same.
func TestCrash(t *testing.T) {
	w := begin(t)
	var want *outcome
	var writes []string
	if !t.Run("without a crash", func(t *testing.T) {
		var killed []moment
		want, writes, killed = w.live(t, nil, nil)
		if len(writes) == 0 || len(killed) > 0 || want.Machines != 2*replicas || want.Hosts != 2*replicas {
			t.Fatalf("%d writes, %d Machines and %d hosts, want some, and %d of each", len(writes), want.Machines, want.Hosts, 2*replicas)
		}
		t.Logf("the manager writes %d times", len(writes))
	}) {
		return
	}
	for _, at := range moments(t, len(writes)) {
		t.Run(at.String(), func(t *testing.T) {
			t.Logf("without a crash it is %s", writes[at.write-1])
			w.dies(t, want, []moment{at})
		})
	}
	t.Run("again and again", func(t *testing.T) {
		if w.dies(t, want, often(t, len(writes))) < 2 {
			t.Error("it was not killed again")
		}
	})
}

// moments picks those that are tried.
func moments(t *testing.T, writes int) []moment {
	t.Helper()
	var all []moment
	for write := 1; write <= writes; write++ {
		all = append(all, moment{write, false}, moment{write, true})
	}
	asked := os.Getenv("DROVER_CRASHES")
	if asked == "all" {
		return all
	}
	number := usual
	if asked != "" {
		var err error
		if number, err = strconv.Atoi(asked); err != nil {
			t.Fatalf("DROVER_CRASHES is a number or all: %v", err)
		}
	}
	rand.New(rand.NewPCG(*seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(number, len(all))]
}

// often kills the manager at every write when all are asked for, so that it never lives
// longer than one, and at every tenth otherwise: before the first of them, after the next.
func often(t *testing.T, writes int) []moment {
	t.Helper()
	step := 10
	if os.Getenv("DROVER_CRASHES") == "all" {
		step = 1
	}
	var due []moment
	for i, write := 0, step; write <= 4*writes; i, write = i+1, write+step {
		due = append(due, moment{write, i%2 == 1})
	}
	return due
}

// world is what all lives share.
type world struct {
	stack        *kit.Stack
	reaper       *reaper
	work, manage *gate
	lives        int
}

func begin(t *testing.T) *world {
	t.Helper()
	w := &world{reaper: &reaper{}}
	ctx, cancel := context.WithTimeout(t.Context(), lifeTime)
	defer cancel()
	var err error
	w.stack, err = kit.Start(ctx, kit.Options{Prepare: func(_ context.Context, s *kit.Stack) error {
		var errs [2]error
		w.manage, errs[0] = newGate(s.Management, w.reaper)
		w.work, errs[1] = newGate(s.Workload, w.reaper)
		if err := errors.Join(errs[:]...); err != nil {
			return err
		}
		s.Servers = map[string]string{"machine-controller": w.manage.URL}
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
	w.reaper.victim = w.stack.Managers()[slices.IndexFunc(w.stack.Managers(), func(m *kit.Manager) bool { return m.Name == "machine-controller" })]
	w.reaper.victim.Expend(true)
	return w
}

// live lives one life with the crashes that are due; its writes may be fewer than those of
// the life in which they were counted.
func (w *world) live(t *testing.T, due []moment, want *outcome) (*outcome, []string, []moment) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lifeTime+time.Duration(len(due))*restart)
	defer cancel()
	w.lives++
	name := fmt.Sprintf("life-%d", w.lives)
	w.reaper.begin(due)
	got, err := live(ctx, &workflow.Workflow{Stack: w.stack, Namespace: name, Cluster: name, Server: w.work.URL}, want)
	writes, killed, lost := w.reaper.report()
	w.reaper.begin(nil)
	if err := errors.Join(err, lost); err != nil {
		t.Fatalf("killed %v: %v", killed, err)
	}
	return got, writes, killed
}

// dies lives one life with crashes, compares how it has ended, and says how often it died.
func (w *world) dies(t *testing.T, want *outcome, due []moment) int {
	t.Helper()
	got, writes, killed := w.live(t, due, want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after dying %v (-want +got):\n%s", killed, diff)
	}
	t.Logf("died %d times in %d writes", len(killed), len(writes))
	return len(killed)
}
