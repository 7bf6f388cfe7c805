// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/api/reason"
	"drover.io/kubectl-drover/internal/object/objecttest"
)

// TestDrainNamesItsBudgets has budgets in the message of a drain, of which one was deleted and one is too many.
func TestDrainNamesItsBudgets(t *testing.T) {
	t.Parallel()
	budget := func(name string, spec policyv1.PodDisruptionBudgetSpec) *policyv1.PodDisruptionBudget {
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: spec}
		b.Status = policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 2, ExpectedPods: 3, DesiredHealthy: 2}
		return b
	}
	alone := budget("d", policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(0))})
	alone.Status = policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 1}
	if got, want := describeBudget(alone), "PodDisruptionBudget shop/d has maxUnavailable 0: 1 pod is healthy, and 0 may be evicted now"; got != want {
		t.Errorf("of pods without a controller: %q, want %q", got, want)
	}
	workload := objecttest.Reader(t, interceptor.Funcs{},
		budget("a", policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(2))}), budget("c", policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromString("0%"))}))
	const message = "Draining:\n* Pods shop/x: PodDisruptionBudgets shop/a, shop/gone, shop/a allow none\n* PodDisruptionBudget shop/c allows none\n* PodDisruptionBudget shop/d allows none"
	m := deleted(clusterv1.MachineDeletingDrainingNodeReason, message)
	found, err := finder(t, workload, cluster(), m).machine(t.Context(), m)
	if err != nil || len(found.Facts) != 3 {
		t.Fatalf("got %+v, error %v", found, err)
	}
	if found.Facts[0] != "PodDisruptionBudget shop/a has minAvailable 2: 2 of 3 pods are healthy, 2 must be, so 0 may be evicted now" ||
		!strings.HasPrefix(found.Facts[1], "PodDisruptionBudget shop/gone could not be read: ") || !strings.Contains(found.Facts[2], "shop/c has maxUnavailable 0%:") {
		t.Errorf("facts %q", found.Facts)
	}
	unread, err := finder(t, nil, cluster(), m).machine(t.Context(), m)
	if err != nil || len(unread.Facts) != 1 || unread.Facts[0] != "The workload cluster was not read: refused" {
		t.Errorf("without the workload cluster: %+v, error %v", unread, err)
	}
}

