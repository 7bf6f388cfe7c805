// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package logtest records log lines for the tests of controllers: at level 0 one line for each change of an object, such as
// `evicted Pod Node=n Pod=ns/p`. Only tests use it.
package logtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Recorder records log lines. The zero value is ready to use, by any number of goroutines.
type Recorder struct {
	// Verbosity is the highest level that is recorded.
	Verbosity int

	mu    sync.Mutex
	lines []string
}

// Logger returns a logger whose lines are recorded, with their keys in the order in which they were added.
func (r *Recorder) Logger() logr.Logger { return logr.New(sink{recorder: r}) }

// Context returns a context with the logger.
func (r *Recorder) Context(ctx context.Context) context.Context {
	return ctrl.LoggerInto(ctx, r.Logger())
}

// Lines returns the recorded lines that contain the text, in order.
func (r *Recorder) Lines(containing string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.lines), func(line string) bool { return !strings.Contains(line, containing) })
}

// Take returns the lines since the last call, sorted, since some are logged in parallel.
func (r *Recorder) Take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.lines
	r.lines = nil
	slices.Sort(taken)
	return taken
}

type sink struct {
	recorder *Recorder
	values   string
}

func (s sink) Init(logr.RuntimeInfo) {}

func (s sink) Enabled(level int) bool { return level <= s.recorder.Verbosity }

func (s sink) Info(_ int, message string, values ...any) {
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	s.recorder.lines = append(s.recorder.lines, message+s.values+text(values))
}

func (s sink) Error(err error, message string, values ...any) {
	s.Info(0, "error: "+message, append(values, "err", err)...)
}

func (s sink) WithValues(values ...any) logr.LogSink {
	return sink{s.recorder, s.values + text(values)}
}

func (s sink) WithName(string) logr.LogSink { return s }

func text(values []any) string {
	var b strings.Builder
	for i := 0; i+1 < len(values); i += 2 {
		fmt.Fprintf(&b, " %v=%v", values[i], values[i+1])
	}
	return b.String()
}
