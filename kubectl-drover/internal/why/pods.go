// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/kubectl-drover/internal/drain"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/runtime/drainplan"
)

// What helps against the Pods that keep a drain from its end.
const (
	podsKept = "see what keeps the pods that are being deleted, or the volumes of those that have ended: " +
		"finalizers, the kubelet of the Node, the CSI driver, or the conditions of a Namespace"
	// podsAgain is for Pods that are created on the Node again each time.
	podsAgain = "take the toleration of the taint " + corev1.TaintNodeUnschedulable + ", or spec.nodeName, from the workload whose pods come again, " +
		"or have the drain leave these pods on the Node, by their label " + clusterv1.PodDrainLabel + "=skip or a MachineDrainRule with the behavior Skip"
)

// podsOverdue is what helps against Pods of the Node that should have ended long ago, after their grace periods, or that come again
// each time. It adds which, and is empty where there are none. Where the Pods cannot be read, there may be some.
func (f *Finder) podsOverdue(ctx context.Context, workload *object.Reader, m *clusterv1.Machine, found *Finding) string {
	node := &corev1.Node{}
	err := workload.Get(ctx, object.Node, client.ObjectKey{Name: m.Status.NodeRef.Name}, node)
	var decisions []drainplan.Decision
	if err == nil {
		decisions, err = f.decide(ctx, workload, m, node)
	}
	if err != nil {
		found.Facts = append(found.Facts, fmt.Sprintf("The Pods of its Node could not be read: %v", err))
		return podsKept
	}
	var facts, help []string
	add := func(fact, advice string) {
		facts = append(facts, fact)
		if !slices.Contains(help, advice) {
			help = append(help, advice)
		}
	}
	for _, d := range decisions {
		if d.Action != drainplan.Evict && d.Action != drainplan.AwaitTermination {
			continue
		}
		if end := d.Pod.DeletionTimestamp; end != nil && f.Now.Sub(end.Time) > maxWait { // it is the end of the grace period
			add(describePod(d.Pod, f.Now), podsKept)
		} else if how := comesAgain(d.Pod, node, drainStart(m, found)); how != "" {
			add(fmt.Sprintf("Pod %s/%s %s", d.Pod.Namespace, d.Pod.Name, how), podsAgain)
		}
	}
	found.Facts = append(found.Facts, facts[:min(len(facts), maxFacts)]...)
	return strings.Join(help, "; ")
}

// decide returns what the drain does to each Pod of the Node of a Machine. Without permission to read MachineDrainRules, there are none.
func (f *Finder) decide(ctx context.Context, workload *object.Reader, m *clusterv1.Machine, node *corev1.Node) ([]drainplan.Decision, error) {
	rules := &clusterv1.MachineDrainRuleList{}
	err := f.Explain(f.Client.List(ctx, rules, client.InNamespace(m.Namespace)), object.MachineDrainRule, m.Namespace)
	if err != nil && !object.IsForbidden(err) {
		return nil, err
	}
	subject := drainplan.RuleInput{MachineLabels: m.Labels}
	cluster, err := f.readCluster(ctx, ReferenceOf(m))
	if err != nil {
		return nil, err
	}
	if cluster != nil {
		subject.ClusterLabels = cluster.Labels
	}
	return drain.Decide(ctx, drain.Request{Workload: workload, Node: node.Name, Subject: subject, Rules: rules.Items, Now: f.Now}, node)
}

// placedLate is how long after a Node was cordoned the scheduler may still place a Pod there that it has decided on before.
const placedLate = time.Minute

// comesAgain is how a Pod came to a Node during its drain, and comes again once it is evicted: the workload permits that. It is
// empty for another, as for one from before the Node was cordoned, which a drain does later where the workload cluster does not answer.
func comesAgain(pod *corev1.Pod, node *corev1.Node, began time.Time) string {
	if metav1.GetControllerOfNoCopy(pod) == nil || !pod.CreationTimestamp.After(began) {
		return ""
	}
	cordon := &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	if slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(klog.Background(), cordon, false) }) {
		return "was scheduled to the Node during the drain: it tolerates the taint of a Node that is cordoned"
	}
	for _, taint := range node.Spec.Taints {
		if taint.MatchTaint(cordon) && taint.TimeAdded != nil && pod.CreationTimestamp.After(taint.TimeAdded.Add(placedLate)) {
			return "was placed on the Node during the drain without the scheduler of Kubernetes, as with spec.nodeName"
		}
	}
	return ""
}

// describePod is about a Pod whose grace period has passed.
func describePod(pod *corev1.Pod, now time.Time) string {
	text := fmt.Sprintf("The grace period of Pod %s/%s has passed for %s", pod.Namespace, pod.Name, duration.HumanDuration(now.Sub(pod.DeletionTimestamp.Time)))
	if len(pod.Finalizers) > 0 {
		text += ", and it has the finalizers " + strings.Join(pod.Finalizers, ", ")
	}
	return text
}
