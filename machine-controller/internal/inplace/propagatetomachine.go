// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels/format"

	"drover.io/runtime/predicates"
)

// The annotations that list the keys that a Machine has from its MachineSet's template, so that a key that is removed
// there is removed here and no other key is touched.
const (
	labelsFromTemplate      = "drover.io/labels-from-template"
	annotationsFromTemplate = "drover.io/annotations-from-template"
)

// PropagateToMachine writes into a Machine the fields of its MachineSet's template that change in place: labels, annotations,
// readiness gates, minReadySeconds, deletion timeouts and taints. All other fields need a new Machine. The annotations of a
// PropagateToMachine that is being deleted stay as they are: the owner of a deletion hook has removed it there for good.
func PropagateToMachine(machine *clusterv1.Machine, set *clusterv1.MachineSet) {
	if machine.DeletionTimestamp.IsZero() {
		metadata(machine, set)
	} else {
		machine.Labels = mergeManaged(machine.Labels, "", MachineLabels(set))
	}
	spec := set.Spec.Template.Spec.DeepCopy()
	machine.Spec.ReadinessGates = spec.ReadinessGates
	machine.Spec.MinReadySeconds = spec.MinReadySeconds
	machine.Spec.Deletion = spec.Deletion
	machine.Spec.Taints = spec.Taints
}

func metadata(machine *clusterv1.Machine, set *clusterv1.MachineSet) {
	template := &set.Spec.Template
	machine.Labels = mergeManaged(machine.Labels, machine.Annotations[labelsFromTemplate], MachineLabels(set))
	annotations := maps.Clone(template.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	machine.Annotations = mergeManaged(machine.Annotations, machine.Annotations[annotationsFromTemplate], annotations)
	recordKeys(machine, labelsFromTemplate, template.Labels)
	recordKeys(machine, annotationsFromTemplate, template.Annotations)
}

// MachineUpToDate reports whether the Machine has everything that [Machine] would write. It copies nothing: it is called
// for every Machine in every reconcile. The labels are those of MachineLabels.
func MachineUpToDate(machine *clusterv1.Machine, set *clusterv1.MachineSet, labels map[string]string) bool {
	template, spec := &set.Spec.Template, &machine.Spec
	return containsAll(machine.Labels, labels) && (!machine.DeletionTimestamp.IsZero() || metadataUpToDate(machine, set, labels)) &&
		equality.Semantic.DeepEqual(spec.ReadinessGates, template.Spec.ReadinessGates) &&
		equality.Semantic.DeepEqual(spec.MinReadySeconds, template.Spec.MinReadySeconds) &&
		equality.Semantic.DeepEqual(spec.Deletion, template.Spec.Deletion) &&
		equality.Semantic.DeepEqual(spec.Taints, template.Spec.Taints)
}

// containsAll reports whether all has every wanted key with its value.
func containsAll(all, wanted map[string]string) bool {
	for key, value := range wanted {
		if have, ok := all[key]; !ok || have != value {
			return false
		}
	}
	return true
}

func keyList(m map[string]string) string { return strings.Join(slices.Sorted(maps.Keys(m)), ",") }

// MachineLabels returns the labels of every Machine of the set.
func MachineLabels(set *clusterv1.MachineSet) map[string]string {
	labels := maps.Clone(set.Spec.Template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, set.Spec.Selector.MatchLabels)
	labels = predicates.Inherit(labels, set)
	labels[clusterv1.ClusterNameLabel] = set.Spec.ClusterName
	labels[clusterv1.MachineSetNameLabel] = format.MustFormatValue(set.Name)
	if owner := metav1.GetControllerOfNoCopy(set); owner != nil && owner.Kind == "MachineDeployment" {
		labels[clusterv1.MachineDeploymentNameLabel] = owner.Name
	}
	return labels
}

// mergeManaged returns the map with the wanted keys, and without those that were managed before and are no longer wanted.
func mergeManaged(all map[string]string, before string, wanted map[string]string) map[string]string {
	out := maps.Clone(all)
	if out == nil {
		out = map[string]string{}
	}
	for key := range strings.SplitSeq(before, ",") {
		if _, keep := wanted[key]; !keep {
			delete(out, key)
		}
	}
	maps.Copy(out, wanted)
	return out
}

func recordKeys(machine *clusterv1.Machine, annotation string, from map[string]string) {
	if len(from) == 0 {
		delete(machine.Annotations, annotation)
		return
	}
	machine.Annotations[annotation] = keyList(from)
}
