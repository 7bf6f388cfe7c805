// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
)

// setScheduling sets which nodes of the infrastructure cluster a virtual machine may run on.
func setScheduling(spec *virtv1.VirtualMachineInstanceSpec, config InstanceConfig) {
	if size := len(config.Spec.NodeSelector); size > 0 || config.Zone != "" {
		spec.NodeSelector = make(map[string]string, size+1)
	}
	for key, value := range config.Spec.NodeSelector {
		spec.NodeSelector[key] = string(value)
	}
	if config.Zone != "" {
		spec.NodeSelector[corev1.LabelTopologyZone] = config.Zone
	}
	for _, t := range config.Spec.Tolerations {
		operator := corev1.TolerationOperator(t.Operator)
		if t.Key == "" {
			operator = corev1.TolerationOpExists
		}
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: t.Key, Operator: operator, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	spec.Affinity = newAffinity(config.Spec.NodeAffinity)
	spread := config.Spec.TopologySpread
	if len(spread) == 0 {
		spread = []infrav1.KubeVirtTopologySpread{{TopologyKey: corev1.LabelHostname}}
	}
	if len(config.Group) == 0 { // a template has no Cluster, and every Pod would count
		return
	}
	for _, over := range spread {
		spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: max(1, over.MaxSkew), TopologyKey: over.TopologyKey,
			WhenUnsatisfiable: corev1.UnsatisfiableConstraintAction(cmp.Or(over.WhenUnsatisfiable, string(corev1.ScheduleAnyway))),
			LabelSelector:     &metav1.LabelSelector{MatchLabels: config.Group},
		})
	}
}

// newAffinity returns the requirements, and those with a weight as preferences.
func newAffinity(terms []infrav1.KubeVirtNodeAffinity) *corev1.Affinity {
	if len(terms) == 0 {
		return nil
	}
	required, nodes := corev1.NodeSelectorTerm{}, &corev1.NodeAffinity{}
	for _, term := range terms {
		requirement := corev1.NodeSelectorRequirement{Key: term.Key, Operator: corev1.NodeSelectorOperator(term.Operator), Values: term.Values}
		if term.Weight == 0 {
			required.MatchExpressions = append(required.MatchExpressions, requirement)
			continue
		}
		nodes.PreferredDuringSchedulingIgnoredDuringExecution = append(nodes.PreferredDuringSchedulingIgnoredDuringExecution, corev1.PreferredSchedulingTerm{
			Weight: term.Weight, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{requirement}},
		})
	}
	if len(required.MatchExpressions) > 0 {
		nodes.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{required}}
	}
	return &corev1.Affinity{NodeAffinity: nodes}
}