// TestWhoContinuesADrain has the messages of a drain without a budget.
func TestWhoContinuesADrain(t *testing.T) {
	t.Parallel()
	const unread = "The workload cluster was not read: refused"
	for name, test := range map[string]struct {
		message string
		cluster *clusterv1.Cluster
		want    reason.Actor
		fact    string
	}{
		"is Drover where pods end by themselves":               {"Draining:\n* Pod a/b: waiting for completion", cluster(), reason.Drover, ""},
		"is the administrator where one does not end for long": {"Draining:\n* Pod a/b: being deleted, waiting for the kubelet to end them\n* Pod a/c: waiting for completion", cluster(), reason.WorkloadAdmin, unread},
		"is Drover where Pods end, and more are not named":     {"Draining:\n* Pod a/b: waiting for completion\n* 7 more Pods for other reasons", cluster(), reason.Drover, ""},
		"is the administrator where a line has no cause":       {"Draining:\n* Pod a/b: waiting for completion\n* Pod a/c", cluster(), reason.WorkloadAdmin, ""},
		"is the administrator where a refusal ends like these": {"Draining:\n* Pod a/b: waiting for completion\n* Pod a/c: eviction was refused: not now, for other reasons", cluster(), reason.WorkloadAdmin, ""},
		"is the administrator where a volume stays for long": {
			"Draining:\n* Pod a/b: next when the volumes of the Pod before are detached, still attached: PersistentVolumeClaim a/data", cluster(), reason.WorkloadAdmin, unread,
		},
		"is the administrator where nothing ends":                  {"Draining:\n* Pod a/b: next, limited per pass", cluster(), reason.WorkloadAdmin, unread},
		"is the administrator where a Namespace stays for long":    {"Draining:\n* Pod a/b: the Namespace is being deleted, waiting for kube-controller-manager", cluster(), reason.WorkloadAdmin, unread},
		"is Drover where others follow by drain order":             {"Draining:\n* Pod a/b: waiting for completion\n* Pod a/c: later, by drain order", cluster(), reason.Drover, ""},
		"is the administrator where a budget allows none for long": {"Draining:\n* Pod a/b: PodDisruptionBudget a/x allows no disruption now", cluster(), reason.WorkloadAdmin, unread},
		"is the administrator where a refusal quotes a cause":      {"Draining:\n* Pod a/b: eviction was refused: waiting for completion", cluster(), reason.WorkloadAdmin, ""},
		"is the administrator where one eviction is refused":       {"Draining:\n* Pod a/b: waiting for completion\n* Pod a/c: refused by a webhook", cluster(), reason.WorkloadAdmin, ""},
		"is the operator where a rule is wrong":                    {`MachineDrainRule "r" cannot be applied: spec.pods[0].selector: no; correct or delete the rule`, cluster(), reason.Operator, ""},
		"is the administrator without a line about a pod":          {"Draining", cluster(), reason.WorkloadAdmin, ""},
		"is the administrator while there is no connection":        {"Draining:\n* Pod a/b: waiting for completion", cluster(unconnected), reason.WorkloadAdmin, "The Cluster is not well: the API server of the workload cluster is not connected; meanwhile nothing is created, replaced or drained for it"},
		"is not changed by a Cluster that is not there":            {"Draining:\n* Pod a/b: waiting for completion", nil, reason.Drover, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := deleted(clusterv1.MachineDeletingDrainingNodeReason, test.message)
			f := finder(t, nil, m)
			if test.cluster != nil {
				f = finder(t, nil, m, test.cluster)
			}
			found, err := f.machine(t.Context(), m)
			if err != nil || found.Actor != test.want || strings.Join(found.Facts, "") != test.fact {
				t.Errorf("got %+v, error %v", found, err)
			}
		})
	}
}

