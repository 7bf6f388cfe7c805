// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/api/reason"
	"drover.io/kubectl-drover/internal/escape"
)

// ReferenceOf names a Machine.
func ReferenceOf(m *clusterv1.Machine) Reference {
	return Reference{"Machine", m.Namespace, m.Name, m.Spec.ClusterName}
}

// Problem is what a Machine waits for as its own conditions have it, without a look at other objects; nil if it is well.
func Problem(m *clusterv1.Machine) *Finding {
	for _, check := range []func(*clusterv1.Machine) *Finding{
		machineKept,    // no controller writes to it any more
		unreconciled,   // no condition counts before there is one
		machinePaused,  // nothing else changes
		deleting,       // what a Machine lacks does not matter any more
		withoutCluster, // nothing is done
		bootstrap,      // the instance waits for it
		infrastructure, // the Node waits for it
		node,           // ready and healthy
		nodeSync,       // pods can be scheduled to it
		unhealthy,      // by a MachineHealthCheck
		notReady,       // readiness gates of others
		notAvailable,   // minReadySeconds
	} {
		if found := check(m); found != nil {
			return found
		}
	}
	return nil
}

func condition(m *clusterv1.Machine, kind string) *metav1.Condition {
	return meta.FindStatusCondition(m.Status.Conditions, kind)
}

// not is the finding of a condition that is not True.
func not(m *clusterv1.Machine, kind string) *Finding {
	if c := condition(m, kind); c != nil && c.Status != metav1.ConditionTrue {
		return of(ReferenceOf(m), *c)
	}
	return nil
}

func unreconciled(m *clusterv1.Machine) *Finding {
	if len(m.Status.Conditions) > 0 {
		return nil
	}
	return notReconciled(ReferenceOf(m), m.CreationTimestamp)
}

// unseen is that no manager has acted on the newest spec of an object yet, or on its deletion; nil if one has. observed is the
// generation in its status. When a spec changed is not known: the API server records no time of a kubectl scale.
func unseen(ref Reference, o metav1.Object, observed int64) *Finding {
	switch {
	case o.GetGeneration() <= observed:
		return nil
	case o.GetDeletionTimestamp() != nil:
		return notDeleted(ref, *o.GetDeletionTimestamp())
	}
	return &Finding{
		Object: ref, Meaning: "no manager has acted on its newest spec yet", Actor: reason.Drover,
		Help:    "where that is still so in a minute, see whether the manager runs, and whether it watches this namespace and label",
		Command: "kubectl drover check",
	}
}

// notDeleted is the finding of an object whose deletion no manager has acted on.
func notDeleted(object Reference, deleted metav1.Time) *Finding {
	found := notReconciled(object, deleted)
	found.Meaning = "no manager has acted on its deletion yet"
	return found
}

// notReconciled is the finding of an object that no manager has written to.
func notReconciled(object Reference, created metav1.Time) *Finding {
	return &Finding{
		Object: object, Condition: metav1.Condition{LastTransitionTime: created}, unreconciled: true,
		Meaning: "no manager has reconciled it yet", Actor: reason.Installer,
		Help: "see whether the manager runs, and whether it watches this namespace and label", Command: "kubectl drover check",
	}
}

func machineKept(m *clusterv1.Machine) *Finding {
	return kept(ReferenceOf(m), clusterv1.GroupVersion.Group, m)
}

func machinePaused(m *clusterv1.Machine) *Finding {
	return paused(ReferenceOf(m), clusterv1.GroupVersion.Group, m.Status.Conditions)
}

// clusterPaused is in the message of the condition Paused where the Cluster is paused, and with it all of its objects.
const clusterPaused = "Cluster spec.paused"

