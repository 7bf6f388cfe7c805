// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/api/reason"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/runtime/quantity"
	"drover.io/runtime/spelling"
)

// maxFacts is how many PodDisruptionBudgets or volumes an answer has.
const maxFacts = 3

// budgetInMessage matches the budgets that the message of a drain names: "PodDisruptionBudgets a/x, b/y and 4 more allow".
var budgetInMessage = regexp.MustCompile(`PodDisruptionBudgets? ((?:[a-z0-9.-]+/[a-z0-9.-]+(?:, )?)+)`)

// draining adds what the workload cluster says about the PodDisruptionBudgets that block a drain.
func (f *Finder) draining(ctx context.Context, m *clusterv1.Machine, found *Finding) (*Finding, error) {
	offline, err := f.offline(ctx, m, found, "a drain", "the annotation "+clusterv1.ExcludeNodeDrainingAnnotation)
	switch {
	case err != nil:
		return nil, err
	case offline:
		found.Actor = reason.WorkloadAdmin
		return found, nil
	}
	found.reviewDrain(m, f.Now)
	names := budgetsIn(found.Condition.Message)
	if len(names) == 0 {
		return found, nil
	}
	workload, err := f.Workload(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName})
	if err != nil {
		found.Facts = append(found.Facts, fmt.Sprintf("The workload cluster was not read: %v", err))
		return found, nil
	}
	for _, key := range names[:min(len(names), maxFacts)] {
		budget := &policyv1.PodDisruptionBudget{}
		if err := workload.Client.Get(ctx, key, budget); err != nil {
			found.Facts = append(found.Facts, fmt.Sprintf("PodDisruptionBudget %s could not be read: %v", key, err))
			continue
		}
		found.Facts = append(found.Facts, describeBudget(budget))
	}
	return found, nil
}

// offline reports whether the workload cluster is not connected that a step of a deletion waits for, and adds that. skip is
// what is set for the deletion to go on without the step.
func (f *Finder) offline(ctx context.Context, m *clusterv1.Machine, found *Finding, step, skip string) (bool, error) {
	down, err := f.disconnected(ctx, ReferenceOf(m))
	if down == nil || err != nil {
		return false, err
	}
	found.Facts = append(found.Facts, fmt.Sprintf("The Cluster is not well: %s", down.Meaning))
	found.Help = fmt.Sprintf("make the workload cluster answer; to go on without %s, set %s", step, skip)
	found.Command = command("kubectl drover why cluster/{cluster} --namespace {namespace}", found.Object)
	return true, nil
}

// deletingNode adds that a Node cannot be deleted without a connection, which is no refusal then.
func (f *Finder) deletingNode(ctx context.Context, m *clusterv1.Machine, found *Finding) error {
	offline, err := f.offline(ctx, m, found, "the deletion of the Node", "spec.deletion.nodeDeletionTimeoutSeconds to 1 or more")
	if offline {
		found.Meaning = "its Node cannot be deleted without a connection to the workload cluster"
	}
	return err
}

// What the message of a drain contains about a Pod that is being deleted, or whose Namespace is, or that ends by itself.
const (
	pastKubelet   = "waiting for the kubelet to end them"
	pastNamespace = "the Namespace is being deleted"
	completion    = "waiting for completion"
)

// maxPodDeletion is how long a drain may wait for Pods that are being deleted, and for volumes, until its administrator should look: few
// Pods have a longer grace period.
const maxPodDeletion = 30 * time.Minute

// reviewDrain makes a drain that waits for nothing but Pods that end by themselves one that needs action, once one that is being
// deleted, or the volume of one that has ended, has taken too long. A Pod may run for any time until its completion.
func (f *Finding) reviewDrain(m *clusterv1.Machine, now time.Time) {
	began := f.Condition.LastTransitionTime.Time
	if deletion := m.Status.Deletion; deletion != nil && !deletion.NodeDrainStartTime.IsZero() {
		began = deletion.NodeDrainStartTime.Time
	}
	message := f.Condition.Message
	deleted := strings.Contains(message, pastKubelet) || strings.Contains(message, pastNamespace)
	if f.Actor != reason.Drover || now.Sub(began) <= maxPodDeletion || !deleted && strings.Contains(message, completion) {
		return
	}
	f.Actor = reason.WorkloadAdmin
	f.Help = "see what keeps the pods that are being deleted, or the volumes of those that have ended: finalizers, the kubelet of the Node, the CSI driver, or the conditions of a Namespace; " +
		"to go on without, set spec.deletion.nodeDrainTimeoutSeconds or the annotation " + clusterv1.ExcludeNodeDrainingAnnotation
}