// TestDrainThatWaitsForTheWorkloadCluster has the messages of a step that cannot read the workload cluster, or may not cordon the Node.
func TestDrainThatWaitsForTheWorkloadCluster(t *testing.T) {
	t.Parallel()
	const (
		unanswered = "Waiting for the workload cluster to answer"
		unread     = "Waiting for the Nodes of the workload cluster to be read, to find Node m"
		unfound    = `Waiting to find Node m: nodes is forbidden: User "x" cannot list resource "nodes"`
		refused    = `cordoning Node "m": nodes "m" is forbidden: User "x" cannot patch resource "nodes"`
		drains     = clusterv1.MachineDeletingDrainingNodeReason
		detaches   = clusterv1.MachineDeletingWaitingForVolumeDetachReason
		skipDrain  = "to go on without a drain, set the annotation " + clusterv1.ExcludeNodeDrainingAnnotation + " on the Machine"
		skipDetach = "to go on without waiting for the volumes, though some clouds delete an attached disk with the instance, set the annotation " + clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation + " on the Machine"
	)
	for name, test := range map[string]struct {
		stage, message string
		began          time.Duration
		want           Finding
	}{
		"and has no answer":                   {drains, unanswered, 30 * time.Minute, Finding{Actor: reason.Drover, Meaning: awaitsAnswer}},
		"and has no answer for long":          {drains, unanswered, 31 * time.Minute, Finding{Actor: reason.WorkloadAdmin, Meaning: awaitsAnswer, Help: "make the workload cluster answer; " + skipDrain, Command: "kubectl drover why cluster/c --namespace n"}},
		"and has not read its Nodes":          {drains, unread, time.Minute, Finding{Actor: reason.Drover, Meaning: awaitsAnswer}},
		"and may not read its Nodes":          {drains, unfound, time.Minute, Finding{Actor: reason.WorkloadAdmin, Meaning: nodeRefused, Help: permitNode + "; " + skipDrain}},
		"and may not cordon the Node":         {drains, refused, time.Minute, Finding{Actor: reason.WorkloadAdmin, Meaning: nodeRefused, Help: permitNode + "; " + skipDrain}},
		"for volumes":                         {detaches, unanswered, time.Minute, Finding{Actor: reason.Drover, Meaning: awaitsAnswer}},
		"for volumes, for long":               {detaches, unanswered, 31 * time.Minute, Finding{Actor: reason.WorkloadAdmin, Meaning: awaitsAnswer, Help: "make the workload cluster answer; " + skipDetach, Command: "kubectl drover why cluster/c --namespace n"}},
		"for volumes, and may not read Nodes": {detaches, unfound, time.Minute, Finding{Actor: reason.WorkloadAdmin, Meaning: nodeRefused, Help: permitNode + "; " + skipDetach}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := deleted(test.stage, test.message)
			m.Status.Deletion = &clusterv1.MachineDeletionStatus{NodeDrainStartTime: ago(test.began), WaitForNodeVolumeDetachStartTime: ago(test.began)}
			found, err := finder(t, nil, m, cluster()).machine(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			got := Finding{Actor: found.Actor, Meaning: found.Meaning, Help: found.Help, Command: found.Command, Facts: found.Facts}
			if diff := cmp.Diff(test.want, got, cmpopts.IgnoreUnexported(Finding{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatADrainWaitsForHasTimeToPass: a drain waits for Pods until they are overdue, and not from its own beginning.
func TestWhatADrainWaitsForHasTimeToPass(t *testing.T) {
	t.Parallel()
	pod := func(name string, ended time.Duration, owner string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Finalizers: []string{"x/y"}, DeletionTimestamp: new(ago(ended))}}
		p.Spec.NodeName = "node"
		p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}} // of each Pod
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: owner, Controller: new(true)}}
		}
		return p
	}
	const (
		ending      = "Draining:\n* Pods a/b, a/c: being deleted, waiting for the kubelet to end them"
		budget      = "Draining:\n* Pod a/b: PodDisruptionBudget a/x allows no disruption now\n* Pod a/c: PodDisruptionBudgets a/y has changed and waits for the disruption controller"
		overdue     = "The grace period of Pod a/b has passed for 31m, and it has the finalizers x/y"
		goesOn      = "it goes on when"
		disruptable = "make the workload disruptable; "
		again       = "Pod a/b was scheduled to the Node during the drain: it tolerates the taint of a Node that is cordoned"
		placed      = "Pod a/b was placed on the Node during the drain without the scheduler of Kubernetes, as with spec.nodeName"
		held        = "The grace period of Pod a/d has passed for 31m, and it has the finalizers x/y"
		noBudget    = `PodDisruptionBudget a/x could not be read: poddisruptionbudgets.policy "x" not found; PodDisruptionBudget a/y could not be read: poddisruptionbudgets.policy "y" not found`
	)
	tolerant := func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} }
	// created is a Pod that came to the Node during the drain, and is not being deleted yet.
	created := func(before time.Duration, owner string, changes ...func(*corev1.Pod)) *corev1.Pod {
		p := pod("b", 0, owner)
		p.CreationTimestamp, p.DeletionTimestamp, p.Finalizers = ago(before), nil, nil
		for _, change := range changes {
			change(p)
		}
		return p
	}
	deletedNow := func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = new(ago(-30*time.Second)), []string{"x/y"} }
	static := func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }
	failed := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	withClaim := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	}
	ephemeral := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
	}
	emptyDir := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	}
	named := func(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Name = name } }
	skipped := func(p *corev1.Pod) { p.Labels = map[string]string{clusterv1.PodDrainLabel: "skip"} }
	byRule := func(p *corev1.Pod) { p.Labels = map[string]string{"stays": "true"} }
	completes := func(p *corev1.Pod) { p.Labels = map[string]string{clusterv1.PodDrainLabel: "wait-completed"} }
	rule := &clusterv1.MachineDrainRule{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r"}}
	rule.Spec.Machines = []clusterv1.MachineDrainRuleMachineSelector{{ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"of": "c"}}}}
	rule.Spec.Pods = []clusterv1.MachineDrainRulePodSelector{{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"stays": "true"}}}}
	rule.Spec.Drain.Behavior = clusterv1.MachineDrainRuleDrainBehaviorSkip
	c := cluster()
	c.Labels = map[string]string{"of": "c"}
	node := nodeNamed("node", "")
	node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule, TimeAdded: new(ago(time.Hour))}}
	elsewhere := pod("d", time.Hour, "")
	elsewhere.Spec.NodeName = "another"
	for name, test := range map[string]struct {
		message string
		began   time.Duration
		pods    []client.Object
		want    reason.Actor
		facts   string
		help    string
	}{
		"a drain that began now":                   {ending, 30 * time.Minute, []client.Object{pod("b", 31*time.Minute, "")}, reason.Drover, "", goesOn},
		"a Pod deleted now":                        {ending, 2 * time.Hour, []client.Object{pod("b", -30*time.Second, ""), pod("c", 30*time.Minute, "ReplicaSet"), elsewhere}, reason.Drover, "", goesOn},
		"a Pod deleted long ago":                   {ending, 2 * time.Hour, []client.Object{pod("b", 31*time.Minute, "StatefulSet"), pod("c", time.Minute, "")}, reason.WorkloadAdmin, overdue, podsKept},
		"Pods that come again":                     {ending, 2 * time.Hour, []client.Object{created(time.Minute, "ReplicaSet", tolerant, deletedNow)}, reason.WorkloadAdmin, again, podsAgain},
		"Pods that come again, between two passes": {ending, 2 * time.Hour, []client.Object{created(time.Second, "ReplicaSet", tolerant)}, reason.WorkloadAdmin, again, podsAgain},
		"Pods that come again by their nodeName":   {ending, 2 * time.Hour, []client.Object{created(time.Minute, "ReplicaSet")}, reason.WorkloadAdmin, placed, podsAgain},
		"Pods that come again beside others":       {ending, 2 * time.Hour, []client.Object{created(time.Second, "ReplicaSet", tolerant), pod("d", 31*time.Minute, "")}, reason.WorkloadAdmin, again + "; " + held, podsAgain + "; " + podsStay + "; " + podsKept},
		"Pods that come again with a directory":    {ending, 2 * time.Hour, []client.Object{created(time.Second, "ReplicaSet", tolerant, emptyDir)}, reason.WorkloadAdmin, again, podsAgain + "; " + podsStay + "; to go on"},
		"Pods that come again with a volume":       {ending, 2 * time.Hour, []client.Object{created(time.Second, "StatefulSet", tolerant, withClaim)}, reason.WorkloadAdmin, again, podsAgain + "; to go on"},
		"Pods that come again with a volume of their own": {
			ending, 2 * time.Hour, []client.Object{created(time.Second, "ReplicaSet", tolerant, ephemeral)}, reason.WorkloadAdmin, again, podsAgain + "; to go on",
		},
		"Pods that come again, of which one has a volume": {
			ending, 2 * time.Hour, []client.Object{created(time.Second, "StatefulSet", tolerant, withClaim), created(time.Second, "ReplicaSet", tolerant, named("c"))},
			reason.WorkloadAdmin, again + "; " + strings.Replace(again, "a/b", "a/c", 1), podsAgain + "; " + podsStay + "; to go on",
		},
		"a Pod from before the Node was cordoned": {ending, 2 * time.Hour, []client.Object{created(time.Hour, "ReplicaSet", deletedNow)}, reason.Drover, "", goesOn},
		"a Pod that was on its way at the cordon": {ending, 2 * time.Hour, []client.Object{created(59*time.Minute, "ReplicaSet", deletedNow)}, reason.Drover, "", goesOn},
		"a Pod from before the drain":             {ending, 2 * time.Hour, []client.Object{created(3*time.Hour, "ReplicaSet", tolerant, deletedNow)}, reason.Drover, "", goesOn},
		"a Pod that nothing creates again":        {ending, 2 * time.Hour, []client.Object{created(time.Second, "", tolerant)}, reason.Drover, "", goesOn},
		"a Pod of a DaemonSet":                    {ending, 2 * time.Hour, []client.Object{created(time.Second, "DaemonSet", tolerant)}, reason.Drover, "", goesOn},
		"a Pod of a DaemonSet that has failed":    {ending, 2 * time.Hour, []client.Object{created(time.Second, "DaemonSet", tolerant, failed)}, reason.Drover, "", goesOn},
		"a static Pod":                            {ending, 2 * time.Hour, []client.Object{created(time.Second, "Node", tolerant, static)}, reason.Drover, "", goesOn},
		"a Pod that stays by its label":           {ending, 2 * time.Hour, []client.Object{created(time.Second, "ReplicaSet", tolerant, skipped)}, reason.Drover, "", goesOn},
		"a Pod that stays by a rule":              {ending, 2 * time.Hour, []client.Object{created(time.Second, "ReplicaSet", tolerant, byRule)}, reason.Drover, "", goesOn},
		"a Pod that is to complete":               {ending, 2 * time.Hour, []client.Object{created(time.Second, "Job", tolerant, completes)}, reason.Drover, "", goesOn},
		"a budget beside a Pod":                   {budget + "\n* Pod a/d: being deleted, waiting for the kubelet to end them", 2 * time.Hour, []client.Object{pod("d", -30*time.Second, "")}, reason.WorkloadAdmin, noBudget, disruptable},
		"a budget beside a Pod deleted long ago": {
			budget + "\n* Pod a/d: being deleted, waiting for the kubelet to end them", 2 * time.Hour, []client.Object{pod("d", 31*time.Minute, "StatefulSet")}, reason.WorkloadAdmin, held + "; " + noBudget,
			podsKept + "; where a budget allows no disruption after that, make the workload disruptable; ",
		},
		"a Namespace beside a Pod deleted long ago": {
			"Draining:\n* Pod a/e: the Namespace is being deleted, waiting\n* Pod a/d: being deleted, waiting for the kubelet to end them", 2 * time.Hour,
			[]client.Object{pod("d", 31*time.Minute, "StatefulSet")}, reason.WorkloadAdmin, held, podsKept,
		},
		"a refusal beside a Pod deleted long ago": {
			"Draining:\n* Pod a/b: eviction was refused: no\n* Pod a/d: being deleted, waiting for the kubelet to end them", 2 * time.Hour,
			[]client.Object{pod("d", 31*time.Minute, "StatefulSet")}, reason.WorkloadAdmin, held, "make the workload disruptable; ",
		},
		"a Pod that no drain waits for": {ending, 2 * time.Hour, []client.Object{pod("b", 31*time.Minute, "DaemonSet")}, reason.Drover, "", goesOn},
		"a budget now":                  {budget, 30 * time.Minute, nil, reason.Drover, noBudget, goesOn},
		"a budget for long":             {budget, 31 * time.Minute, nil, reason.WorkloadAdmin, noBudget, disruptable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := deleted(clusterv1.MachineDeletingDrainingNodeReason, test.message)
			m.Status.Deletion, m.Status.NodeRef.Name = &clusterv1.MachineDeletionStatus{NodeDrainStartTime: ago(test.began)}, "node"
			found, err := finder(t, objecttest.Reader(t, interceptor.Funcs{}, append(test.pods, node.DeepCopy())...), m, c.DeepCopy(), rule.DeepCopy()).machine(t.Context(), m)
			if err != nil || found.Actor != test.want || strings.Join(found.Facts, "; ") != test.facts {
				t.Errorf("got %+v, error %v", found, err)
			}
			if !strings.HasPrefix(found.Help, test.help) {
				t.Errorf("help %q, want %q", found.Help, test.help)
			}
		})
	}
}

