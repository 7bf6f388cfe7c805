// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/kubectl-drover/internal/object"
	"drover.io/kubectl-drover/internal/tree"
)

func newDescribe(s *session) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:   "describe cluster|machinedeployment|machine NAME",
		Short: "A tree of a cluster, a deployment or a machine, with what is not well",
		Long: templates.LongDesc(`
			Shows a Cluster, a MachineDeployment or a Machine with what belongs to it. Equal Machines are one line, and only what
			is not well is described, with since when. -o wide has every name, and MachineSets without Machines.`),
		Example: templates.Examples(`
			kubectl drover describe cluster demo
			kubectl drover describe machinedeployment demo-workers -o wide`),
		ValidArgsFunction: completion.SpecifiedResourceTypeAndNameCompletionFunc(s.factory, []string{"cluster", "machinedeployment", "machine"}),
	}
	o.addTo(cmd, "wide")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		reader, kind, key, err := s.subject(args, "")
		if err != nil {
			return err
		}
		item, err := s.describe(cmd.Context(), reader, kind, key, o.format == "wide")
		if err != nil {
			return err
		}
		if done, err := s.structured(o, item); err != nil || done {
			return err
		}
		fmt.Fprint(s.env.Streams.Out, item.Text(s.env.Now(), o.format == "wide"))
		return nil
	}
	return cmd
}

func (s *session) describe(ctx context.Context, reader *object.Reader, kind object.Kind, key client.ObjectKey, wide bool) (*tree.Item, error) {
	builder := &tree.Builder{Reader: reader, History: wide}
	switch kind.GroupKind() {
	case object.Cluster.GroupKind():
		return builder.Cluster(ctx, key)
	case object.MachineDeployment.GroupKind():
		return builder.Deployment(ctx, key)
	case object.Machine.GroupKind():
		return builder.Machine(ctx, key, s.workload(reader))
	}
	return nil, fmt.Errorf("%s has no tree; describe shows a cluster, a machinedeployment or a machine", kind.Title())
}
