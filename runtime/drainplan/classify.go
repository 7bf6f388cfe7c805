// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package drainplan decides what the drain of a Node does to each of its Pods: the documented rules, MachineDrainRules among
// them, and the order. It evicts nothing. Package drain of machine-controller acts by it, and `kubectl drover drain --dry-run`
// tells it.
package drainplan

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Action is what is to be done with a Pod.
type Action string

// The actions.
const (
	// Skip leaves the Pod alone and does not wait for it.
	Skip Action = "Skip"
	// Evict uses the eviction API, which observes the PodDisruptionBudgets.
	Evict Action = "Evict"
	// Delete deletes the Pod past its PodDisruptionBudget, because the force deadline leaves no more time.
	Delete Action = "Delete"
	// AwaitTermination waits: the Pod is being deleted already.
	AwaitTermination Action = "AwaitTermination"
	// AwaitCompletion waits until the Pod has finished by itself.
	AwaitCompletion Action = "AwaitCompletion"
)

// Reason is the rule that decided.
type Reason string

// The reasons. An empty Reason is the default: every other Pod is evicted.
const (
	ReasonDaemonSet       Reason = "DaemonSet"
	ReasonStatic          Reason = "Static"
	ReasonLabel           Reason = "Label"
	ReasonRule            Reason = "Rule"
	ReasonCompleted       Reason = "Completed"
	ReasonLongTerminating Reason = "LongTerminating"
	ReasonForceDeadline   Reason = "ForceDeadline"
)

// Warnings about Pods that are evicted all the same.
const (
	WarningEmptyDir  = "its emptyDir data is lost"
	WarningUnmanaged = "no controller recreates it"
	WarningOrphaned  = "its DaemonSet is gone"
)

// Input is the input of Classify besides the Pods.
type Input struct {
	Now time.Time
	// Unreachable means that the kubelet does not report, so that no Pod can be observed to terminate.
	Unreachable bool
	// ForceDeadline is when the last Pod must have ended; nil: never by force.
	ForceDeadline *time.Time
	Rules         Rules
	// NamespaceLabels are needed for the rules that select Namespaces only.
	NamespaceLabels map[string]labels.Set
	// Orphaned are Pods whose DaemonSet no longer exists.
	Orphaned map[types.UID]bool
}

// Decision is what is to be done with one Pod and why.
type Decision struct {
	Pod      *corev1.Pod
	Action   Action
	Reason   Reason
	Rule     string // name of the MachineDrainRule if Reason is ReasonRule
	Order    int32
	Warnings []string
	// GraceSeconds overrides the grace period of the Pod.
	GraceSeconds *int64
}

// Classify decides for each Pod by the documented rules, the first that applies. Sorted by namespace and name.
func Classify(pods []*corev1.Pod, v Input) []Decision {
	decisions := make([]Decision, 0, len(pods))
	for _, pod := range pods {
		decisions = append(decisions, v.decide(pod))
	}
	slices.SortFunc(decisions, func(a, b Decision) int { return compareNames(a.Pod, b.Pod) })
	return decisions
}

func (v Input) decide(pod *corev1.Pod) Decision {
	for _, check := range []func(*corev1.Pod) (Decision, bool){
		v.longTerminating, // no kubelet will ever confirm these
		v.daemonSet,       // its controller would recreate it at once
		v.static,          // the API server does not control these
		v.label,           // the label of the Pod
		v.rule,            // the first MachineDrainRule by name
	} {
		if d, decided := check(pod); decided {
			return v.finalDecision(pod, d)
		}
	}
	return v.finalDecision(pod, Decision{Action: Evict})
}

