// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/api/reason"
	"drover.io/kubectl-drover/internal/escape"
	"drover.io/kubectl-drover/internal/object"
)

// Finder finds what objects wait for.
type Finder struct {
	*object.Reader
	Now time.Time
	// Workload opens the workload cluster of a Cluster; its error says why it cannot be read.
	Workload func(ctx context.Context, cluster client.ObjectKey) (*object.Reader, error)
}

// reasonsCausedByCluster are the reasons of other objects whose cause is in the Cluster.
var reasonsCausedByCluster = map[string]bool{
	clusterv1.MachineNodeConnectionDownReason: true, infrav1.WaitingForManagementClaimReason: true, infrav1.WaitingForClusterReason: true,
	bootstrapv1.ClusterUnreachableReason: true, bootstrapv1.ClaimedElsewhereReason: true, bootstrapv1.KubeconfigInvalidReason: true, bootstrapv1.WaitingForClusterReason: true,
}

// maxCreation is how long a host may take to boot and join until the operator should look, and an instance to be deleted: a cloud
// needs minutes, a large image or hardware up to half an hour.
const maxCreation = 30 * time.Minute

// machine is what a Machine waits for, across the objects that it depends on.
func (f *Finder) machine(ctx context.Context, m *clusterv1.Machine) (*Finding, error) {
	found := Problem(m)
	if found == nil {
		return nil, nil
	}
	found, err := f.deeper(ctx, m, found)
	if found != nil {
		if m.DeletionTimestamp.IsZero() {
			found.reviewCreation(f.Now.Sub(creationStep(m, found)) > maxCreation || startupTimedOut(m))
		}
		found.reviewControlPlane(m.Labels, m.Spec.ProviderID != "" || ptr.Deref(m.Status.Initialization.InfrastructureProvisioned, false))
	}
	return found, err
}

// startupTimedOut reports whether a MachineHealthCheck waits no longer for the Node of a Machine, and has not had it replaced.
func startupTimedOut(m *clusterv1.Machine) bool {
	c := condition(m, clusterv1.MachineHealthCheckSucceededCondition)
	return m.DeletionTimestamp.IsZero() && !isRemediated(m) &&
		c != nil && c.Status == metav1.ConditionFalse && c.Reason == clusterv1.MachineHealthCheckNodeStartupTimeoutReason
}

// reviewCreation makes a step of a creation, or the deletion of an instance, one that needs action once it is overdue, unless it is
// known that no provider runs.
func (f *Finding) reviewCreation(overdue bool) {
	if !overdue || f.Actor == reason.Installer {
		return
	}
	switch f.Condition.Reason {
	case clusterv1.MachineNodeInspectionFailedReason, infrav1.BootstrapRunningReason:
		f.Actor, f.Help = reason.Operator, cmp.Or(f.Help, "see what its console says")
	case infrav1.InstancePendingReason:
		f.Actor, f.Help = reason.CloudOwner, "see in the cloud what the instance waits for"
	case infrav1.DeletingReason:
		if f.Condition.Type != clusterv1.MachineDeletingCondition { // a Machine has it before its deletion begins
			f.remains()
		}
	}
}

// creationStep is when the step of the creation of a Machine began that it waits in: its host boots once its instance runs, and a
// MachineHealthCheck may have requested another one since.
func creationStep(m *clusterv1.Machine, found *Finding) time.Time {
	began := found.Condition.LastTransitionTime.Time
	for _, kind := range []string{clusterv1.MachineInfrastructureReadyCondition, clusterv1.MachineOwnerRemediatedCondition, clusterv1.MachineExternallyRemediatedCondition} {
		if step := condition(m, kind); step != nil && step.LastTransitionTime.After(began) {
			began = step.LastTransitionTime.Time
		}
	}
	return began
}

