// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"
	"k8s.io/kubectl/pkg/util/term"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/kubectl-drover/internal/escape"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/kubectl-drover/internal/rollout"
	"drover.io/kubectl-drover/internal/why"
)

func newWatch(s *session) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "watch machinedeployment|machine NAME",
		Short: "The progress of a rollout, or of a machine that joins or is deleted",
		Long: templates.LongDesc(`
			Follows a MachineDeployment until it is rolled out, or a Machine until it is well or gone. On a terminal the state is
			one line that is replaced; elsewhere, one line for each change. For a rollout the line has an estimate of the time
			that is left, from the pace since the command began.

			The exit code is 0 at the end, and 1 if a rollout has made no progress for too long, or --timeout is over.`),
		ValidArgsFunction: completion.SpecifiedResourceTypeAndNameCompletionFunc(s.factory, []string{"machinedeployment", "machine"}),
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "How long to watch; 0 is as long as it takes.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		reader, kind, key, err := s.subject(args, "machinedeployment")
		if err != nil {
			return err
		}
		look, err := s.looker(reader, kind, key)
		if err != nil {
			return err
		}
		ctx, cancel := withTimeout(cmd.Context(), timeout)
		defer cancel()
		return s.watch(ctx, look)
	}
	return cmd
}

// looked is the state of an object in one line, and whether the watch ends.
type looked struct {
	line         string
	done, failed bool
}

// looker returns the function that looks at an object.
func (s *session) looker(reader *object.Reader, kind object.Kind, key client.ObjectKey) (func(context.Context) (looked, error), error) {
	switch kind.Kind {
	case object.MachineDeployment.Kind:
		estimator := &rollout.Estimator{}
		return func(ctx context.Context) (looked, error) {
			md := &clusterv1.MachineDeployment{}
			if err := reader.Get(ctx, kind, key, md); err != nil {
				return looked{}, err
			}
			state := rollout.StateOf(md)
			line := state.Text
			if left := estimator.Observe(md, s.env.Now()); left != "" && !state.Complete {
				line = left + ": " + line
			}
			return looked{line, state.Complete, state.Failed}, nil
		}, nil
	case object.Machine.Kind:
		seen := false
		return func(ctx context.Context) (looked, error) {
			m := &clusterv1.Machine{}
			err := reader.Get(ctx, kind, key, m)
			if object.IsNotFound(err) && seen {
				return looked{line: fmt.Sprintf("Machine %s is gone", key.Name), done: true}, nil
			}
			seen = err == nil
			return lookAt(m), err
		}, nil
	}
	return nil, fmt.Errorf("%s cannot be watched: name a machinedeployment or a machine", kind.Kind)
}

func lookAt(m *clusterv1.Machine) looked {
	found := why.Problem(m)
	if found == nil {
		return looked{line: fmt.Sprintf("Machine %s is well", m.Name), done: m.DeletionTimestamp.IsZero()}
	}
	text := escape.Line(found.Condition.Message)
	if text == "" {
		text = found.Meaning
	}
	return looked{line: fmt.Sprintf("Machine %s, %s: %s", m.Name, m.Status.Phase, text)}
}

// watch prints what is seen whenever it changes.
func (s *session) watch(ctx context.Context, look func(context.Context) (looked, error)) error {
	show := s.display()
	last := ""
	for {
		seen, err := look(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			show("", true)
			return err
		case err == nil && seen.line != last:
			show(seen.line, seen.done || seen.failed)
			last = seen.line
		}
		if err == nil && (seen.done || seen.failed) {
			return notWell(nil, seen.failed)
		}
		select {
		case <-ctx.Done():
			show("Gave up waiting", true)
			return errNotWell
		case <-time.After(pollPeriod):
		}
	}
}

// display returns the function that shows a line: in the place of the one before on a terminal, else below it.
func (s *session) display() func(line string, last bool) {
	if !s.terminal {
		return func(line string, _ bool) {
			if line != "" {
				fmt.Fprintln(s.env.Streams.Out, line)
			}
		}
	}
	out := s.raw
	return func(line string, last bool) {
		end := ""
		if last {
			end = "\n"
		}
		// Back to the begin of the line, and clear it; the text itself has no control characters.
		fmt.Fprintf(out, "\r\x1b[K%s%s", escape.Line(line), end)
	}
}

// isTerminal reports whether a stream is one on which a line can be replaced.
func isTerminal(out io.Writer) bool { return term.TTY{Out: out}.IsTerminalOut() }
