// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package logtest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr/funcr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Lines are the recorded lines.
type Lines struct {
	mu  sync.Mutex
	all []string
}

// Into returns a context with a logger, of level 0 or of a verbosity, that records into the Lines. A line is the message
// and, after a bar, the keys and values as "key"="value".
func Into(ctx context.Context, verbosity int) (context.Context, *Lines) {
	lines := &Lines{}
	logger := funcr.New(func(_, args string) {
		lines.mu.Lock()
		defer lines.mu.Unlock()
		lines.all = append(lines.all, line(args))
	}, funcr.Options{Verbosity: verbosity})
	return ctrl.LoggerInto(ctx, logger), lines
}

// line takes a line of funcr apart: "level"=0 "msg"="text" and the pairs of the call.
func line(args string) string {
	_, args, _ = strings.Cut(args, `"msg"="`)
	message, pairs, _ := strings.Cut(args, `"`)
	if pairs = strings.TrimSpace(pairs); pairs == "" {
		return message
	}
	return message + " | " + pairs
}

// Take returns the lines since the last call, sorted, since some are logged in parallel.
func (l *Lines) Take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.all
	l.all = nil
	slices.Sort(taken)
	return taken
}
