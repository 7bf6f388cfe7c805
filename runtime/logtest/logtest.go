// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package logtest records the log lines of what a test runs. Only tests use it.
package logtest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// lines are what was recorded.
type lines struct {
	mu    sync.Mutex
	lines []string
}

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

// Lines returns the recorded lines that contain a text, in order.
func (l *lines) Lines(containing string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.lines), func(line string) bool { return !strings.Contains(line, containing) })
}

// Take returns the lines since the last call, in order.
func (l *lines) Take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.lines
	l.lines = nil
	return taken
}

// Recorder records log lines, each as `"level"=0 "msg"="created Machine" "Machine"={"name"="m" "namespace"="n"}`. The
// zero value records level 0. Any number of goroutines may use it.
type Recorder struct {
	// Verbosity is the highest level that is recorded.
	Verbosity int

	lines
}

// Logger returns a logger whose lines are recorded.
func (r *Recorder) Logger() logr.Logger {
	return funcr.New(func(prefix, args string) { r.add(strings.TrimSpace(prefix + " " + args)) }, funcr.Options{Verbosity: r.Verbosity})
}

// Context returns a context with the logger.
func (r *Recorder) Context(ctx context.Context) context.Context {
	return ctrl.LoggerInto(ctx, r.Logger())
}