// TestPodsOfADrainAsFarAsTheyCanBeRead has a Pod whose grace period passed long ago, and what is needed to decide about it.
func TestPodsOfADrainAsFarAsTheyCanBeRead(t *testing.T) {
	t.Parallel()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", Finalizers: []string{"x/y"}, DeletionTimestamp: new(ago(time.Hour))}}
	p.Spec.NodeName = "node"
	ready, unreachable := nodeNamed("node", ""), nodeNamed("node", "")
	unreachable.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	const kept = "The grace period of Pod a/b has passed for 60m, and it has the finalizers x/y"
	const forbiddenRules = `you may not read machinedrainrules in namespace "n": machinedrainrules is forbidden: no rule`
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "machinedrainrules"}, "", errors.New("no rule"))
	for name, test := range map[string]struct {
		node    *corev1.Node
		nodeRef string
		refused error
		want    reason.Actor
		fact    string
	}{
		"without permission to read rules": {ready, "node", forbidden, reason.WorkloadAdmin, kept + "; MachineDrainRules, by which a drain leaves Pods on the Node, were not read: " + forbiddenRules},
		"without rules that can be read":   {ready, "node", errors.New("etcd"), reason.WorkloadAdmin, "The Pods of its Node could not be read: etcd"},
		"without its Node":                 {nodeNamed("other", ""), "node", nil, reason.WorkloadAdmin, `The Pods of its Node could not be read: there is no Node "node"`},
		"without the name of its Node":     {ready, "", nil, reason.WorkloadAdmin, ""},
		"of a Node that is unreachable":    {unreachable, "node", nil, reason.Drover, ""}, // the drain waits no longer for it
		"of one, without such permission":  {unreachable, "node", forbidden, reason.Drover, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := deleted(clusterv1.MachineDeletingDrainingNodeReason, "Draining:\n* Pod a/b: being deleted, waiting for the kubelet to end them")
			m.Status.NodeRef.Name = test.nodeRef
			f := finder(t, objecttest.Reader(t, interceptor.Funcs{}, p.DeepCopy(), test.node))
			f.Reader = objecttest.Reader(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if _, rules := list.(*clusterv1.MachineDrainRuleList); rules && test.refused != nil {
					return test.refused
				}
				return c.List(ctx, list, options...)
			}}, m, cluster())
			found, err := f.machine(t.Context(), m)
			if err != nil || found.Actor != test.want || strings.Join(found.Facts, "; ") != test.fact {
				t.Errorf("got %+v, error %v", found, err)
			}
		})
	}
}

