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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	policyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/machinename"
	"drover.io/machine-controller/internal/rollout/revision"
	"drover.io/runtime/predicates"
	"drover.io/runtime/results"
)

// propagatedAnnotations remembers on a MachineSet which annotations it has from its deployment.
const propagatedAnnotations = "drover.io/annotations-from-deployment"

// notPropagated are the annotations of a MachineDeployment that speak of it alone.
var notPropagated = []string{
	corev1.LastAppliedConfigAnnotation,
	clusterv1.RevisionAnnotation,
	clusterv1.DesiredReplicasAnnotation,
	clusterv1.MaxReplicasAnnotation,
	clusterv1.DisableMachineCreateAnnotation,
	revision.HistoryAnnotation,
	revision.RollbackAnnotation,
	revision.PastRevisionsAnnotation,
	propagatedAnnotations,
	managedCapacityLabels,
	policyv1.FreezeAnnotation,
}

// propagateToSets carries what changes in place from the deployment to its MachineSets, to superseded
// ones too: their Machines live on for as long as a rollout takes, and under OnDelete for
// longer. A set whose selector no longer selects what the deployment makes of its labels, as
// can be stored on an API server without our rules, is told only how its Machines go away.
func (r *Reconciler) propagateToSets(ctx context.Context, s *state) error {
	md := s.deployment
	current, _ := revision.FindCurrent(md, s.sets, r.Clock.Now())
	for i, set := range s.sets {
		wanted := set.DeepCopy()
		propagate(wanted, md)
		if err := checkSelector(wanted); err != nil {
			wanted = set.DeepCopy()
			propagateDeletion(wanted, md)
			if set == current {
				s.blocked = err
			}
		}
		if set == current {
			revision.Set(wanted, md.Annotations[clusterv1.RevisionAnnotation])
		}
		if equality.Semantic.DeepEqual(set, wanted) {
			continue
		}
		if err := r.updateSet(ctx, set, wanted); err != nil {
			return results.IgnoreNotFoundOrConflict(fmt.Errorf("updating MachineSet %q: %w", set.Name, err))
		}
		s.sets[i] = wanted
	}
	return nil
}

// checkSelector refuses a MachineSet that would not select the Machines made from its template.
func checkSelector(set *clusterv1.MachineSet) error {
	matches, err := metav1.LabelSelectorAsSelector(&set.Spec.Selector)
	if err != nil {
		return fmt.Errorf("spec.selector of MachineSet %q: %w", set.Name, err)
	}
	if !matches.Matches(labels.Set(set.Spec.Template.Labels)) {
		return fmt.Errorf("spec.selector or the labels of spec.template have changed, and MachineSet %q still selects its Machines by %s: "+
			"set them back, or create a new MachineDeployment", set.Name, matches)
	}
	return nil
}

// propagate writes into the set whatever of the deployment does not take new Machines.
func propagate(set *clusterv1.MachineSet, md *clusterv1.MachineDeployment) {
	hash := set.Labels[clusterv1.MachineDeploymentUniqueLabel]
	all := maps.Clone(md.Spec.Template.Labels)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, selectorLabels(md))
	all[clusterv1.ClusterNameLabel] = md.Spec.ClusterName
	all[clusterv1.MachineDeploymentNameLabel] = md.Name
	if hash != "" {
		all[clusterv1.MachineDeploymentUniqueLabel] = hash
	}
	all = predicates.Inherit(all, md)
	set.Labels = all
	set.Annotations = annotations(set.Annotations, md.Annotations)

	revision.CopyInPlaceFields(&set.Spec.Template, &md.Spec.Template)
	set.Spec.Template.Labels = maps.Clone(all)
	if machinename.Check(md.Spec.MachineNaming.Template) == nil { // a set cannot take what is not valid
		set.Spec.MachineNaming = md.Spec.MachineNaming
	}
	propagateDeletion(set, md)
}

// propagateDeletion writes into the set how its Machines are to be chosen and deleted.
func propagateDeletion(set *clusterv1.MachineSet, md *clusterv1.MachineDeployment) {
	set.Labels = predicates.Inherit(set.Labels, md)
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
	for key := range strings.SplitSeq(own[propagatedAnnotations], ",") {
		if _, kept := from[key]; !kept {
			delete(all, key)
		}
	}
	var carried []string
	for _, key := range slices.Sorted(maps.Keys(from)) {
		if !slices.Contains(notPropagated, key) {
			all[key] = from[key]
			carried = append(carried, key)
		}
	}
	delete(all, propagatedAnnotations)
	if len(carried) > 0 {
		all[propagatedAnnotations] = strings.Join(carried, ",")
	}
	return all
}
