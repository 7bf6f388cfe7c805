// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/kubectl-drover/internal/drain"
	"drover.io/kubectl-drover/internal/object"
)

func newDrain(s *session) *cobra.Command {
	var o output
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "drain --dry-run machine/NAME",
		Short: "What would block the drain of a machine",
		Long: templates.LongDesc(`
			Says of each pod of the Node of a Machine whether a drain would evict it, wait for it or leave it, and what blocks it
			now. Nothing is changed: the API server of the workload cluster answers with a dry run. A budget that permits one
			eviction permits it to each pod here, and to one of them only in a drain.

			The exit code is 0 if nothing blocks the drain now, and 1 otherwise. Drover drains a Machine when it is deleted.`),
		Example:           templates.Examples(`kubectl drover drain --dry-run machine/demo-workers-8xk2p-abcde`),
		ValidArgsFunction: completion.ResourceNameCompletionFunc(s.factory, "machine"),
	}
	o.addTo(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "Only say what would happen. It must be set: deleting the Machine is what drains it.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !dryRun {
			return errors.New("only --dry-run is supported: a Machine is drained when it is deleted, with kubectl delete machine")
		}
		reader, m, err := s.machine(cmd.Context(), args, "Node")
		if err != nil {
			return err
		}
		plan, err := s.plan(cmd.Context(), reader, m)
		if err != nil {
			return err
		}
		if done, err := s.structured(o, plan); err != nil || done {
			return notWell(err, blocked(plan))
		}
		s.printPlan(m, plan)
		return notWell(nil, blocked(plan))
	}
	return cmd
}

func (s *session) plan(ctx context.Context, reader *object.Reader, m *clusterv1.Machine) ([]drain.Pod, error) {
	if !m.Status.NodeRef.IsDefined() {
		return nil, fmt.Errorf("Machine %s has no Node, so there is nothing to drain", m.Name) //nolint:staticcheck // Machine is a kind
	}
	cluster := &clusterv1.Cluster{}
	if err := reader.Get(ctx, object.Cluster, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName}, cluster); err != nil {
		return nil, err
	}
	list := &clusterv1.MachineDrainRuleList{}
	if err := reader.Client.List(ctx, list, client.InNamespace(m.Namespace)); err != nil {
		return nil, err
	}
	rules, err := drain.RulesFor(m, cluster.Labels, list.Items)
	if err != nil {
		return nil, err
	}
	workload, err := s.workload(reader)(ctx, client.ObjectKeyFromObject(cluster))
	if err != nil {
		return nil, fmt.Errorf("the workload cluster cannot be read: %w", err)
	}
	return drain.Plan(ctx, drain.Request{Workload: workload, Node: m.Status.NodeRef.Name, Rules: rules})
}

func blocked(plan []drain.Pod) bool {
	for _, pod := range plan {
		if pod.Effect == drain.Blocked {
			return true
		}
	}
	return false
}

func (s *session) printPlan(m *clusterv1.Machine, plan []drain.Pod) {
	out := s.env.Streams.Out
	fmt.Fprintf(out, "Node %s of Machine %s, %d pods\n", m.Status.NodeRef.Name, m.Name, len(plan))
	for _, pod := range plan {
		line := fmt.Sprintf("%-8s %s/%s", pod.Effect, pod.Namespace, pod.Name)
		if pod.Why != "" {
			line += ": " + pod.Why
		}
		fmt.Fprintln(out, line)
	}
	switch timeout := m.Spec.Deletion.NodeDrainTimeoutSeconds; {
	case hasKey(m.Annotations, clusterv1.ExcludeNodeDrainingAnnotation):
		fmt.Fprintf(out, "The Machine is not drained at all: it has the annotation %s\n", clusterv1.ExcludeNodeDrainingAnnotation)
	case timeout != nil && *timeout > 0:
		fmt.Fprintf(out, "A drain is given up after %s\n", duration.HumanDuration(time.Duration(*timeout)*time.Second))
	default:
		fmt.Fprintln(out, "A drain waits without a limit: spec.deletion.nodeDrainTimeoutSeconds is not set")
	}
}

func hasKey(all map[string]string, key string) bool {
	_, found := all[key]
	return found
}
