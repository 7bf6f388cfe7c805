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

	policyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/rollout/revision"
)

// nodeSync carries labels, annotations and taints from a machine to its Node. It is
// authoritative for what it has put there, which it remembers in annotations on the Node so
// that it can take it back, and never touches anything else. What a kubelet may not change is
// remembered on the Machine as well: root on the host writes annotations of its own Node.
type nodeSync struct {
	// Labels and annotations that match are synced beside those of the managed domains.
	labels, annotations []*regexp.Regexp
}

// apply patches the Node if it lacks anything. One request at most.
func (y nodeSync) apply(ctx context.Context, c client.Client, s *state) error {
	current := s.node.object
	wanted := y.desired(current, s)
	if equality.Semantic.DeepEqual(current.ObjectMeta, wanted.ObjectMeta) && equality.Semantic.DeepEqual(current.Spec, wanted.Spec) {
		return nil
	}
	return c.Patch(ctx, wanted, client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{}))
}

// desired returns the Node as it should be, sharing nothing with the one given.
func (y nodeSync) desired(current *corev1.Node, s *state) *corev1.Node {
	node := current.DeepCopy()
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	labels, annotations := y.managedLabels(s), y.managedAnnotations(s)
	recorded := recordedOn(s.machine)
	replace(node.Labels, node.Annotations[clusterv1.LabelsFromMachineAnnotation], labels, func(key string) bool {
		return !restrictedLabel(key) || recorded[key]
	})
	replace(node.Annotations, node.Annotations[clusterv1.AnnotationsFromMachineAnnotation], annotations, func(string) bool { return true })
	node.Annotations[clusterv1.LabelsFromMachineAnnotation] = keyList(maps.Keys(labels))
	node.Annotations[clusterv1.AnnotationsFromMachineAnnotation] = keyList(maps.Keys(annotations))
	maps.Copy(node.Annotations, identity(s))
	node.Spec.Taints = desiredTaints(node, s, recorded)
	return node
}

func (y nodeSync) managedLabels(s *state) map[string]string {
	labels := map[string]string{}
	for key, value := range s.machine.Labels {
		if y.syncsLabel(key) {
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

func (y nodeSync) managedAnnotations(s *state) map[string]string {
	annotations := map[string]string{}
	for key, value := range s.machine.Annotations {
		if inDomain(key, clusterv1.ManagedNodeAnnotationDomain) || matchesAny(y.annotations, key) {
			annotations[key] = value
		}
	}
	return annotations
}

// identity tells whoever looks at the Node which machine it is; the cluster autoscaler reads it.
func identity(s *state) map[string]string {
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
func desiredTaints(node *corev1.Node, s *state, recorded map[string]bool) []corev1.Taint {
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
		if recorded[id] && !owned[id] && !initial[id] {
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
func outdated(s *state) bool {
	if s.set == nil || s.deployment == nil {
		return false
	}
	return revision.Of(s.set) < revision.Of(s.deployment)
}

// restricted is what the machine wants on its Node that a kubelet may not change there.
func (y nodeSync) restricted(s *state) map[string]bool {
	wanted := map[string]bool{}
	for key := range s.machine.Labels {
		if restrictedLabel(key) && y.syncsLabel(key) {
			wanted[key] = true
		}
	}
	for _, taint := range s.machine.Spec.Taints {
		if taint.Propagation != clusterv1.MachineTaintPropagationOnInitialization {
			wanted[taintID(corev1.Taint{Key: taint.Key, Effect: taint.Effect})] = true
		}
	}
	return wanted
}

// recordedOn is what RestrictedOnNodeAnnotation lists.
func recordedOn(m *clusterv1.Machine) map[string]bool {
	recorded := map[string]bool{}
	for each := range strings.SplitSeq(m.Annotations[policyv1.RestrictedOnNodeAnnotation], ",") {
		if each != "" {
			recorded[each] = true
		}
	}
	return recorded
}

// record notes on the machine what will be on its Node, before it is.
func (y nodeSync) record(s *state) {
	recorded := recordedOn(s.machine)
	before := len(recorded)
	maps.Copy(recorded, y.restricted(s))
	if len(recorded) > before {
		setRecord(s.machine, recorded)
	}
}

// onRecord reports whether the API server has on record what will be on the Node.
func (y nodeSync) onRecord(s *state) bool {
	for each := range y.restricted(s) {
		if !s.recorded[each] {
			return false
		}
	}
	return true
}

// forget leaves of the record what is on the Node, after the rest was taken off.
func (y nodeSync) forget(s *state) {
	if wanted := y.restricted(s); len(wanted) < len(recordedOn(s.machine)) {
		setRecord(s.machine, wanted)
	}
}

func setRecord(m *clusterv1.Machine, recorded map[string]bool) {
	if len(recorded) == 0 {
		delete(m.Annotations, policyv1.RestrictedOnNodeAnnotation)
		return
	}
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	m.Annotations[policyv1.RestrictedOnNodeAnnotation] = keyList(maps.Keys(recorded))
}

// syncsLabel reports whether a label goes to the Node: those of some domains always do.
func (y nodeSync) syncsLabel(key string) bool {
	return strings.HasPrefix(key, clusterv1.NodeRoleLabelPrefix+"/") ||
		inDomain(key, clusterv1.NodeRestrictionLabelDomain) ||
		inDomain(key, clusterv1.ManagedNodeLabelDomain) ||
		matchesAny(y.labels, key)
}

// restrictedLabel reports whether a label is of the domains of Kubernetes, in which a kubelet may change only
// a few labels that describe its host (admission plugin NodeRestriction).
func restrictedLabel(key string) bool {
	return inDomain(key, "kubernetes.io") || inDomain(key, "k8s.io")
}

// inDomain reports whether key has domain, or a subdomain of it, as its prefix.
func inDomain(key, domain string) bool {
	prefix, _, found := strings.Cut(key, "/")
	return found && (prefix == domain || strings.HasSuffix(prefix, "."+domain))
}

func matchesAny(expressions []*regexp.Regexp, key string) bool {
	return slices.ContainsFunc(expressions, func(e *regexp.Regexp) bool { return e.MatchString(key) })
}

// replace takes away the keys that were owned before, where they may be taken, and puts the wanted ones in place.
func replace(all map[string]string, ownedBefore string, wanted map[string]string, may func(key string) bool) {
	for key := range strings.SplitSeq(ownedBefore, ",") {
		if _, keep := wanted[key]; !keep && may(key) {
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
