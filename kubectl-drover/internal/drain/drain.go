// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package drain says what a drain of a Node would do to each of its Pods, without doing it: package drainplan decides, as it does
// for the drain itself, and the API server answers, with a dry run, whether each Pod may be evicted now.
package drain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/kubectl-drover/internal/object"
	"drover.io/runtime/drainplan"
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
	// Order is that of its MachineDrainRule: Pods of smaller orders go first.
	Order int32  `json:"order,omitempty"`
	Why   string `json:"why,omitempty"`
}

// Request is a Node whose drain is asked about.
type Request struct {
	Workload *object.Reader
	Node     string
	// Subject is the Machine of the Node, and Rules are all MachineDrainRules in its namespace.
	Subject drainplan.RuleInput
	Rules   []clusterv1.MachineDrainRule
	Now     time.Time
	// MaxPods is how many Pods the Node may have, so that not more are read; 0 is any number.
	MaxPods int
}

// Plan returns what a drain does to each Pod of a Node, sorted.
func Plan(ctx context.Context, r Request) ([]Pod, error) {
	node := &corev1.Node{}
	if err := r.Workload.Get(ctx, object.Node, client.ObjectKey{Name: r.Node}, node); err != nil {
		return nil, err
	}
	decisions, err := Decide(ctx, r, node)
	if err != nil {
		return nil, err
	}
	plan := make([]Pod, 0, len(decisions))
	for _, decision := range decisions {
		effect, why := effectOf(ctx, r.Workload, decision)
		plan = append(plan, Pod{decision.Pod.Namespace, decision.Pod.Name, effect, decision.Order, why})
	}
	slices.SortStableFunc(plan, func(a, b Pod) int { return slices.Index(order, a.Effect) - slices.Index(order, b.Effect) })
	return plan, nil
}

// Decide returns the decision about each Pod of a Node, sorted by name. Force deadlines, which begin with a drain, are left out.
func Decide(ctx context.Context, r Request, node *corev1.Node) ([]drainplan.Decision, error) {
	input := drainplan.Input{Now: r.Now, Unreachable: drainplan.Unreachable(node)}
	var err error
	if input.Rules, err = drainplan.RulesFor(r.Subject, r.Rules); err != nil {
		return nil, err
	}
	pods, err := podsOf(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := input.Observe(ctx, r.Workload.Client, pods); err != nil {
		return nil, err
	}
	return drainplan.Classify(pods, input), nil
}

func podsOf(ctx context.Context, r Request) ([]*corev1.Pod, error) {
	kind := object.Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: "pods"}
	var pods []*corev1.Pod
	err := object.Each(ctx, r.Workload, kind, &corev1.PodList{}, func(page *corev1.PodList) error {
		for i := range page.Items {
			pods = append(pods, &page.Items[i])
		}
		if r.MaxPods > 0 && len(pods) > r.MaxPods {
			return fmt.Errorf("there are more than %d on Node %q", r.MaxPods, r.Node)
		}
		return nil
	}, client.MatchingFields{"spec.nodeName": r.Node})
	return pods, err
}

// effectOf is what becomes of a Pod by the decision about it.
func effectOf(ctx context.Context, workload *object.Reader, d drainplan.Decision) (Effect, string) {
	switch d.Action {
	case drainplan.Skip:
		return Stays, skipped(d)
	case drainplan.AwaitTermination:
		return Waits, "it is being deleted already"
	case drainplan.AwaitCompletion:
		return Waits, "until it has finished, by " + decidedBy(d)
	}
	return evict(ctx, workload, d)
}

// skipped is why a Pod is left alone.
func skipped(d drainplan.Decision) string {
	switch d.Reason {
	case drainplan.ReasonDaemonSet:
		return "its DaemonSet would create it again"
	case drainplan.ReasonStatic:
		return "it is static"
	case drainplan.ReasonCompleted:
		return "it has finished"
	case drainplan.ReasonLongTerminating:
		return "it is being deleted, and the kubelet of the Node does not report its end"
	}
	return "by " + decidedBy(d)
}

func decidedBy(d drainplan.Decision) string {
	if d.Reason == drainplan.ReasonRule {
		return "MachineDrainRule " + d.Rule
	}
	return "its label " + clusterv1.PodDrainLabel
}

// evict asks the API server whether the Pod may be evicted now.
func evict(ctx context.Context, workload *object.Reader, d drainplan.Decision) (Effect, string) {
	eviction := &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Pod.Namespace, Name: d.Pod.Name},
		DeleteOptions: &metav1.DeleteOptions{
			DryRun: []string{metav1.DryRunAll}, GracePeriodSeconds: d.GraceSeconds, Preconditions: &metav1.Preconditions{UID: &d.Pod.UID},
		},
	}
	err := workload.Client.SubResource("eviction").Create(ctx, d.Pod, eviction, client.DryRunAll)
	switch {
	case err == nil:
		return Evicted, strings.Join(d.Warnings, ", ")
	case apierrors.IsNotFound(err):
		return Stays, "it has ended meanwhile"
	case apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return Waits, "its Namespace is being deleted"
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

// String is a line about the Pod.
func (p Pod) String() string {
	line := fmt.Sprintf("%-8s %s/%s", p.Effect, p.Namespace, p.Name)
	if p.Why != "" {
		line += ": " + p.Why
	}
	if p.Order != 0 {
		line += fmt.Sprintf(" (order %d)", p.Order)
	}
	return line
}
