// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/machinename"
	"drover.io/machine-controller/internal/rollout/revision"
	"drover.io/runtime/predicates"
)

// propagatedAnnotations lists on a MachineSet the annotations that it has from its deployment.
const propagatedAnnotations = "drover.io/annotations-from-deployment"

// ManagedCapacityLabels on a MachineDeployment is what this manager has written into its annotation for the labels of the
// autoscaler's node groups.
const ManagedCapacityLabels = "drover.io/shown-labels"

// notPropagated are the annotations of a MachineDeployment that are about it alone.
var notPropagated = []string{
	corev1.LastAppliedConfigAnnotation,
	clusterv1.RevisionAnnotation,
	clusterv1.DesiredReplicasAnnotation,
	clusterv1.MaxReplicasAnnotation,
	clusterv1.DisableMachineCreateAnnotation,
	revision.HistoryLimitAnnotation,
	revision.RollbackAnnotation,
	revision.UpstreamHistoryAnnotation,
	propagatedAnnotations,
	ManagedCapacityLabels,
	droverpolicyv1.FreezeAnnotation,
}

// PropagateToMachineSet writes into a MachineSet the fields of its MachineDeployment that change without new Machines.
func PropagateToMachineSet(set *clusterv1.MachineSet, md *clusterv1.MachineDeployment) {
	hash := set.Labels[clusterv1.MachineDeploymentUniqueLabel]
	all := maps.Clone(md.Spec.Template.Labels)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, SelectorLabels(md))
	all[clusterv1.ClusterNameLabel] = md.Spec.ClusterName
	all[clusterv1.MachineDeploymentNameLabel] = md.Name
	if hash != "" {
		all[clusterv1.MachineDeploymentUniqueLabel] = hash
	}
	all = predicates.Inherit(all, md)
	set.Labels = labels(set, all)
	set.Annotations = annotations(set.Annotations, md.Annotations)

	revision.CopyInPlaceFields(&set.Spec.Template, &md.Spec.Template)
	set.Spec.Template.Labels = maps.Clone(all)
	if machinename.Check(md.Spec.MachineNaming.Template) == nil { // the API server refuses a set with an invalid one
		set.Spec.MachineNaming = md.Spec.MachineNaming
	}
	MachineSetDeletion(set, md)
}

// MachineSetDeletion writes into a MachineSet the order and the timeouts of deletion alone.
func MachineSetDeletion(set *clusterv1.MachineSet, md *clusterv1.MachineDeployment) {
	set.Labels = predicates.Inherit(set.Labels, md)
	set.Spec.Deletion.Order = md.Spec.Deletion.Order
	set.Spec.Template.Spec.Deletion = md.Spec.Template.Spec.DeepCopy().Deletion
}

// labels returns the set's own with the wanted ones over them, and without those that are no longer wanted: what it had from its
// deployment before is in its template, which is written with them.
func labels(set *clusterv1.MachineSet, wanted map[string]string) map[string]string {
	return mergeManaged(set.Labels, keyList(set.Spec.Template.Labels), wanted)
}

// annotations returns the set's own with those of the deployment over them, except notPropagated, and without those that
// the deployment no longer has.
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

// SelectorLabels returns the labels that select the Machines of a MachineDeployment. An empty selector is the deployment's
// own labels, as upstream's webhook would have filled in.
func SelectorLabels(md *clusterv1.MachineDeployment) map[string]string {
	if len(md.Spec.Selector.MatchLabels) > 0 || len(md.Spec.Selector.MatchExpressions) > 0 {
		return md.Spec.Selector.MatchLabels
	}
	return map[string]string{
		clusterv1.ClusterNameLabel:           md.Spec.ClusterName,
		clusterv1.MachineDeploymentNameLabel: md.Name,
	}
}
