// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodesync copies labels, annotations and taints from a Machine to its Node. It decides what the Node should have,
// and writes it there with one request; which Node that is, and when it is written, is decided by the machine controller.
package nodesync

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/machine-controller/internal/rollout/revision"
)

// Sync copies labels, annotations and taints from a machine to its Node. It is
// authoritative for what it has set there, which it records in annotations of the Node so that it
// can remove it, and never changes anything else. What a kubelet may not change is recorded on the
// Machine as well, because root on the host can write the annotations of its own Node.
type Sync struct {
	// Labels and Annotations that match are synced in addition to those of the managed domains.
	Labels, Annotations []*regexp.Regexp
}

// State is a Machine with its owners, its Node, and what its InfraMachine reports.
type State struct {
	Machine    *clusterv1.Machine
	MachineSet *clusterv1.MachineSet
	Deployment *clusterv1.MachineDeployment
	Node       *corev1.Node
	// Interruptible is what the InfraMachine reports; nil while that is not known.
	Interruptible *bool
}

// Apply patches the Node if it lacks anything. One request at most. Before [Sync.TrimRecord] removes anything, the request is
// sent in any case: it conflicts if the cache does not show yet what was set on the Node.
func (y Sync) Apply(ctx context.Context, c client.Client, s State) error {
	current := s.Node
	wanted := y.desired(current, s)
	same := equality.Semantic.DeepEqual(current.ObjectMeta, wanted.ObjectMeta) && equality.Semantic.DeepEqual(current.Spec, wanted.Spec)
	if same && !y.trims(s.Machine) {
		return nil
	}
	if err := c.Patch(ctx, wanted, client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{})); err != nil || same {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("synced labels, annotations and taints to Node", "Node", klog.KObj(current))
	return nil
}

// desired returns the Node as it should be, sharing nothing with the one given.
func (y Sync) desired(current *corev1.Node, s State) *corev1.Node {
	node := current.DeepCopy()
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	labels, annotations := y.managedLabels(s), y.managedAnnotations(s)
	recorded := Recorded(s.Machine)
	replace(node.Labels, node.Annotations[clusterv1.LabelsFromMachineAnnotation], labels, func(key string) bool {
		return !restrictedLabel(key) || recorded[key]
	})
	replace(node.Annotations, node.Annotations[clusterv1.AnnotationsFromMachineAnnotation], annotations, func(string) bool { return true })
	node.Annotations[clusterv1.LabelsFromMachineAnnotation] = keyList(maps.Keys(labels))
	node.Annotations[clusterv1.AnnotationsFromMachineAnnotation] = keyList(maps.Keys(annotations))
	delete(node.Annotations, clusterv1.OwnerKindAnnotation)
	delete(node.Annotations, clusterv1.OwnerNameAnnotation)
	maps.Copy(node.Annotations, machineAnnotations(s))
	node.Spec.Taints = desiredTaints(node, s, recorded)
	return node
}

func (y Sync) managedLabels(s State) map[string]string {
	labels := map[string]string{}
	for key, value := range s.Machine.Labels {
		if y.syncsLabel(key) {
			labels[key] = value
		}
	}
	_, interruptible := s.Node.Labels[clusterv1.InterruptibleLabel]
	if s.Interruptible != nil { // otherwise the label stays as it is
		interruptible = *s.Interruptible
	}
	if interruptible {
		labels[clusterv1.InterruptibleLabel] = ""
	}
	return labels
}

func (y Sync) managedAnnotations(s State) map[string]string {
	annotations := map[string]string{}
	for key, value := range s.Machine.Annotations {
		if inDomain(key, clusterv1.ManagedNodeAnnotationDomain) || matchesAny(y.Annotations, key) {
			annotations[key] = value
		}
	}
	return annotations
}

// machineAnnotations identify the machine on the Node; the cluster autoscaler reads them.
func machineAnnotations(s State) map[string]string {
	annotations := map[string]string{
		clusterv1.ClusterNameAnnotation:      s.Machine.Spec.ClusterName,
		clusterv1.ClusterNamespaceAnnotation: s.Machine.Namespace,
		clusterv1.MachineAnnotation:          s.Machine.Name,
	}
	if owner := metav1.GetControllerOf(s.Machine); owner != nil {
		annotations[clusterv1.OwnerKindAnnotation] = owner.Kind
		annotations[clusterv1.OwnerNameAnnotation] = owner.Name
	}
	return annotations
}

