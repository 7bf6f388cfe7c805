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
	podsAgain = "take the toleration of the taint " + corev1.TaintNodeUnschedulable + ", or spec.nodeName, from the workload whose pods come again"
	// podsStay is for those of them without a claim: the volumes of Pods that a drain skips are not awaited.
	podsStay = "or have the drain leave the pods that come again and have no PersistentVolumeClaim, by their label " + clusterv1.PodDrainLabel +
		"=skip or a MachineDrainRule with the behavior Skip"
)

// maxPods is how many Pods of a Node are read: several times those that a kubelet runs, as some have finished.
const maxPods = 2000

// podsOverdue is what helps against Pods of the Node that should have ended long ago, after their grace periods, or that come again
// each time. It adds which, and is empty where there are none. Where the Pods cannot be read, there may be some.
func (f *Finder) podsOverdue(ctx context.Context, workload *object.Reader, m *clusterv1.Machine, found *Finding) string {
	if m.Status.NodeRef.Name == "" {
		return podsKept
	}
	rules, unread := f.drainRules(ctx, m.Namespace)
	node := &corev1.Node{}
	err := workload.Get(ctx, object.Node, client.ObjectKey{Name: m.Status.NodeRef.Name}, node)
	var decisions []drainplan.Decision
	switch {
	case unread != nil && !object.IsForbidden(unread):
		err = unread
	case err == nil:
		request := drain.Request{Workload: workload, Node: node.Name, Rules: rules, Now: f.Now, MaxPods: maxPods}
		decisions, err = f.decide(ctx, request, m, node)
	}
	if err != nil {
		found.Facts = append(found.Facts, fmt.Sprintf("The Pods of its Node could not be read: %v", err))
		return podsKept
	}
	facts, help := f.describePods(decisions, node, drainStart(m, found))
	found.Facts = append(found.Facts, facts[:min(len(facts), maxFacts)]...)
	if unread != nil && len(facts) > 0 {
		found.Facts = append(found.Facts, fmt.Sprintf("MachineDrainRules, by which a drain leaves Pods on the Node, were not read: %v", unread))
	}
	return strings.Join(help, "; ")
}

// describePods is which Pods keep a drain from its end that began then, and what helps.
func (f *Finder) describePods(decisions []drainplan.Decision, node *corev1.Node, began time.Time) (facts, help []string) {
	add := func(fact string, advice ...string) {
		facts = append(facts, fact)
		for _, one := range advice {
			if !slices.Contains(help, one) {
				help = append(help, one)
			}
		}
	}
	for _, d := range decisions {
		if d.Action != drainplan.Evict && d.Action != drainplan.AwaitTermination {
			continue
		}
		end, how := d.Pod.DeletionTimestamp, comesAgain(d.Pod, node, began)
		again := fmt.Sprintf("Pod %s/%s %s", d.Pod.Namespace, d.Pod.Name, how)
		switch {
		case end != nil && f.Now.Sub(end.Time) > maxWait: // it is the end of the grace period
			add(describePod(d.Pod, f.Now), podsKept)
		case how != "" && hasClaim(d.Pod):
			add(again, podsAgain)
		case how != "":
			add(again, podsAgain, podsStay)
		}
	}
	return facts, help
}

// hasClaim reports whether a Pod has a PersistentVolumeClaim, be it one of a generic ephemeral volume.
func hasClaim(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
}

// drainRules are all MachineDrainRules of a namespace.
func (f *Finder) drainRules(ctx context.Context, namespace string) ([]clusterv1.MachineDrainRule, error) {
	rules := &clusterv1.MachineDrainRuleList{}
	err := f.Client.List(ctx, rules, client.InNamespace(namespace))
	return rules.Items, f.Explain(err, object.MachineDrainRule, namespace)
}

// decide returns what the drain does to each Pod of the Node of a Machine.
func (f *Finder) decide(ctx context.Context, r drain.Request, m *clusterv1.Machine, node *corev1.Node) ([]drainplan.Decision, error) {
	cluster, err := f.readCluster(ctx, ReferenceOf(m))
	if err != nil {
		return nil, err
	}
	r.Subject.MachineLabels = m.Labels
	if cluster != nil {
		r.Subject.ClusterLabels = cluster.Labels
	}
	return drain.Decide(ctx, r, node)
}

// placedLate is how long after a Node was cordoned the scheduler may still place a Pod there that it has decided on before.
const placedLate = time.Minute

// comesAgain is how a Pod came to a Node during its drain, and comes again once it is evicted: the workload permits that. It is
// empty for another, as for one from before the Node was cordoned, which a drain does later where the workload cluster does not answer,
// or for one of a DaemonSet that has failed: the next one stays, and each has the toleration.
func comesAgain(pod *corev1.Pod, node *corev1.Node, began time.Time) string {
	controller := metav1.GetControllerOfNoCopy(pod)
	if controller == nil || controller.Kind == "DaemonSet" || !pod.CreationTimestamp.After(began) {
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
