// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/kubectl-drover/internal/object"
)

func newLogs(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "logs machine/NAME",
		Short: "The last words of a host that does not join",
		Long: templates.LongDesc(`
			Prints what the infrastructure provider has read from the console of a host without a Node: the step of its bootstrap
			and the last output, without secrets. Only the provider has access to the cloud, so there is nothing for a host that
			joined in time, and for clouds whose consoles cannot be read.`),
		ValidArgsFunction: completion.ResourceNameCompletionFunc(s.factory, "machine"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			reader, m, err := s.machine(ctx, args, "console")
			if err != nil {
				return err
			}
			infra, err := reader.Referenced(ctx, m.Namespace, m.Spec.InfrastructureRef)
			if err != nil {
				return err
			}
			for _, c := range object.Conditions(infra) {
				if c.Type == infrav1.HostJoinedCondition && c.Message != "" {
					_, err := fmt.Fprintf(s.env.Streams.Out, "%s (%s)\n%s\n", c.Reason, c.LastTransitionTime.UTC().Format("2006-01-02T15:04:05Z"), c.Message)
					return err
				}
			}
			_, err = fmt.Fprintf(s.env.Streams.Out, "%s %s reports nothing about the console of this host\n", infra.GetKind(), infra.GetName())
			return err
		},
	}
}