// deeper is the cause of what the conditions of a Machine have.
func (f *Finder) deeper(ctx context.Context, m *clusterv1.Machine, found *Finding) (*Finding, error) {
	switch c := found.Condition; {
	case reasonsCausedByCluster[c.Reason], c.Reason == clusterv1.MachineNodeInspectionFailedReason:
		deeper, err := f.clusterNamed(ctx, ReferenceOf(m))
		if deeper != nil || err != nil {
			return deeper, err
		}
	}
	if deeper, err := f.healthCheck(ctx, m, found); deeper != nil || err != nil {
		return deeper, err
	}
	switch found.Condition.Reason {
	case clusterv1.MachineNodeInspectionFailedReason:
		return f.notJoined(ctx, m, found)
	case clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason, clusterv1.MachineDeletingWaitingForBootstrapDeletionReason:
		return f.removing(ctx, m, found)
	case clusterv1.MachineDeletingDrainingNodeReason:
		return f.draining(ctx, m, found)
	case clusterv1.MachineDeletingWaitingForVolumeDetachReason:
		return f.detaching(ctx, m, found)
	case clusterv1.MachineDeletingDeletingNodeReason:
		return found, f.deletingNode(ctx, m, found)
	case clusterv1.ObjectDoesNotExistReason:
		if refused, err := f.notCreated(ctx, m, found); refused != nil || err != nil {
			return refused, err
		}
	}
	return f.source(ctx, m, found), nil
}

// removing is what the deletion of a Machine waits for while the object of a provider is being deleted.
func (f *Finder) removing(ctx context.Context, m *clusterv1.Machine, found *Finding) (*Finding, error) {
	if found.Actor == reason.Installer { // machine-controller may not read or delete the object
		return found, nil
	}
	ref, bootstrap := m.Spec.InfrastructureRef, found.Condition.Reason == clusterv1.MachineDeletingWaitingForBootstrapDeletionReason
	if bootstrap {
		ref = m.Spec.Bootstrap.ConfigRef
	}
	if kept := f.keptObject(ctx, m, ref); kept != nil {
		return kept, nil
	}
	if !bootstrap {
		deeper, err := f.infraMachine(ctx, m, found, clusterv1.ReadyCondition)
		if err != nil {
			return nil, err
		}
		found = deeper
	}
	if o, err := f.Referenced(ctx, m.Namespace, ref); err == nil && o != nil {
		found.reviewRemoval(o, f.Now)
	}
	return found, nil
}

// notCreated is why the MachineSet of a Machine cannot create the object that its condition misses, as with a quota or a policy
// that refuses it; nil where the MachineSet has nothing about that.
func (f *Finder) notCreated(ctx context.Context, m *clusterv1.Machine, found *Finding) (*Finding, error) {
	ref := m.Spec.InfrastructureRef
	if found.Condition.Type == clusterv1.MachineBootstrapConfigReadyCondition {
		ref = m.Spec.Bootstrap.ConfigRef
	}
	controller := metav1.GetControllerOfNoCopy(m)
	if controller == nil || !object.MachineSet.Owns(controller) {
		return nil, nil //nolint:nilnil // nobody creates it again
	}
	set := &clusterv1.MachineSet{}
	err := f.Get(ctx, object.MachineSet, client.ObjectKey{Namespace: m.Namespace, Name: controller.Name}, set)
	if object.IsNotFound(err) || object.IsForbidden(err) {
		return nil, nil //nolint:nilnil // the condition is all that is known
	}
	if err != nil {
		return nil, err
	}
	scaling := meta.FindStatusCondition(set.Status.Conditions, clusterv1.ScalingUpCondition)
	if scaling == nil || !strings.Contains(scaling.Message, fmt.Sprintf("%s %q", ref.Kind, ref.Name)) {
		return nil, nil //nolint:nilnil // it is about something else
	}
	refused := of(Reference{"MachineSet", set.Namespace, set.Name, set.Spec.ClusterName}, *scaling)
	refused.Meaning = fmt.Sprintf("%s %s cannot be created", ref.Kind, ref.Name)
	refused.Actor, refused.Help = reason.Operator, "do what the message has; it is tried again by itself"
	quota(refused)
	return refused, nil
}

