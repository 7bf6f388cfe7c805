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
	"drover.io/kubectl-drover/internal/escape"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/runtime/drainplan"
	"drover.io/runtime/quantity"
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
		if !m.Status.NodeRef.IsDefined() {
			return fmt.Errorf("Machine %s has no Node, so there is nothing to drain", m.Name) //nolint:staticcheck // Machine is a kind
		}
		cluster := &clusterv1.Cluster{}
		if err := reader.Get(cmd.Context(), object.Cluster, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName}, cluster); err != nil {
			return err
		}
		plan, err := s.plan(cmd.Context(), reader, m, cluster)
		if err != nil {
			return err
		}
		exempt := notDrained(m, cluster, instanceEnds(cmd.Context(), reader, m))
		if done, err := s.structured(o, plan); err != nil || done {
			return notWell(err, exempt == "" && blocked(plan))
		}
		s.printPlan(m, plan, exempt)
		return notWell(nil, exempt == "" && blocked(plan))
	}
	return cmd
}

// instanceEnds reports whether the infrastructure machine of a Machine is being deleted or gone. One that cannot be read counts
// as there.
func instanceEnds(ctx context.Context, reader *object.Reader, m *clusterv1.Machine) bool {
	infra, err := reader.Referenced(ctx, m.Namespace, m.Spec.InfrastructureRef)
	return object.IsNotFound(err) || err == nil && infra != nil && infra.GetDeletionTimestamp() != nil
}

// notDrained is why a Machine is deleted without a drain; empty if it is drained.
func notDrained(m *clusterv1.Machine, cluster *clusterv1.Cluster, instanceEnds bool) string {
	switch {
	case hasKey(m.Annotations, clusterv1.ExcludeNodeDrainingAnnotation):
		return "it has the annotation " + clusterv1.ExcludeNodeDrainingAnnotation
	case !cluster.DeletionTimestamp.IsZero():
		return "its Cluster is being deleted"
	case instanceEnds:
		return fmt.Sprintf("its %s %s is being deleted or gone", m.Spec.InfrastructureRef.Kind, m.Spec.InfrastructureRef.Name)
	}
	return ""
}

func (s *session) plan(ctx context.Context, reader *object.Reader, m *clusterv1.Machine, cluster *clusterv1.Cluster) ([]drain.Pod, error) {
	rules := &clusterv1.MachineDrainRuleList{}
	if err := reader.Client.List(ctx, rules, client.InNamespace(m.Namespace)); err != nil {
		return nil, reader.Explain(err, object.MachineDrainRule, m.Namespace)
	}
	workload, err := s.workload(reader)(ctx, client.ObjectKeyFromObject(cluster))
	if err != nil {
		return nil, fmt.Errorf("the workload cluster cannot be read: %w", err)
	}
	return drain.Plan(ctx, drain.Request{
		Workload: workload, Node: m.Status.NodeRef.Name, Rules: rules.Items, Now: s.env.Now(),
		Subject: drainplan.RuleInput{MachineLabels: m.Labels, ClusterLabels: cluster.Labels},
	})
}

func blocked(plan []drain.Pod) bool {
	for _, pod := range plan {
		if pod.Effect == drain.Blocked {
			return true
		}
	}
	return false
}

func (s *session) printPlan(m *clusterv1.Machine, plan []drain.Pod, exempt string) {
	out := s.env.Streams.Out
	fmt.Fprintf(out, "Node %s of Machine %s, %s\n", m.Status.NodeRef.Name, m.Name, quantity.Of(len(plan), "pod"))
	for _, pod := range plan {
		fmt.Fprintln(out, escape.Line(pod.String()))
	}
	switch timeout := m.Spec.Deletion.NodeDrainTimeoutSeconds; {
	case exempt != "":
		fmt.Fprintf(out, "The Machine is not drained at all: %s\n", exempt)
	case timeout != nil && *timeout > 0:
		fmt.Fprintf(out, "A drain is given up after %s\n", duration.HumanDuration(time.Duration(*timeout)*time.Second))
	default:
		fmt.Fprintln(out, "A drain waits without a limit, unless a MachinePolicy has spec.drain.forceAfterSeconds: spec.deletion.nodeDrainTimeoutSeconds is not set")
	}
}

func hasKey(all map[string]string, key string) bool {
	_, found := all[key]
	return found
}
