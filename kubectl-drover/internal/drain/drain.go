// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package drain says what a drain of a Node would do to each of its Pods, without doing it: the same rules as those of the
// drain decide which Pods go, and the API server answers, with a dry run, whether a PodDisruptionBudget permits it now.
package drain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/kubectl-drover/internal/object"
)

// Effect is what a drain does to a Pod.
type Effect string

// The effects, the worst first.
const (
	// Blocked means that the Pod cannot be evicted now.
	Blocked Effect = "blocked"
	// Waits means that the drain waits until the Pod ends by itself.
	Waits Effect = "waits"
	// Evicted means that the Pod would be evicted.
	Evicted Effect = "evicted"
	// Stays means that the Pod is left alone and not awaited.
	Stays Effect = "stays"
)

var order = []Effect{Blocked, Waits, Evicted, Stays}

// Pod is what a drain does to one Pod, and why.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Effect    Effect `json:"effect"`
	Why       string `json:"why,omitempty"`
}

// Request is a Node whose drain is asked about.
type Request struct {
	Workload *object.Reader
	Node     string
	Rules    Rules
}

// Plan returns what a drain does to each Pod of a Node, sorted.
func Plan(ctx context.Context, r Request) ([]Pod, error) {
	kind := object.Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: "pods"}
	namespaces := map[string]labels.Set{}
	var plan []Pod
	err := object.Each(ctx, r.Workload, kind, &corev1.PodList{}, func(page *corev1.PodList) error {
		for i := range page.Items {
			pod := &page.Items[i]
			known, err := namespaceLabels(ctx, r, namespaces, pod.Namespace)
			if err != nil {
				return err
			}
			effect, why := decide(pod, r.Rules, known)
			if effect == Evicted {
				effect, why = evict(ctx, r.Workload, pod)
			}
			plan = append(plan, Pod{pod.Namespace, pod.Name, effect, why})
		}
		return nil
	}, client.MatchingFields{"spec.nodeName": r.Node})
	slices.SortStableFunc(plan, func(a, b Pod) int {
		if d := slices.Index(order, a.Effect) - slices.Index(order, b.Effect); d != 0 {
			return d
		}
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return plan, err
}

// namespaceLabels are read only where a rule selects by them.
func namespaceLabels(ctx context.Context, r Request, known map[string]labels.Set, name string) (labels.Set, error) {
	if !r.Rules.selectNamespaces() {
		return nil, nil
	}
	if set, found := known[name]; found {
		return set, nil
	}
	namespace := &corev1.Namespace{}
	if err := r.Workload.Client.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return nil, err
	}
	known[name] = namespace.Labels
	return known[name], nil
}

// decide applies the documented rules of a drain; the first that applies decides.
func decide(pod *corev1.Pod, rules Rules, namespace labels.Set) (Effect, string) {
	finished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner != nil && owner.Kind == "DaemonSet" && !finished {
		return Stays, "its DaemonSet would create it again"
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return Stays, "it is static"
	}
	switch label := pod.Labels[clusterv1.PodDrainLabel]; {
	case strings.EqualFold(label, "skip"):
		return Stays, "its label " + clusterv1.PodDrainLabel + " is skip"
	case strings.EqualFold(label, "wait-completed"), strings.EqualFold(label, "waitcompleted"):
		return untilFinished(finished, "its label "+clusterv1.PodDrainLabel)
	}
	if rule, found := rules.match(pod, namespace); found {
		switch rule.behavior {
		case clusterv1.MachineDrainRuleDrainBehaviorSkip:
			return Stays, "MachineDrainRule " + rule.name
		case clusterv1.MachineDrainRuleDrainBehaviorWaitCompleted:
			return untilFinished(finished, "MachineDrainRule "+rule.name)
		}
	}
	if pod.DeletionTimestamp != nil {
		return Waits, "it is being deleted already"
	}
	return Evicted, ""
}

func untilFinished(finished bool, why string) (Effect, string) {
	if finished {
		return Stays, "it has finished"
	}
	return Waits, "until it has finished, by " + why
}

// evict asks the API server whether the Pod may be evicted now.
func evict(ctx context.Context, workload *object.Reader, pod *corev1.Pod) (Effect, string) {
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
	}
	err := workload.Client.SubResource("eviction").Create(ctx, pod, eviction, client.DryRunAll)
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return Evicted, losses(pod)
	case apierrors.IsForbidden(err):
		return Evicted, fmt.Sprintf("whether its PodDisruptionBudget permits that is not known: %v", err)
	}
	return Blocked, causes(err)
}

// causes are the message of the API server and what it says about the budget.
func causes(err error) string {
	text := strings.TrimSuffix(err.Error(), ".")
	status, is := err.(apierrors.APIStatus)
	if !is || status.Status().Details == nil {
		return text
	}
	for _, cause := range status.Status().Details.Causes {
		text += ": " + cause.Message
	}
	return text
}

// losses are what is lost with a Pod that is evicted.
func losses(pod *corev1.Pod) string {
	var lost []string
	if slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.EmptyDir != nil }) {
		lost = append(lost, "its emptyDir data is lost")
	}
	if metav1.GetControllerOf(pod) == nil {
		lost = append(lost, "no controller recreates it")
	}
	return strings.Join(lost, ", ")
}
