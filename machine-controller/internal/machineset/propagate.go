// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels/format"
)

// The annotations by which a Machine remembers what came from its MachineSet's template, so
// that a key removed there can be removed here and no other key is touched.
const (
	labelsFromTemplate      = "drover.io/labels-from-template"
	annotationsFromTemplate = "drover.io/annotations-from-template"
)

// propagate writes into the Machine whatever of the template changes Machines in place:
// labels, annotations, readiness gates, minReadySeconds, deletion timeouts and taints. All
// else of a template takes a new Machine.
func propagate(machine *clusterv1.Machine, set *clusterv1.MachineSet) {
	template := &set.Spec.Template
	machine.Labels = carried(machine.Labels, machine.Annotations[labelsFromTemplate], machineLabels(set))
	annotations := maps.Clone(template.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	machine.Annotations = carried(machine.Annotations, machine.Annotations[annotationsFromTemplate], annotations)
	remember(machine, labelsFromTemplate, template.Labels)
	remember(machine, annotationsFromTemplate, template.Annotations)

	spec := template.Spec.DeepCopy()
	machine.Spec.ReadinessGates = spec.ReadinessGates
	machine.Spec.MinReadySeconds = spec.MinReadySeconds
	machine.Spec.Deletion = spec.Deletion
	machine.Spec.Taints = spec.Taints
}

// machineLabels are the labels of every Machine of the set.
func machineLabels(set *clusterv1.MachineSet) map[string]string {
	labels := maps.Clone(set.Spec.Template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, set.Spec.Selector.MatchLabels)
	labels[clusterv1.ClusterNameLabel] = set.Spec.ClusterName
	labels[clusterv1.MachineSetNameLabel] = format.MustFormatValue(set.Name)
	if owner := metav1.GetControllerOfNoCopy(set); owner != nil && owner.Kind == "MachineDeployment" {
		labels[clusterv1.MachineDeploymentNameLabel] = owner.Name
	}
	return labels
}

// carried returns the map with the wanted keys, and without those that came before and are
// no longer wanted.
func carried(all map[string]string, before string, wanted map[string]string) map[string]string {
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

func remember(machine *clusterv1.Machine, annotation string, from map[string]string) {
	if len(from) == 0 {
		delete(machine.Annotations, annotation)
		return
	}
	machine.Annotations[annotation] = strings.Join(slices.Sorted(maps.Keys(from)), ",")
}
