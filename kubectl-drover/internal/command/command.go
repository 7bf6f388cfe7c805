// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package command has the commands of kubectl drover. Run is the program.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd/options"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"

	"drover.io/kubectl-drover/internal/escape"
	"drover.io/runtime/version"
)

// Exit codes.
const (
	// ExitOK means that the question was answered, and that nothing is wrong, or that the action was done.
	ExitOK = 0
	// ExitProblem means that the question was answered, and that something is wrong.
	ExitProblem = 1
	// ExitError means that there is no answer: wrong arguments, no connection, no permission, no such object.
	ExitError = 2
)

// errProblemFound ends a command whose answer, which it has printed, is that something is wrong.
var errProblemFound = errors.New("a problem was found")

// Environment is what a command works with, beside the API server that its flags name.
type Environment struct {
	Streams genericiooptions.IOStreams
	Now     func() time.Time
}

// Run runs the command of the arguments, and returns the exit code. What others wrote into objects is printed without control
// characters; errors are one line.
func Run(ctx context.Context, env Environment, args []string) int {
	streams := env.Streams
	env.Streams.Out, env.Streams.ErrOut = escape.Writer{To: streams.Out}, escape.Writer{To: streams.ErrOut}
	root := newRoot(env, streams.Out)
	root.SetArgs(args)
	root.SetIn(streams.In)
	root.SetOut(env.Streams.Out)
	root.SetErr(env.Streams.ErrOut)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, errProblemFound):
		return ExitProblem
	}
	printError(env.Streams.ErrOut, err)
	return ExitError
}

// printError prints an error as kubectl words it, in one line.
func printError(out io.Writer, err error) {
	text, known := cmdutil.StandardErrorMessage(err)
	if !known {
		text = "error: " + err.Error()
	}
	if what, near, found := strings.Cut(text, "\n\nDid you mean this?\n"); found { // as cobra words it, in several lines
		text = offer(what, strings.Fields(near))
	}
	fmt.Fprintln(out, escape.Line(text))
}

// offer is a message with the names that may have been meant.
func offer(text string, names []string) string {
	if len(names) == 0 {
		return text
	}
	return fmt.Sprintf("%s; did you mean %s?", text, strings.Join(names, " or "))
}

// subcommandOnly refuses an argument that is no subcommand, and offers the nearest one.
func subcommandOnly(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return errors.New(offer(fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath()), cmd.SuggestionsFor(args[0])))
}

func newRoot(env Environment, raw io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-drover",
		Short: "What is wrong with my nodes, since when, and what do I do",
		Long: templates.LongDesc(`
			Answers what is wrong with nodes, since when, and what to do, for clusters whose machines Drover manages.

			Exit codes: 0 if everything is well or was done, 1 if the answer is that something is not well, 2 if there is no answer.`),
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl drover"},
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version.Get().Version,
	}
	flags := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithWarningPrinter(env.Streams)
	flags.AddFlags(root.PersistentFlags())
	s := &session{env: env, factory: cmdutil.NewFactory(flags), raw: raw, terminal: isTerminal(raw)}
	completion.SetFactoryForCompletion(s.factory)
	groups := templates.CommandGroups{
		{Message: "Questions:", Commands: []*cobra.Command{newWhy(s), newDescribe(s), newWatch(s), newCheck(s), newOrphans(s), newLogs(s), newDrain(s), newValidate(s), newDiff(s)}},
		{Message: "Actions:", Commands: []*cobra.Command{newRollout(s), newFreeze(s), newThaw(s)}},
	}
	groups.Add(root)
	templates.ActsAsRootCommand(root, []string{"options"}, groups...)
	root.AddCommand(options.NewCmdOptions(env.Streams.Out))
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return err })
	for flag, complete := range map[string]func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective){
		"namespace": completion.ResourceNameCompletionFunc(s.factory, "namespace"),
		"context":   completion.ContextCompletionFunc,
		"cluster":   completion.ClusterCompletionFunc,
		"user":      completion.UserCompletionFunc,
	} {
		cmdutil.CheckErr(root.RegisterFlagCompletionFunc(flag, complete))
	}
	return root
}
