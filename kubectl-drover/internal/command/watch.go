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
		observe, err := s.observer(reader, kind, key)
		if err != nil {
			return err
		}
		ctx, cancel := withTimeout(cmd.Context(), timeout)
		defer cancel()
		return s.watch(ctx, observe)
	}
	return cmd
}

// observation is the state of an object in one line, and whether the watch ends.
type observation struct {
	line         string
	done, failed bool
}

// observer returns the function that observes an object.
func (s *session) observer(reader *object.Reader, kind object.Kind, key client.ObjectKey) (func(context.Context) (observation, error), error) {
	switch kind.GroupKind() {
	case object.MachineDeployment.GroupKind():
		estimator := &rollout.Estimator{}
		return func(ctx context.Context) (observation, error) {
			md := &clusterv1.MachineDeployment{}
			if err := reader.Get(ctx, kind, key, md); err != nil {
				return observation{}, err
			}
			state := rollout.StateOf(md)
			line := state.Text
			if left := estimator.EstimateRemaining(md, s.env.Now()); left != "" && !state.Complete {
				line = left + ": " + line
			}
			return observation{line, state.Complete, state.Failed}, nil
		}, nil
	case object.Machine.GroupKind():
		seen := false
		return func(ctx context.Context) (observation, error) {
			m := &clusterv1.Machine{}
			err := reader.Get(ctx, kind, key, m)
			if object.IsNotFound(err) && seen {
				return observation{line: fmt.Sprintf("Machine %s is gone", key.Name), done: true}, nil
			}
			seen = err == nil
			return observeMachine(m), err
		}, nil
	}
	return nil, fmt.Errorf("%s cannot be watched: name a machinedeployment or a machine", kind.Title())
}

func observeMachine(m *clusterv1.Machine) observation {
	found := why.Problem(m)
	if found == nil {
		return observation{line: fmt.Sprintf("Machine %s is well", m.Name), done: m.DeletionTimestamp.IsZero()}
	}
	text := escape.Line(found.Condition.Message)
	if text == "" {
		text = found.Meaning
	}
	return observation{line: fmt.Sprintf("Machine %s, %s: %s", m.Name, m.Status.Phase, text)}
}

// watch prints what is seen whenever it changes.
func (s *session) watch(ctx context.Context, observe func(context.Context) (observation, error)) error {
	show := s.display()
	last := ""
	for {
		seen, err := observe(ctx)
		switch {
		case err != nil && !timeIsOver(ctx):
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
			return errProblemFound
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
		text := escape.Line(line)
		if last {
			text += "\n"
		} else {
			text = shortened(text, width(out))
		}
		// Back to the begin of the line, and clear it; the text itself has no control characters.
		fmt.Fprint(out, "\r\x1b[K"+text)
	}
}

// width is how many characters a line of a terminal has; 0 if that is not known.
func width(out io.Writer) int {
	if size := (term.TTY{Out: out}).GetSize(); size != nil {
		return int(size.Width)
	}
	return 0
}

// shortened is a text in one line of a terminal: what continues in the next line could not be replaced.
func shortened(text string, width int) string {
	if characters := []rune(text); width > 1 && len(characters) >= width {
		return string(characters[:width-2]) + "…"
	}
	return text
}

// isTerminal reports whether a stream is one on which a line can be replaced.
func isTerminal(out io.Writer) bool { return term.TTY{Out: out}.IsTerminalOut() }