// TestReadingOfADrainIsBounded has a Node with a list of Pods that does not end, and a budget: all is read within one deadline.
func TestReadingOfADrainIsBounded(t *testing.T) {
	t.Parallel()
	lists, bounded, reads := 0, 0, 0
	read := func(ctx context.Context) {
		reads++
		if until, set := ctx.Deadline(); set && time.Until(until) <= maxReading {
			bounded++
		}
	}
	workload := objecttest.Reader(t, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			read(ctx)
			return c.Get(ctx, key, o, options...)
		},
		List: func(ctx context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			read(ctx)
			if pods, is := list.(*corev1.PodList); is {
				lists++
				pods.Items, pods.Continue = make([]corev1.Pod, 500), "next"
			}
			return nil
		},
	}, nodeNamed("node", ""))
	m := deleted(clusterv1.MachineDeletingDrainingNodeReason, "Draining:\n* Pod a/b: being deleted, waiting for the kubelet to end them\n* Pod a/c: PodDisruptionBudget a/x allows no disruption now")
	m.Status.NodeRef.Name = "node"
	found, err := finder(t, workload, m, cluster()).machine(t.Context(), m)
	if err != nil || found.Actor != reason.WorkloadAdmin || !strings.HasPrefix(strings.Join(found.Facts, "; "), `The Pods of its Node could not be read: there are more than 2000 on Node "node"; PodDisruptionBudget a/x`) {
		t.Errorf("got %+v, error %v", found, err)
	}
	if lists != 5 || reads != lists+2 || bounded != reads {
		t.Errorf("%d lists of Pods; of %d requests, %d are bounded", lists, reads, bounded)
	}
}