// paused is the finding of the condition Paused of an object whose kind has that group, with the command that ends it.
func paused(object Reference, group string, conditions []metav1.Condition) *Finding {
	c := meta.FindStatusCondition(conditions, clusterv1.PausedCondition)
	if c == nil || c.Status != metav1.ConditionTrue {
		return nil
	}
	found := of(object, *c)
	if c.Reason != clusterv1.PausedReason {
		return found
	}
	found.Command = command("kubectl annotate "+resource(schema.GroupVersionKind{Group: group, Kind: object.Kind})+" {name} --namespace {namespace} "+clusterv1.PausedAnnotation+"-", object)
	if strings.Contains(c.Message, clusterPaused) {
		found.Command = command(`kubectl patch cluster.cluster.x-k8s.io {cluster} --namespace {namespace} --type=merge -p '{"spec":{"paused":false}}'`, object)
	}
	return found
}

func deleting(m *clusterv1.Machine) *Finding {
	c := condition(m, clusterv1.MachineDeletingCondition)
	switch {
	case m.DeletionTimestamp.IsZero():
		return nil
	case c == nil || c.Status != metav1.ConditionTrue:
		return notDeleted(ReferenceOf(m), *m.DeletionTimestamp)
	}
	found := of(ReferenceOf(m), *c)
	if hooks := strings.HasSuffix(c.Reason, "Hook"); hooks {
		found.Command = removeHooks(m, c.Reason)
		if _, plane := m.Labels[clusterv1.MachineControlPlaneLabel]; plane { // removed too early, it costs the quorum of etcd
			found.Help, found.Command = "see why the provider of the control plane does not remove it: it waits until the member has left etcd", ""
		}
	}
	step, ofNode := nodeSteps[c.Reason]
	switch {
	case strings.Contains(c.Message, unreadable):
		found.Actor, found.Help = reason.Installer, "install what the message names again, or grant the permission; the object counts as present until it can be read"
	case strings.Contains(c.Message, refused):
		found.Actor, found.Help, found.Command = reason.Installer, "change the policy or the permission that the message has; it is tried again by itself", ""
	case ofNode && strings.Contains(c.Message, invalidRule):
		found.Actor, found.Help, found.Command = reason.Operator, "correct or delete the MachineDrainRule that the message names; it may protect a Pod", ""
	case ofNode && found.reviewStep(step):
	case c.Reason == clusterv1.MachineDeletingDrainingNodeReason && drainPasses(c.Message):
		found.Actor, found.Help = reason.Drover, "it goes on when the pods have ended, or may be evicted"
	}
	return found
}

// What the message of a deletion contains that waits for an object of a provider which machine-controller cannot read, or which the
// API server does not let it delete.
const (
	unreadable = ", which cannot be read: "
	refused    = ", which the API server refuses: "
)

// invalidRule is in the message of a deletion that waits because a MachineDrainRule is not valid.
const invalidRule = " cannot be applied: "

// removeHooks is the command that removes the annotations that a deletion waits for.
func removeHooks(m *clusterv1.Machine, why string) string {
	prefix := clusterv1.PreDrainDeleteHookAnnotationPrefix
	if why == clusterv1.MachineDeletingWaitingForPreTerminateHookReason {
		prefix = clusterv1.PreTerminateDeleteHookAnnotationPrefix
	}
	var keys []string
	for key := range m.Annotations {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key+"-")
		}
	}
	if len(keys) != 1 {
		return ""
	}
	return fmt.Sprintf("kubectl annotate machine.cluster.x-k8s.io %s --namespace %s %s", m.Name, m.Namespace, keys[0])
}

func withoutCluster(m *clusterv1.Machine) *Finding {
	ready := condition(m, clusterv1.MachineReadyCondition)
	if ready == nil || !strings.HasPrefix(ready.Message, fmt.Sprintf("Cluster %q does not exist", m.Spec.ClusterName)) {
		return nil
	}
	found := of(ReferenceOf(m), *ready)
	found.Meaning, found.Help, found.Command = "its Cluster does not exist", "create the Cluster, or "+reason.DeleteMachine, ""
	return found
}

func bootstrap(m *clusterv1.Machine) *Finding {
	return not(m, clusterv1.MachineBootstrapConfigReadyCondition)
}

func infrastructure(m *clusterv1.Machine) *Finding {
	found := not(m, clusterv1.MachineInfrastructureReadyCondition)
	if found != nil {
		found.reviewDeletion(ptr.Deref(m.Status.Initialization.InfrastructureProvisioned, false), !m.DeletionTimestamp.IsZero())
	}
	return found
}

