// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/rollout"
)

// nodeSync carries labels, annotations and taints from a machine to its Node. It is
// authoritative for what it has put there, which it remembers in annotations on the Node so
// that it can take it back, and never touches anything else.
type nodeSync struct {
	// Labels and annotations that match are synced beside those of the managed domains.
	labels, annotations []*regexp.Regexp
}

// apply patches the Node if it lacks anything. One request at most.
func (y nodeSync) apply(ctx context.Context, c client.Client, s *subject) error {
	current := s.node.object
	wanted := y.desired(current, s)
	if equality.Semantic.DeepEqual(current.ObjectMeta, wanted.ObjectMeta) && equality.Semantic.DeepEqual(current.Spec, wanted.Spec) {
		return nil
	}
	return c.Patch(ctx, wanted, client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{}))
}

// desired returns the Node as it should be, sharing nothing with the one given.
func (y nodeSync) desired(current *corev1.Node, s *subject) *corev1.Node {
	node := current.DeepCopy()
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	labels, annotations := y.managedLabels(s), y.managedAnnotations(s)
	replace(node.Labels, node.Annotations[clusterv1.LabelsFromMachineAnnotation], labels)
	replace(node.Annotations, node.Annotations[clusterv1.AnnotationsFromMachineAnnotation], annotations)
	node.Annotations[clusterv1.LabelsFromMachineAnnotation] = keyList(maps.Keys(labels))
	node.Annotations[clusterv1.AnnotationsFromMachineAnnotation] = keyList(maps.Keys(annotations))
	maps.Copy(node.Annotations, identity(s))
	node.Spec.Taints = desiredTaints(node, s)
	return node
}

func (y nodeSync) managedLabels(s *subject) map[string]string {
	labels := map[string]string{}
	for key, value := range s.machine.Labels {
		if managedLabel(key) || matchesAny(y.labels, key) {
			labels[key] = value
		}
	}
	_, interruptible := s.node.object.Labels[clusterv1.InterruptibleLabel]
	if s.infra.object != nil { // otherwise what was known stands
		interruptible = s.infra.object.Interruptible()
	}
	if interruptible {
		labels[clusterv1.InterruptibleLabel] = ""
	}
	return labels
}

func (y nodeSync) managedAnnotations(s *subject) map[string]string {
	annotations := map[string]string{}
	for key, value := range s.machine.Annotations {
		if inDomain(key, clusterv1.ManagedNodeAnnotationDomain) || matchesAny(y.annotations, key) {
			annotations[key] = value
		}
	}
	return annotations
}

// identity tells whoever looks at the Node which machine it is; the cluster autoscaler reads it.
func identity(s *subject) map[string]string {
	annotations := map[string]string{
		clusterv1.ClusterNameAnnotation:      s.machine.Spec.ClusterName,
		clusterv1.ClusterNamespaceAnnotation: s.machine.Namespace,
		clusterv1.MachineAnnotation:          s.machine.Name,
	}
	if owner := metav1.GetControllerOf(s.machine); owner != nil {
		annotations[clusterv1.OwnerKindAnnotation] = owner.Kind
		annotations[clusterv1.OwnerNameAnnotation] = owner.Name
	}
	return annotations
}

// desiredTaints are the Node's taints with those of the machine in place, without the taint
// that keeps pods away until the first sync, and with the hint that a newer revision exists.
func desiredTaints(node *corev1.Node, s *subject) []corev1.Taint {
	taints := slices.Clone(node.Spec.Taints)
	taints = without(taints, clusterv1.NodeUninitializedTaint)

	// Whether the annotation exists, even empty, tells a first sync from a later one.
	ownedBefore, initialized := node.Annotations[clusterv1.TaintsFromMachineAnnotation]
	owned, initial := map[string]bool{}, map[string]bool{}
	for _, taint := range s.machine.Spec.Taints {
		wanted := corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: taint.Effect}
		if taint.Propagation == clusterv1.MachineTaintPropagationOnInitialization {
			initial[taintID(wanted)] = true
			if !initialized {
				taints = with(taints, wanted)
			}
			continue
		}
		owned[taintID(wanted)] = true
		taints = with(taints, wanted)
	}
	for id := range strings.SplitSeq(ownedBefore, ",") {
		if id != "" && !owned[id] && !initial[id] {
			taints = slices.DeleteFunc(taints, func(t corev1.Taint) bool { return taintID(t) == id })
		}
	}
	node.Annotations[clusterv1.TaintsFromMachineAnnotation] = keyList(maps.Keys(owned))

	taints = without(taints, clusterv1.NodeOutdatedRevisionTaint)
	if outdated(s) {
		taints = with(taints, clusterv1.NodeOutdatedRevisionTaint)
	}
	return taints
}

// outdated reports whether the machine's MachineSet has been superseded.
func outdated(s *subject) bool {
	if s.set == nil || s.deployment == nil {
		return false
	}
	return rollout.Revision(s.set) < rollout.Revision(s.deployment)
}

// managedLabel reports whether a label key is of the domains that always go to the Node.
func managedLabel(key string) bool {
	return strings.HasPrefix(key, clusterv1.NodeRoleLabelPrefix+"/") ||
		inDomain(key, clusterv1.NodeRestrictionLabelDomain) ||
		inDomain(key, clusterv1.ManagedNodeLabelDomain)
}

// inDomain reports whether key has domain, or a subdomain of it, as its prefix.
func inDomain(key, domain string) bool {
	prefix, _, found := strings.Cut(key, "/")
	return found && (prefix == domain || strings.HasSuffix(prefix, "."+domain))
}

func matchesAny(expressions []*regexp.Regexp, key string) bool {
	return slices.ContainsFunc(expressions, func(e *regexp.Regexp) bool { return e.MatchString(key) })
}

// replace takes away the keys that were owned before and puts the wanted ones in place.
func replace(all map[string]string, ownedBefore string, wanted map[string]string) {
	for key := range strings.SplitSeq(ownedBefore, ",") {
		if _, keep := wanted[key]; !keep {
			delete(all, key)
		}
	}
	maps.Copy(all, wanted)
}

func keyList(keys func(yield func(string) bool)) string {
	return strings.Join(slices.Sorted(keys), ",")
}

func taintID(t corev1.Taint) string { return t.Key + ":" + string(t.Effect) }

func without(taints []corev1.Taint, taint corev1.Taint) []corev1.Taint {
	return slices.DeleteFunc(taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) })
}

// with returns the taints with wanted among them; one of the same key and effect takes its value.
func with(taints []corev1.Taint, wanted corev1.Taint) []corev1.Taint {
	for i := range taints {
		if taints[i].MatchTaint(&wanted) {
			taints[i].Value = wanted.Value
			return taints
		}
	}
	return append(taints, wanted)
}
