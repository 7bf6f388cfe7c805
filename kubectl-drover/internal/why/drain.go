// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/api/reason"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/runtime/drainplan"
	"drover.io/runtime/quantity"
)

// maxFacts is how many Pods, PodDisruptionBudgets or volumes an answer has.
const maxFacts = 3

// maxWait is how long a deletion may wait for what passes by itself until the administrator of the workload cluster should look:
// for a PodDisruptionBudget that allows no disruption now, for volumes, and for a Pod after its grace period.
const maxWait = 30 * time.Minute

// maxReading is how long the reading of what a drain waits for may take, so that a slow API server does not hold an answer.
const maxReading = 30 * time.Second

// Causes for which a drain waits for Pods, as its message has them: package drain of machine-controller writes them.
const (
	podDeleted       = "being deleted, waiting for the kubelet to end them"
	podCompletes     = "waiting for completion"
	namespaceDeleted = "the Namespace is being deleted"
	volumesInTurn    = "next when the volumes of the Pod before are detached"
	nextPass         = "next, limited per pass"
	laterOrder       = "later, by drain order"
	budgetExhausted  = " allows no disruption now"
	budgetUnobserved = " has changed and waits for the disruption controller"
)

// budgetInMessage matches the budgets that the message of a drain names: "PodDisruptionBudgets a/x, b/y and 4 more allow".
var budgetInMessage = regexp.MustCompile(`PodDisruptionBudgets? ((?:[a-z0-9.-]+/[a-z0-9.-]+(?:, )?)+)`)

// otherReasons ends the line of a message about the Pods whose causes it does not name. What needs action is named first, so that they
// wait for nothing worse than the others.
const otherReasons = " for other reasons"

// causesIn are the causes in the message of a drain; empty for a line that has none.
func causesIn(message string) []string {
	var causes []string
	for _, line := range strings.Split(message, "\n* ")[1:] {
		_, cause, named := strings.Cut(line, ": ")
		if named || !strings.HasSuffix(line, otherReasons) {
			causes = append(causes, cause)
		}
	}
	return causes
}

// passes reports whether what a drain waits for passes by itself.
func passes(cause string) bool {
	if isBudget(cause) {
		return strings.HasSuffix(cause, budgetExhausted) || strings.HasSuffix(cause, budgetUnobserved)
	}
	return slices.ContainsFunc([]string{podDeleted, podCompletes, namespaceDeleted, volumesInTurn, nextPass, laterOrder}, func(known string) bool {
		return strings.HasPrefix(cause, known)
	})
}

// isBudget reports whether a cause is about PodDisruptionBudgets, which are not named without permission to read them.
func isBudget(cause string) bool {
	return strings.HasPrefix(cause, "PodDisruptionBudget") || strings.HasPrefix(cause, "a PodDisruptionBudget")
}

// waitsInTurn reports whether a cause is that a Pod runs until its completion, or is one whose turn comes later.
func waitsInTurn(cause string) bool {
	return strings.HasPrefix(cause, podCompletes) || strings.HasPrefix(cause, laterOrder) || strings.HasPrefix(cause, nextPass)
}

// waitsForDeletedPods reports whether a drain waits for Pods that are being deleted, and besides for nothing but those that wait in
// turn.
func waitsForDeletedPods(causes []string) bool {
	return slices.Contains(causes, podDeleted) && !slices.ContainsFunc(causes, func(cause string) bool { return cause != podDeleted && !waitsInTurn(cause) })
}

// takesAnyTime reports whether a drain waits for nothing but Pods that run until their completion, which may take any time, and for
// those whose turn comes after them.
func takesAnyTime(causes []string) bool {
	completes := slices.ContainsFunc(causes, func(cause string) bool { return strings.HasPrefix(cause, podCompletes) })
	return completes && !slices.ContainsFunc(causes, func(cause string) bool { return !waitsInTurn(cause) })
}

// drainPasses reports whether a drain waits for nothing but what passes by itself.
func drainPasses(message string) bool {
	causes := causesIn(message)
	return len(causes) > 0 && !slices.ContainsFunc(causes, func(cause string) bool { return !passes(cause) })
}

// draining adds what the workload cluster says about the Pods and PodDisruptionBudgets that a drain waits for.
func (f *Finder) draining(ctx context.Context, m *clusterv1.Machine, found *Finding) (*Finding, error) {
	step := nodeSteps[found.Condition.Reason]
	offline, err := f.offline(ctx, m, found, step)
	if offline || err != nil {
		return found, err
	}
	causes, budgets := causesIn(found.Condition.Message), budgetsIn(found.Condition.Message)
	long := f.Now.Sub(drainStart(m, found)) > maxWait
	if found.waitsForAnswer(step, long) {
		return found, nil
	}
	overdue := long && found.Actor == reason.Drover && !takesAnyTime(causes)
	awaitsEnd := long && slices.Contains(causes, podDeleted)
	if !overdue && !awaitsEnd && len(budgets) == 0 {
		return found, nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxReading)
	defer cancel()
	workload, err := f.Workload(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName})
	pods := ""
	switch {
	case err != nil:
		found.Facts = append(found.Facts, fmt.Sprintf("The workload cluster was not read: %v", err))
	case awaitsEnd:
		pods = f.podsOverdue(ctx, workload, m, found)
		overdue = overdue && (pods != "" || !waitsForDeletedPods(causes))
	}
	if overdue {
		found.drainOverdue(pods, slices.ContainsFunc(causes, isBudget))
	}
	if err == nil {
		describeBudgets(ctx, workload, budgets, found)
	}
	return found, nil
}

