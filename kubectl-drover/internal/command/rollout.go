// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/kubectl-drover/internal/object"
	"drover.io/kubectl-drover/internal/rollout"
)

// previousRevision is the value of the annotation that requests a rollback for the revision before the current one.
const previousRevision = "previous"

func newRollout(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout SUBCOMMAND",
		Short: "Look at and steer the rollout of a deployment",
		Args:  subcommandOnly,
		// Without it cobra suggests nothing.
		SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	cmd.AddCommand(newRolloutStatus(s), newRolloutHistory(s), newRolloutUndo(s),
		s.newRolloutChange("restart", "Replace every Machine, as a rollout does", "sets spec.rollout.after to now", "restarts", func(md *clusterv1.MachineDeployment) (map[string]any, error) {
			if ptr.Deref(md.Spec.Paused, false) {
				return nil, fmt.Errorf("MachineDeployment %s is paused: resume it first", md.Name)
			}
			return spec("rollout", map[string]any{"after": s.env.Now().UTC().Format(time.RFC3339)}), nil
		}),
		s.newRolloutChange("pause", "Stop a rollout where it is", "sets spec.paused", "paused", func(*clusterv1.MachineDeployment) (map[string]any, error) {
			return spec("paused", true), nil
		}),
		s.newRolloutChange("resume", "Continue a paused rollout", "removes spec.paused", "resumed", func(md *clusterv1.MachineDeployment) (map[string]any, error) {
			if !ptr.Deref(md.Spec.Paused, false) {
				return nil, fmt.Errorf("MachineDeployment %s is not paused", md.Name)
			}
			return spec("paused", nil), nil
		}))
	return cmd
}

func spec(field string, value any) map[string]any {
	return map[string]any{"spec": map[string]any{field: value}}
}

// deployment reads the MachineDeployment of the arguments.
func (s *session) deployment(ctx context.Context, args []string) (*object.Reader, *clusterv1.MachineDeployment, error) {
	reader, kind, key, err := s.subject(args, "machinedeployment")
	if err != nil {
		return nil, nil, err
	}
	if !kind.Is(object.MachineDeployment) {
		return nil, nil, fmt.Errorf("%s has no rollout: name a machinedeployment", kind.Title())
	}
	md := &clusterv1.MachineDeployment{}
	return reader, md, reader.Get(ctx, object.MachineDeployment, key, md)
}

// newRolloutChange is a command that changes one field of a MachineDeployment.
func (s *session) newRolloutChange(use, short, how, done string, change func(*clusterv1.MachineDeployment) (map[string]any, error)) *cobra.Command {
	var p patcher
	cmd := &cobra.Command{
		Use: use + " machinedeployment/NAME", Short: short, Long: short + ": " + how + ".",
		ValidArgsFunction: completion.ResourceNameCompletionFunc(s.factory, "machinedeployment"),
	}
	p.addTo(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		reader, md, err := s.deployment(cmd.Context(), args)
		if err != nil {
			return err
		}
		body, err := change(md)
		if err != nil {
			return err
		}
		return s.change(cmd.Context(), p, reader, md, body, done)
	}
	return cmd
}

func (s *session) change(ctx context.Context, p patcher, reader *object.Reader, md *clusterv1.MachineDeployment, body map[string]any, done string) error {
	if err := p.patch(ctx, reader, object.MachineDeployment, md, body); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.env.Streams.Out, "MachineDeployment %s %s%s\n", md.Name, done, p.suffix())
	return err
}

