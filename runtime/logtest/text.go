// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package logtest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// TextRecorder records log lines in short: at level 0 one line for each change of an object, such as
// `evicted Pod Node=n Pod=ns/p`. The zero value is ready to use, by any number of goroutines.
type TextRecorder struct {
	// Verbosity is the highest level that is recorded.
	Verbosity int

	lines
}

// Logger returns a logger whose lines are recorded, with their keys in the order in which they were added.
func (r *TextRecorder) Logger() logr.Logger { return logr.New(sink{recorder: r}) }

// Context returns a context with the logger.
func (r *TextRecorder) Context(ctx context.Context) context.Context {
	return ctrl.LoggerInto(ctx, r.Logger())
}

// Take returns the lines since the last call, sorted, since some are logged in parallel.
func (r *TextRecorder) Take() []string { return slices.Sorted(slices.Values(r.lines.Take())) }

type sink struct {
	recorder *TextRecorder
	values   string
}

func (s sink) Init(logr.RuntimeInfo) {}

func (s sink) Enabled(level int) bool { return level <= s.recorder.Verbosity }

func (s sink) Info(_ int, message string, values ...any) {
	s.recorder.add(message + s.values + text(values))
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
