// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	policyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/outcome"
	"drover.io/machine-controller/internal/rollout"
)

// carriedAnnotations remembers on a MachineSet which annotations it has from its deployment.
const carriedAnnotations = "drover.io/annotations-from-deployment"

// notCarried are the annotations of a MachineDeployment that speak of it alone.
var notCarried = []string{
	corev1.LastAppliedConfigAnnotation,
	clusterv1.RevisionAnnotation,
	clusterv1.DesiredReplicasAnnotation,
	clusterv1.MaxReplicasAnnotation,
	clusterv1.DisableMachineCreateAnnotation,
	HistoryAnnotation,
	RollbackAnnotation,
	revisionsAnnotation,
	carriedAnnotations,
	shownLabels,
	policyv1.FreezeAnnotation,
}

// spread carries what changes in place from the deployment to its MachineSets: everything
// to the current one, and to superseded ones what matters for how their Machines go away.
func (r *Reconciler) spread(ctx context.Context, f *fleet) error {
	md := f.deployment
	current, _ := rollout.FindCurrent(md, f.sets, r.Clock.Now())
	for i, set := range f.sets {
		wanted := set.DeepCopy()
		if set == current {
			propagate(wanted, md)
			renumber(wanted, md.Annotations[clusterv1.RevisionAnnotation])
		} else {
			propagateDeletion(wanted, md)
		}
		if equality.Semantic.DeepEqual(set, wanted) {
			continue
		}
		if err := r.update(ctx, set, wanted); err != nil {
			return outcome.Settled(fmt.Errorf("updating MachineSet %q: %w", set.Name, err))
		}
		f.sets[i] = wanted
	}
	return nil
}

// propagate writes into the set whatever of the deployment does not take new Machines.
func propagate(set *clusterv1.MachineSet, md *clusterv1.MachineDeployment) {
	hash := set.Labels[clusterv1.MachineDeploymentUniqueLabel]
	labels := maps.Clone(md.Spec.Template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, selectorLabels(md))
	labels[clusterv1.ClusterNameLabel] = md.Spec.ClusterName
	labels[clusterv1.MachineDeploymentNameLabel] = md.Name
	if hash != "" {
		labels[clusterv1.MachineDeploymentUniqueLabel] = hash
	}
	set.Labels = labels
	set.Annotations = annotations(set.Annotations, md.Annotations)

	template := md.Spec.Template.DeepCopy()
	set.Spec.Template.Labels = maps.Clone(labels)
	set.Spec.Template.Annotations = template.Annotations
	set.Spec.Template.Spec.ReadinessGates = template.Spec.ReadinessGates
	set.Spec.Template.Spec.MinReadySeconds = template.Spec.MinReadySeconds
	set.Spec.Template.Spec.Taints = template.Spec.Taints
	set.Spec.MachineNaming = md.Spec.MachineNaming
	propagateDeletion(set, md)
}

// propagateDeletion writes into the set how its Machines are to be chosen and deleted.
func propagateDeletion(set *clusterv1.MachineSet, md *clusterv1.MachineDeployment) {
	set.Spec.Deletion.Order = md.Spec.Deletion.Order
	set.Spec.Template.Spec.Deletion = md.Spec.Template.Spec.DeepCopy().Deletion
}

// annotations are the set's own with those of the deployment over them, except what speaks
// of the deployment alone, and without what has left the deployment since.
func annotations(own, from map[string]string) map[string]string {
	all := maps.Clone(own)
	if all == nil {
		all = map[string]string{}
	}
	for key := range strings.SplitSeq(own[carriedAnnotations], ",") {
		if _, kept := from[key]; !kept {
			delete(all, key)
		}
	}
	var carried []string
	for _, key := range slices.Sorted(maps.Keys(from)) {
		if !slices.Contains(notCarried, key) {
			all[key] = from[key]
			carried = append(carried, key)
		}
	}
	delete(all, carriedAnnotations)
	if len(carried) > 0 {
		all[carriedAnnotations] = strings.Join(carried, ",")
	}
	return all
}