func newRolloutUndo(s *session) *cobra.Command {
	var p patcher
	var revision int64
	cmd := &cobra.Command{
		Use:   "undo machinedeployment/NAME",
		Short: "Roll back to an earlier revision",
		Long: templates.LongDesc(`
			Sets the annotation drover.io/rollback-to: the template of an earlier revision is restored. Earlier revisions are kept
			only with the annotation drover.io/revision-history-limit; rollout history lists them.`),
		Example: templates.Examples(`
			kubectl drover rollout undo machinedeployment/demo-workers
			kubectl drover rollout undo machinedeployment/demo-workers --to-revision=3`),
		ValidArgsFunction: completion.ResourceNameCompletionFunc(s.factory, "machinedeployment"),
	}
	p.addTo(cmd)
	cmd.Flags().Int64Var(&revision, "to-revision", 0, "The revision to roll back to; 0 is the one before the current one.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		reader, md, err := s.deployment(cmd.Context(), args)
		if err != nil {
			return err
		}
		if revision < 0 {
			return errors.New("--to-revision must not be negative")
		}
		value := previousRevision
		if revision > 0 {
			value = strconv.FormatInt(revision, 10)
		}
		history, err := rollout.History(cmd.Context(), reader, md)
		if err != nil {
			return err
		}
		if problem := history.CannotRestore(revision); problem != "" {
			return errors.New(problem)
		}
		body := map[string]any{"metadata": map[string]any{"annotations": map[string]any{rollout.RollbackAnnotation: value}}}
		done := "rolls back to the previous revision"
		if revision > 0 {
			done = "rolls back to revision " + value
		}
		if ptr.Deref(md.Spec.Paused, false) {
			done += " once it is resumed"
		}
		return s.change(cmd.Context(), p, reader, md, body, done)
	}
	return cmd
}

func newRolloutHistory(s *session) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "history machinedeployment/NAME", Short: "The revisions that are kept",
		ValidArgsFunction: completion.ResourceNameCompletionFunc(s.factory, "machinedeployment"),
	}
	o.addTo(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		reader, md, err := s.deployment(cmd.Context(), args)
		if err != nil {
			return err
		}
		history, err := rollout.History(cmd.Context(), reader, md)
		if err != nil {
			return err
		}
		if done, err := s.structured(o, history.Revisions); err != nil || done {
			return err
		}
		_, err = fmt.Fprint(s.env.Streams.Out, history.Text(s.env.Now()))
		return err
	}
	return cmd
}

func newRolloutStatus(s *session) *cobra.Command {
	var watch bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "status machinedeployment/NAME",
		Short: "How far a rollout is, until it ends",
		Long: templates.LongDesc(`
			Prints a line whenever the rollout advances, and ends with it: with exit code 0 if it is complete, and 1 if it has
			made no progress for too long, which the policy defines, or if --timeout is over.`),
		ValidArgsFunction: completion.ResourceNameCompletionFunc(s.factory, "machinedeployment"),
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", true, "Wait until the rollout ends.")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "How long to wait; 0 is as long as it takes.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		reader, md, err := s.deployment(cmd.Context(), args)
		if err != nil {
			return err
		}
		ctx, cancel := withTimeout(cmd.Context(), timeout)
		defer cancel()
		return s.follow(ctx, reader, md, watch)
	}
	return cmd
}

// pollPeriod is how often an object is read while it is awaited.
const pollPeriod = 2 * time.Second

// follow prints the state of a rollout whenever it changes.
func (s *session) follow(ctx context.Context, reader *object.Reader, md *clusterv1.MachineDeployment, watch bool) error {
	last := ""
	for {
		state := rollout.StateOf(md)
		if state.Text != last {
			fmt.Fprintln(s.env.Streams.Out, state.Text)
			last = state.Text
		}
		switch {
		case state.Failed:
			return errProblemFound
		case state.Complete:
			return nil
		case !watch:
			return errProblemFound
		}
		select {
		case <-ctx.Done():
			fmt.Fprintln(s.env.Streams.Out, "Gave up waiting")
			return errProblemFound
		case <-time.After(pollPeriod):
		}
		if err := reader.Get(ctx, object.MachineDeployment, client.ObjectKeyFromObject(md), md); err != nil && !timeIsOver(ctx) {
			return err
		}
	}
}
