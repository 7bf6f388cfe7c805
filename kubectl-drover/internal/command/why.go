// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"

	"drover.io/kubectl-drover/internal/why"
)

// requestTimeout bounds each request to a workload cluster.
const requestTimeout = 10 * time.Second

// completed are the resources whose names are completed.
var completed = []string{"cluster", "machinedeployment", "machineset", "machine", "machinehealthcheck", "machinepolicy", "bootstrapconfig"}

func newWhy(s *session) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:   "why KIND/NAME",
		Short: "What an object waits for, who must act, and what helps",
		Long: templates.LongDesc(`
			Answers what an object waits for, since when, who must act, and what helps, across all objects that it depends on.
			For a Node, it is what the Machine of that Node waits for.

			The exit code is 0 if the object is well, and 1 if it waits for something.`),
		Example: templates.Examples(`
			# The first thing that is wrong in a cluster
			kubectl drover why cluster/demo

			# One machine, by its Node
			kubectl drover why node/ip-10-0-1-7`),
		ValidArgsFunction: completion.SpecifiedResourceTypeAndNameCompletionFunc(s.factory, completed),
	}
	o.addTo(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		reader, kind, key, err := s.subject(args, "")
		if err != nil {
			return err
		}
		finder := &why.Finder{Reader: reader, Now: s.env.Now(), Workload: s.workload(reader)}
		answer, err := finder.Answer(cmd.Context(), kind, key)
		if err != nil {
			return err
		}
		answer.AddFlags(connection(cmd.Flags()))
		if done, err := s.structured(o, answer); err != nil || done {
			return notWell(err, !answer.Well)
		}
		fmt.Fprint(s.env.Streams.Out, answer.Text(s.env.Now()))
		return notWell(nil, !answer.Well)
	}
	return cmd
}

// connection are those flags of a command that choose the cluster and the user, as a user may repeat them: no credentials.
func connection(flags *pflag.FlagSet) []string {
	var words []string
	for _, name := range []string{"kubeconfig", "context", "cluster", "server", "tls-server-name", "certificate-authority", "user", "as", "as-uid", "as-group"} {
		flag := flags.Lookup(name)
		if flag == nil || !flag.Changed {
			continue
		}
		values := []string{flag.Value.String()}
		if many, is := flag.Value.(pflag.SliceValue); is {
			values = many.GetSlice()
		}
		for _, value := range values {
			if value != "" {
				words = append(words, "--"+name, value)
			}
		}
	}
	return words
}

// notWell is the error of a command that has printed its answer.
func notWell(err error, something bool) error {
	if err == nil && something {
		return errProblemFound
	}
	return err
}