func drainStart(m *clusterv1.Machine, found *Finding) time.Time {
	if deletion := m.Status.Deletion; deletion != nil && !deletion.NodeDrainStartTime.IsZero() {
		return deletion.NodeDrainStartTime.Time
	}
	return found.Condition.LastTransitionTime.Time
}

// drainOverdue makes a drain one that needs action. pods is what helps against Pods that keep it from its end; empty without any. They
// come first: a budget allows no disruption for as long as one of its own Pods does not end.
func (f *Finding) drainOverdue(pods string, budgets bool) {
	entry, _ := reason.Find(f.Object.Kind, f.Condition.Type, f.Condition.Reason)
	f.Actor, f.Help = reason.WorkloadAdmin, filled(entry.Help, f.Object)
	switch {
	case budgets && pods != "":
		f.Help = pods + "; where a budget allows no disruption after that, " + f.Help
	case !budgets:
		f.Help = cmp.Or(pods, podsKept) + "; to go on without, set " + reason.OnMachine(clusterv1.ExcludeNodeDrainingAnnotation)
	}
}

// describeBudgets adds what PodDisruptionBudgets permit.
func describeBudgets(ctx context.Context, workload *object.Reader, budgets []client.ObjectKey, found *Finding) {
	for _, key := range budgets[:min(len(budgets), maxFacts)] {
		if ctx.Err() != nil { // a fact before has that
			return
		}
		budget := &policyv1.PodDisruptionBudget{}
		if err := workload.Client.Get(ctx, key, budget); err != nil {
			found.Facts = append(found.Facts, fmt.Sprintf("PodDisruptionBudget %s could not be read: %v", key, err))
			continue
		}
		found.Facts = append(found.Facts, describeBudget(budget))
	}
}

// detaching makes a Machine that waits for its volumes one that needs action, once that has taken too long.
func (f *Finder) detaching(ctx context.Context, m *clusterv1.Machine, found *Finding) (*Finding, error) {
	step := nodeSteps[found.Condition.Reason]
	offline, err := f.offline(ctx, m, found, step)
	if offline || err != nil {
		return found, err
	}
	began := found.Condition.LastTransitionTime.Time
	if deletion := m.Status.Deletion; deletion != nil && !deletion.WaitForNodeVolumeDetachStartTime.IsZero() {
		began = deletion.WaitForNodeVolumeDetachStartTime.Time
	}
	switch {
	case found.waitsFor(podsUseVolumes):
		found.Actor, found.Meaning, found.Help = reason.WorkloadAdmin, podsUseVolumes, "delete the Pods that were not evicted; "+step.goOn()
	case found.Actor != reason.Drover || f.Now.Sub(began) <= maxWait:
	case found.waitsFor(awaitsAnswer):
		found.unanswered(step)
	case found.waitsFor(podsEnd):
		found.Actor, found.Meaning, found.Help = reason.WorkloadAdmin, podsEnd, podsKept+"; "+step.goOn()
	default:
		found.Actor = reason.WorkloadAdmin
	}
	return found, nil
}

// offline reports whether the workload cluster is not connected that a step of a deletion waits for, and adds that.
func (f *Finder) offline(ctx context.Context, m *clusterv1.Machine, found *Finding, step nodeStep) (bool, error) {
	cluster, err := f.readCluster(ctx, ReferenceOf(m))
	if cluster == nil || err != nil {
		return false, err
	}
	down := disconnected(cluster)
	if down == nil {
		return false, nil
	}
	if step.skip == "" {
		step.skip = f.ownersOf(ctx, cluster, m).DeletionField(m, step.timeout) + " to 1 or more"
	}
	found.Facts = append(found.Facts, fmt.Sprintf("The Cluster is not well: %s", down.Meaning))
	found.unanswered(step)
	return true, nil
}

// deletingNode adds that a Node cannot be deleted without a connection, which is no refusal then.
func (f *Finder) deletingNode(ctx context.Context, m *clusterv1.Machine, found *Finding) error {
	offline, err := f.offline(ctx, m, found, nodeStep{name: "the deletion of the Node", timeout: "nodeDeletionTimeoutSeconds"})
	if offline {
		found.Meaning = "its Node cannot be deleted without a connection to the workload cluster"
	}
	return err
}

// ownersOf are the objects that decide where a field of spec.deletion of a Machine of a Cluster has an effect. An owner that cannot
// be read counts as most are: it exists, and is neither paused nor being deleted.
func (f *Finder) ownersOf(ctx context.Context, cluster *clusterv1.Cluster, m *clusterv1.Machine) drainplan.Owners {
	o := drainplan.Owners{Cluster: cluster}
	set, md := &clusterv1.MachineSet{}, &clusterv1.MachineDeployment{}
	if !f.readController(ctx, m, object.MachineSet, set) {
		return o
	}
	o.MachineSet = set
	pool := m.Labels[clusterv1.MachineDeploymentNameLabel]
	switch unread := set.UID == ""; {
	case unread && pool != "":
		md.Name = pool
		o.MachineDeployment = md
	case !unread && f.readController(ctx, set, object.MachineDeployment, md):
		o.MachineDeployment = md
	}
	return o
}

// readController reads the controller of an object, if it is of that kind, and reports whether it exists. Of one that cannot be read
// it sets the name alone.
func (f *Finder) readController(ctx context.Context, of client.Object, kind object.Kind, controller client.Object) bool {
	ref := metav1.GetControllerOfNoCopy(of)
	if ref == nil || !kind.Owns(ref) {
		return false
	}
	err := f.Client.Get(ctx, client.ObjectKey{Namespace: of.GetNamespace(), Name: ref.Name}, controller)
	if err != nil && !apierrors.IsNotFound(err) {
		controller.SetName(ref.Name)
		return true
	}
	return err == nil && controller.GetUID() == ref.UID
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