// TestVolumesHaveTimeToDetach counts from the step, and not from the deletion of the Machine.
func TestVolumesHaveTimeToDetach(t *testing.T) {
	t.Parallel()
	for began, want := range map[time.Duration]reason.Actor{30 * time.Minute: reason.Drover, 31 * time.Minute: reason.WorkloadAdmin} {
		m := deleted(clusterv1.MachineDeletingWaitingForVolumeDetachReason, "")
		m.Status.Deletion = &clusterv1.MachineDeletionStatus{WaitForNodeVolumeDetachStartTime: ago(began)}
		if found, err := finder(t, nil, m, cluster()).machine(t.Context(), m); err != nil || found.Actor != want {
			t.Errorf("after %s: got %+v, error %v", began, found, err)
		}
	}
}

// TestPodsThatKeepVolumesNeedAction has the messages of a Machine whose drain was given up. Another deletion does not end a Pod
// that is being deleted, which has time to end.
func TestPodsThatKeepVolumesNeedAction(t *testing.T) {
	t.Parallel()
	const (
		kept     = "Pods that were not evicted and still use volumes on the Node: a/b (PersistentVolumeClaim data)"
		deleting = "the kubelet to end Pods that are being deleted and still use volumes on the Node: a/c (PersistentVolumeClaim data)"
		withDisk = "to go on without waiting for the volumes, though some clouds delete an attached disk with the instance, set the annotation "
	)
	for name, test := range map[string]struct {
		message string
		began   time.Duration
		actor   reason.Actor
		help    string
	}{
		"as they were not evicted":                          {kept + ". Delete those", time.Minute, reason.WorkloadAdmin, "delete the Pods that were not evicted; " + withDisk},
		"as some were not evicted":                          {kept + ", and for " + deleting, time.Minute, reason.WorkloadAdmin, "delete the Pods that were not evicted; " + withDisk},
		"not yet, as they are being deleted":                {deleting + ". If that lasts", 30 * time.Minute, reason.Drover, "where that takes more than minutes, "},
		"as they are being deleted, and have not ended yet": {deleting + ". If that lasts", 31 * time.Minute, reason.WorkloadAdmin, podsKept + "; " + withDisk},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := deleted(clusterv1.MachineDeletingWaitingForVolumeDetachReason, "Waiting for "+test.message)
			m.Status.Deletion = &clusterv1.MachineDeletionStatus{WaitForNodeVolumeDetachStartTime: ago(test.began)}
			found, err := finder(t, nil, m, cluster()).machine(t.Context(), m)
			if err != nil || found.Actor != test.actor || !strings.HasPrefix(found.Help, test.help) {
				t.Errorf("got %+v, error %v", found, err)
			}
		})
	}
}