// source names the object of a provider whose condition a Machine mirrors. While that object is paused, its condition is an old
// one, and nobody continues.
func (f *Finder) source(ctx context.Context, m *clusterv1.Machine, found *Finding) *Finding {
	ref := clusterv1.ContractVersionedObjectReference{}
	switch found.Condition.Type {
	case clusterv1.MachineBootstrapConfigReadyCondition:
		ref = m.Spec.Bootstrap.ConfigRef
	case clusterv1.MachineInfrastructureReadyCondition:
		ref = m.Spec.InfrastructureRef
	}
	if !ref.IsDefined() {
		return found
	}
	if source, err := f.Referenced(ctx, m.Namespace, ref); err == nil {
		if paused := paused(referenceOf(source), source.GroupVersionKind().Group, object.Conditions(source)); paused != nil {
			return paused
		}
		found.reviewRemoval(source, f.Now) // it may be deleted without its Machine
	}
	found.Facts = append(found.Facts, fmt.Sprintf("The object is %s %s", ref.Kind, ref.Name))
	return found
}

// infraMachine looks for the cause in the object of the infrastructure provider, in the conditions of the given types: what the
// host says, or why the instance cannot be deleted.
func (f *Finder) infraMachine(ctx context.Context, m *clusterv1.Machine, found *Finding, types ...string) (*Finding, error) {
	infra, err := f.Referenced(ctx, m.Namespace, m.Spec.InfrastructureRef)
	if err != nil || infra == nil {
		if err != nil {
			found.Facts = append(found.Facts, fmt.Sprintf("%s %s could not be read: %v", m.Spec.InfrastructureRef.Kind, m.Spec.InfrastructureRef.Name, err))
		}
		return found, nil
	}
	ref := Reference{infra.GetKind(), infra.GetNamespace(), infra.GetName(), m.Spec.ClusterName}
	conditions := object.Conditions(infra)
	if paused := paused(ref, infra.GroupVersionKind().Group, conditions); paused != nil {
		return paused, nil
	}
	for _, conditionType := range types {
		c := meta.FindStatusCondition(conditions, conditionType)
		if c == nil || c.Status == metav1.ConditionTrue {
			continue
		}
		if c.Reason == infrav1.ConsoleUnavailableReason { // what the host does is not known then
			found.Facts = append(found.Facts, "Its console cannot be read: "+escape.Line(c.Message))
			continue
		}
		deeper := of(ref, *c)
		// The commands are about the Machine: it is what is deleted, and what has a console.
		if entry, known := reason.Find(ref.Kind, c.Type, c.Reason); known {
			deeper.Command = command(entry.Command, ReferenceOf(m))
		}
		deeper.reviewDeletion(ptr.Deref(m.Status.Initialization.InfrastructureProvisioned, false), !m.DeletionTimestamp.IsZero())
		return deeper, nil
	}
	return found, nil
}

// byTable is the first condition of an object of any kind that is not as it should be, by the table of reasons; one that the
// table does not have counts only if it is Ready or Available, and not True.
func byTable(ref Reference, conditions []metav1.Condition) *Finding {
	for _, c := range conditions {
		found := of(ref, c)
		entry, known := reason.Find(ref.Kind, c.Type, c.Reason)
		switch {
		case known && !entry.Fine():
			return found
		case !known && (c.Type == clusterv1.ReadyCondition || c.Type == clusterv1.AvailableCondition) && c.Status != metav1.ConditionTrue:
			return found
		}
	}
	return nil
}

func referenceOf(o *unstructured.Unstructured) Reference {
	cluster := o.GetLabels()[clusterv1.ClusterNameLabel]
	if name, found, _ := unstructured.NestedString(o.Object, "spec", "clusterName"); found {
		cluster = name
	}
	return Reference{o.GetKind(), o.GetNamespace(), o.GetName(), cluster}
}