// reviewDeletion takes the advice to delete a Machine out of a finding about its instance, where that does not help: it is being
// deleted already, or its instance runs and what its credentials lead to is wrong.
func (f *Finding) reviewDeletion(provisioned, deleting bool) {
	switch {
	case !f.deletes():
	case deleting:
		f.Help, f.Command = "do what the message has: the deletion waits for it", ""
	case provisioned && f.Condition.Reason == infrav1.InvalidConfigurationReason:
		f.Meaning = "its instance has run, and what its credentials lead to has changed since; the message has the field"
		f.Help, f.Command = "correct that, and keep the Machine; it is tried again each minute", ""
	}
}

// deleteMachine matches the advice to delete a Machine, and not a MachineSet.
var deleteMachine = regexp.MustCompile(reason.DeleteMachine + `\b`)

// reviewControlPlane takes the deletion of a Machine of a control plane out of a finding, unless it never had an instance.
func (f *Finding) reviewControlPlane(labels map[string]string, provisioned bool) {
	_, plane := labels[clusterv1.MachineControlPlaneLabel]
	advice := deleteMachine.FindStringIndex(f.Help)
	if !plane || advice == nil || !provisioned && f.Condition.Reason == infrav1.InvalidConfigurationReason {
		return
	}
	f.Help = f.Help[:advice[0]] + "have the provider of the control plane replace the Machine, by a MachineHealthCheck or a rollout: " +
		"deleted by hand it may cost the quorum of etcd, or all data where it is the only member"
	if f.deletes() {
		f.Command = ""
	}
}

// node prefers the condition that has more to say: NodeHealthy has the pressure too.
func node(m *clusterv1.Machine) *Finding {
	found := not(m, clusterv1.MachineNodeHealthyCondition)
	if found == nil {
		found = not(m, clusterv1.MachineNodeReadyCondition)
	}
	if found != nil {
		remediation(m, found)
	}
	return found
}

func nodeSync(m *clusterv1.Machine) *Finding { return not(m, droverpolicyv1.NodeSyncedCondition) }

// isRemediated reports whether a MachineHealthCheck has requested the replacement or repair of a Machine.
func isRemediated(m *clusterv1.Machine) bool {
	return slices.ContainsFunc([]string{clusterv1.MachineOwnerRemediatedCondition, clusterv1.MachineExternallyRemediatedCondition}, func(kind string) bool {
		c := condition(m, kind)
		return c != nil && c.Status == metav1.ConditionFalse
	})
}

// remediation adds what a MachineHealthCheck does about an unhealthy Machine.
func remediation(m *clusterv1.Machine, found *Finding) {
	for _, kind := range []string{clusterv1.MachineOwnerRemediatedCondition, clusterv1.MachineExternallyRemediatedCondition} {
		c := condition(m, kind)
		if c == nil || c.Status != metav1.ConditionFalse {
			continue
		}
		next := of(ReferenceOf(m), *c)
		fact := "A MachineHealthCheck found it unhealthy: " + next.Meaning
		if c.Message != "" {
			fact += ": " + escape.Line(c.Message)
		}
		found.Facts = append(found.Facts, fact)
		found.Actor, found.Help, found.Command = next.Actor, next.Help, next.Command
		return
	}
	c := condition(m, clusterv1.MachineHealthCheckSucceededCondition)
	if c != nil && c.Status != metav1.ConditionTrue && c.Type != found.Condition.Type {
		found.Facts = append(found.Facts, fmt.Sprintf("A MachineHealthCheck found it unhealthy: %s", escape.Line(c.Message)))
	}
}

func unhealthy(m *clusterv1.Machine) *Finding {
	found := not(m, clusterv1.MachineHealthCheckSucceededCondition)
	if found != nil {
		remediation(m, found)
	}
	return found
}

func notReady(m *clusterv1.Machine) *Finding { return not(m, clusterv1.MachineReadyCondition) }

func notAvailable(m *clusterv1.Machine) *Finding { return not(m, clusterv1.MachineAvailableCondition) }