// TestWrongRuleInTheWayOfADeletion is met by a drain, and without one by the step that leaves out the volumes of pods that stay.
func TestWrongRuleInTheWayOfADeletion(t *testing.T) {
	t.Parallel()
	const message = `MachineDrainRule "r" cannot be applied: spec.pods[0].selector: no; correct or delete the rule`
	for _, stage := range []string{clusterv1.MachineDeletingDrainingNodeReason, clusterv1.MachineDeletingWaitingForVolumeDetachReason} {
		m := deleted(stage, message)
		found, err := finder(t, nil, m, cluster()).machine(t.Context(), m)
		if err != nil || found.Actor != reason.Operator || !strings.HasPrefix(found.Help, "correct or delete the MachineDrainRule") {
			t.Errorf("%s: got %+v, error %v", stage, found, err)
		}
	}
}

// TestStageOfADeletionWithoutConnection has the stages that need the workload cluster: what they wait for is not known then.
func TestStageOfADeletionWithoutConnection(t *testing.T) {
	t.Parallel()
	for stage, skip := range map[string]string{
		clusterv1.MachineDeletingDrainingNodeReason:           clusterv1.ExcludeNodeDrainingAnnotation + " on the Machine",
		clusterv1.MachineDeletingWaitingForVolumeDetachReason: clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation + " on the Machine",
		clusterv1.MachineDeletingDeletingNodeReason:           "spec.deletion.nodeDeletionTimeoutSeconds of the Machine to 1 or more",
	} {
		m := deleted(stage, "")
		found, err := finder(t, nil, m, cluster(unconnected)).machine(t.Context(), m)
		if err != nil || !strings.HasPrefix(found.Help, "make the workload cluster answer; ") || !strings.HasSuffix(found.Help, skip) || found.Command != "kubectl drover why cluster/c --namespace n" || strings.Contains(found.Meaning, "refuses") {
			t.Errorf("%s: got %+v, error %v", stage, found, err)
		}
		if connected, err := finder(t, nil, m, cluster()).machine(t.Context(), m); err != nil || strings.HasPrefix(connected.Help, "make the workload cluster answer; ") {
			t.Errorf("%s with a connection: got %+v, error %v", stage, connected, err)
		}
	}
}