// endsByItself reports whether a drain waits for nothing but pods that end by themselves, and for those whose turn comes after
// them: no line of its message is about another cause, as an eviction that is refused.
func endsByItself(message string) bool {
	causes := []string{
		pastKubelet, completion, pastNamespace,
		"next when the volumes of the Pod before are detached", "next, limited per pass", "later, by drain order",
	}
	lines := strings.Split(message, "\n* ")[1:]
	return len(lines) > 0 && !slices.ContainsFunc(lines, func(line string) bool {
		return !slices.ContainsFunc(causes, func(cause string) bool {
			return strings.Contains(line, cause)
		})
	})
}

// disconnected is why the workload cluster of an object is not connected; nil if it is. A deletion waits for nothing else of a Cluster.
func (f *Finder) disconnected(ctx context.Context, ref Reference) (*Finding, error) {
	cluster, err := f.readCluster(ctx, ref)
	if cluster == nil || err != nil {
		return nil, err
	}
	probe := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1.ClusterRemoteConnectionProbeCondition)
	if probe == nil || probe.Status == metav1.ConditionTrue {
		return nil, nil
	}
	return of(referenceOfCluster(cluster), *probe), nil
}

func budgetsIn(message string) []client.ObjectKey {
	var keys []client.ObjectKey
	for _, match := range budgetInMessage.FindAllStringSubmatch(message, -1) {
		for _, name := range strings.Split(match[1], ", ") {
			namespace, name, _ := strings.Cut(name, "/")
			if key := (client.ObjectKey{Namespace: namespace, Name: name}); name != "" && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

func describeBudget(b *policyv1.PodDisruptionBudget) string {
	wants := "an unset minimum"
	switch {
	case b.Spec.MinAvailable != nil:
		wants = "minAvailable " + b.Spec.MinAvailable.String()
	case b.Spec.MaxUnavailable != nil:
		wants = "maxUnavailable " + b.Spec.MaxUnavailable.String()
	}
	s := b.Status
	healthy, expected := quantity.Are(s.CurrentHealthy, "pod"), quantity.Are(s.ExpectedPods, "pod")
	if s.CurrentHealthy > s.ExpectedPods { // pods without a controller are not expected
		return fmt.Sprintf("PodDisruptionBudget %s/%s has %s: %s healthy, and %d may be evicted now", b.Namespace, b.Name, wants, healthy, s.DisruptionsAllowed)
	}
	return fmt.Sprintf("PodDisruptionBudget %s/%s has %s: %d of %s healthy, %d must be, so %d may be evicted now",
		b.Namespace, b.Name, wants, s.CurrentHealthy, expected, s.DesiredHealthy, s.DisruptionsAllowed)
}

// machineOfNode returns the Machine of a Node of a workload cluster. Two workload clusters may have a Node of the same name.
func (f *Finder) machineOfNode(ctx context.Context, namespace, name string) (*clusterv1.Machine, error) {
	var found []*clusterv1.Machine
	var names []string
	err := f.Machines(ctx, namespace, "", func(page []clusterv1.Machine) error {
		for i := range page {
			switch node := page[i].Status.NodeRef.Name; {
			case node == name:
				found = append(found, page[i].DeepCopy())
			case node != "":
				names = append(names, node)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	switch len(found) {
	case 0:
		near, _ := spelling.Nearest(name, names)
		return nil, &object.NotFoundError{Kind: "Machine with the Node", Key: client.ObjectKey{Namespace: namespace, Name: name}, Near: near}
	case 1:
		return found[0], nil
	}
	var all []string
	for _, m := range found {
		all = append(all, fmt.Sprintf("%s of Cluster %s", m.Name, m.Spec.ClusterName))
	}
	return nil, fmt.Errorf("%d Machines have a Node %q: %s; ask why of one of them", len(found), name, strings.Join(all, ", "))
}

// quota is what a ResourceQuota of the management cluster refuses.
func quota(found *Finding) {
	if !strings.Contains(found.Condition.Message, "exceeded quota") {
		return
	}
	found.Actor, found.Help = reason.Installer, "raise the ResourceQuota of the namespace, or scale down; it is tried again by itself"
	found.Command = command("kubectl describe resourcequota --namespace {namespace}", found.Object)
}