// finalDecision applies the state of the Pod and the deadline to the decision of the rules.
func (v Input) finalDecision(pod *corev1.Pod, d Decision) Decision {
	d.Pod = pod
	if d.Action == Skip {
		return d
	}
	if d.Action == AwaitCompletion && Finished(pod) {
		return Decision{Pod: pod, Action: Skip, Reason: ReasonCompleted, Rule: d.Rule}
	}
	if pod.DeletionTimestamp != nil {
		d.Action = AwaitTermination
	}
	if grace, due := v.forced(pod); due {
		d.Action, d.Reason, d.GraceSeconds = Delete, ReasonForceDeadline, &grace
	}
	if d.Action == Evict || d.Action == Delete {
		d.Warnings = v.warnings(pod)
	}
	if d.Action == Evict && v.Unreachable {
		d.GraceSeconds = new(int64(1))
	}
	return d
}

// longTerminating skips Pods whose termination only a stopped kubelet could confirm: their deletion timestamp, which
// includes the grace period, passed more than a second ago.
func (v Input) longTerminating(pod *corev1.Pod) (Decision, bool) {
	if !v.Unreachable && !v.pastDeadline() || pod.DeletionTimestamp == nil {
		return Decision{}, false
	}
	if int(v.Now.Sub(pod.DeletionTimestamp.Time).Seconds()) <= 1 {
		return Decision{}, false
	}
	return Decision{Action: Skip, Reason: ReasonLongTerminating}, true
}

func (v Input) daemonSet(pod *corev1.Pod) (Decision, bool) {
	if daemonSetOf(pod) == nil || Finished(pod) || v.Orphaned[pod.UID] {
		return Decision{}, false
	}
	return Decision{Action: Skip, Reason: ReasonDaemonSet}, true
}

func (v Input) static(pod *corev1.Pod) (Decision, bool) {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return Decision{Action: Skip, Reason: ReasonStatic}, mirror
}

// label takes "skip" and "wait-completed"; another value is the same as none.
func (v Input) label(pod *corev1.Pod) (Decision, bool) {
	value := pod.Labels[clusterv1.PodDrainLabel]
	switch {
	case strings.EqualFold(value, "skip"):
		return Decision{Action: Skip, Reason: ReasonLabel}, true
	case strings.EqualFold(value, "wait-completed"), strings.EqualFold(value, "waitcompleted"):
		return Decision{Action: AwaitCompletion, Reason: ReasonLabel}, true
	}
	return Decision{}, false
}

func (v Input) rule(pod *corev1.Pod) (Decision, bool) {
	r, found := v.Rules.match(pod, v.namespaceLabels(pod.Namespace))
	if !found {
		return Decision{}, false
	}
	d := Decision{Action: Evict, Reason: ReasonRule, Rule: r.name, Order: r.order}
	switch r.behavior {
	case clusterv1.MachineDrainRuleDrainBehaviorSkip:
		d.Action = Skip
	case clusterv1.MachineDrainRuleDrainBehaviorWaitCompleted:
		d.Action = AwaitCompletion
	}
	return d, true
}

// namespaceLabels falls back on the one label that every Namespace has, for a Namespace that was deleted meanwhile.
func (v Input) namespaceLabels(name string) labels.Set {
	if set, found := v.NamespaceLabels[name]; found {
		return set
	}
	return labels.Set{corev1.LabelMetadataName: name}
}

func (v Input) warnings(pod *corev1.Pod) []string {
	if Finished(pod) || pod.DeletionTimestamp != nil {
		return nil
	}
	var warnings []string
	if v.Orphaned[pod.UID] {
		warnings = append(warnings, WarningOrphaned)
	}
	if slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.EmptyDir != nil }) {
		warnings = append(warnings, WarningEmptyDir)
	}
	if metav1.GetControllerOf(pod) == nil {
		warnings = append(warnings, WarningUnmanaged)
	}
	return warnings
}

// Finished reports whether the containers of a Pod have ended for good.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// daemonSetOf returns the owning DaemonSet, of any API group: some replace the built-in kind.
func daemonSetOf(pod *corev1.Pod) *metav1.OwnerReference {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind != "DaemonSet" {
		return nil
	}
	return ref
}

func compareNames(a, b *corev1.Pod) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}