// TestTimeoutOfTheDeletionOfANode has a Machine of a MachineSet of a MachineDeployment, without a connection to its workload cluster.
func TestTimeoutOfTheDeletionOfANode(t *testing.T) {
	t.Parallel()
	const onMachine, onSet, onDeployment = "spec.deletion.nodeDeletionTimeoutSeconds of the Machine",
		"spec.template.spec.deletion.nodeDeletionTimeoutSeconds of MachineSet s",
		"spec.template.spec.deletion.nodeDeletionTimeoutSeconds of MachineDeployment md"
	for name, test := range map[string]struct {
		change func(*clusterv1.MachineSet, *clusterv1.MachineDeployment)
		// unread is what cannot be read.
		unread client.Object
		want   string
	}{
		"is that of the MachineDeployment": {want: onDeployment},
		"is that of the MachineSet if the MachineDeployment is another one": {
			change: func(_ *clusterv1.MachineSet, md *clusterv1.MachineDeployment) { md.UID = "other" }, want: onSet,
		},
		"is that of the Machine if the MachineSet is another one": {
			change: func(set *clusterv1.MachineSet, _ *clusterv1.MachineDeployment) { set.UID = "other" }, want: onMachine,
		},
		"is that of the Machine if the MachineSet is being deleted": {
			change: func(set *clusterv1.MachineSet, _ *clusterv1.MachineDeployment) {
				set.DeletionTimestamp, set.Finalizers = new(ago(time.Hour)), []string{clusterv1.MachineSetFinalizer}
			}, want: onMachine,
		},
		"is that of the MachineDeployment if the MachineSet cannot be read":        {unread: &clusterv1.MachineSet{}, want: onDeployment},
		"is that of the MachineDeployment if the MachineDeployment cannot be read": {unread: &clusterv1.MachineDeployment{}, want: onDeployment},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, set := inSet(deleted(clusterv1.MachineDeletingDeletingNodeReason, ""), "s"), setNamed("s")
			m.Labels = map[string]string{clusterv1.MachineDeploymentNameLabel: "md"}
			md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "md", UID: "uid-of-md"}}
			set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(md, clusterv1.GroupVersion.WithKind("MachineDeployment"))}
			c := cluster(unconnected)
			c.UID = "uid-of-c"
			if test.change != nil {
				test.change(set, md)
			}
			f := finder(t, nil)
			f.Reader = objecttest.Reader(t, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
					if reflect.TypeOf(into) == reflect.TypeOf(test.unread) {
						return apierrors.NewForbidden(schema.GroupResource{}, key.Name, nil)
					}
					return c.Get(ctx, key, into, options...)
				},
			}, m, c, set, md)
			found, err := f.machine(t.Context(), m)
			want := "make the workload cluster answer; to go on without the deletion of the Node, set " + test.want + " to 1 or more"
			if err != nil || found.Help != want {
				t.Errorf("got %+v, want help %q, error %v", found, want, err)
			}
		})
	}
}