// desiredTaints are the Node's taints with those of the machine, without the taint that prevents
// scheduling until the first sync, and with the taint of a Node that has an outdated revision.
func desiredTaints(node *corev1.Node, s State, recorded map[string]bool) []corev1.Taint {
	taints := slices.Clone(node.Spec.Taints)
	taints = without(taints, clusterv1.NodeUninitializedTaint)

	// Only before the first sync the annotation does not exist; afterwards it may be empty.
	ownedBefore, initialized := node.Annotations[clusterv1.TaintsFromMachineAnnotation]
	owned, initial := map[string]bool{}, map[string]bool{}
	for _, taint := range syncedTaints(s.Machine) {
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

// syncedTaints are the taints of a Machine without those that follow from its state: a Machine that was stored before the API server
// refused them may list them.
func syncedTaints(m *clusterv1.Machine) []clusterv1.MachineTaint {
	return slices.DeleteFunc(slices.Clone(m.Spec.Taints), func(t clusterv1.MachineTaint) bool {
		return t.Key == clusterv1.NodeUninitializedTaint.Key || t.Key == clusterv1.NodeOutdatedRevisionTaint.Key
	})
}

// outdated reports whether the machine's MachineSet has been superseded.
func outdated(s State) bool {
	if s.MachineSet == nil || s.Deployment == nil {
		return false
	}
	return revision.Of(s.MachineSet) < revision.Of(s.Deployment)
}

// restricted is what the machine has on its Node that a kubelet may not change there.
func (y Sync) restricted(m *clusterv1.Machine) map[string]bool {
	wanted := map[string]bool{}
	for key := range m.Labels {
		if restrictedLabel(key) && y.syncsLabel(key) {
			wanted[key] = true
		}
	}
	for _, taint := range syncedTaints(m) {
		if taint.Propagation != clusterv1.MachineTaintPropagationOnInitialization {
			wanted[taintID(corev1.Taint{Key: taint.Key, Effect: taint.Effect})] = true
		}
	}
	return wanted
}

// Recorded is what RestrictedOnNodeAnnotation of the Machine lists.
func Recorded(m *clusterv1.Machine) map[string]bool {
	recorded := map[string]bool{}
	for each := range strings.SplitSeq(m.Annotations[droverpolicyv1.RestrictedOnNodeAnnotation], ",") {
		if each != "" {
			recorded[each] = true
		}
	}
	return recorded
}

// RecordRestricted records on the Machine what will be set on its Node, before it is.
func (y Sync) RecordRestricted(m *clusterv1.Machine) {
	recorded := Recorded(m)
	before := len(recorded)
	maps.Copy(recorded, y.restricted(m))
	if len(recorded) > before {
		setRecord(m, recorded)
	}
}

// IsPersisted reports whether the record in the API server has all that will be set on the Node.
func (y Sync) IsPersisted(m *clusterv1.Machine, recorded map[string]bool) bool {
	for each := range y.restricted(m) {
		if !recorded[each] {
			return false
		}
	}
	return true
}

// TrimRecord removes from the record what was removed from the Node.
func (y Sync) TrimRecord(m *clusterv1.Machine) {
	if y.trims(m) {
		setRecord(m, y.restricted(m))
	}
}

// trims reports whether the record has what the machine does not have any more.
func (y Sync) trims(m *clusterv1.Machine) bool { return len(y.restricted(m)) < len(Recorded(m)) }

func setRecord(m *clusterv1.Machine, recorded map[string]bool) {
	if len(recorded) == 0 {
		delete(m.Annotations, droverpolicyv1.RestrictedOnNodeAnnotation)
		return
	}
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	m.Annotations[droverpolicyv1.RestrictedOnNodeAnnotation] = keyList(maps.Keys(recorded))
}

// syncsLabel reports whether a label is copied to the Node: those of some domains always are.
func (y Sync) syncsLabel(key string) bool {
	return strings.HasPrefix(key, clusterv1.NodeRoleLabelPrefix+"/") ||
		inDomain(key, clusterv1.NodeRestrictionLabelDomain) ||
		inDomain(key, clusterv1.ManagedNodeLabelDomain) ||
		matchesAny(y.Labels, key)
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

// replace removes the keys that were owned before, where they may be removed, and sets the wanted ones.
func replace(all map[string]string, ownedBefore string, wanted map[string]string, mayRemove func(key string) bool) {
	for key := range strings.SplitSeq(ownedBefore, ",") {
		if _, keep := wanted[key]; !keep && mayRemove(key) {
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
