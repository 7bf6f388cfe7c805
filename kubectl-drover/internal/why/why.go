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
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/api/reason"
	"drover.io/kubectl-drover/internal/escape"
	"drover.io/kubectl-drover/internal/object"
)

// firstReconcile is how long it may take until a manager has acted on a new object or spec.
const firstReconcile = time.Minute

// Answer answers why for an object.
func (f *Finder) Answer(ctx context.Context, kind object.Kind, key client.ObjectKey) (Answer, error) {
	answer, err := f.answer(ctx, kind, key)
	if found := answer.Finding; found != nil && found.unreconciled && f.Now.Sub(found.Condition.LastTransitionTime.Time) < firstReconcile {
		found.Actor, found.Help, found.Command = reason.Drover, "that was just now", ""
	}
	return answer, err
}

func (f *Finder) answer(ctx context.Context, kind object.Kind, key client.ObjectKey) (Answer, error) {
	switch kind.GroupKind() {
	case object.Cluster.GroupKind():
		return f.answerCluster(ctx, key)
	case object.MachineDeployment.GroupKind():
		return f.answerDeployment(ctx, key)
	case object.MachineSet.GroupKind():
		return f.answerSet(ctx, key)
	case object.Machine.GroupKind():
		m := &clusterv1.Machine{}
		if err := f.Get(ctx, kind, key, m); err != nil {
			return Answer{}, err
		}
		return f.answerMachine(ctx, m)
	case object.Node.GroupKind():
		m, err := f.machineOfNode(ctx, key.Namespace, key.Name)
		if err != nil {
			return Answer{}, err
		}
		answer, err := f.answerMachine(ctx, m)
		answer.Object, answer.Notes = ReferenceOf(m), append(answer.Notes, fmt.Sprintf("Its Node is %s", key.Name))
		return answer, err
	}
	return f.answerAny(ctx, kind, key)
}

func (f *Finder) answerCluster(ctx context.Context, key client.ObjectKey) (Answer, error) {
	c := &clusterv1.Cluster{}
	if err := f.Get(ctx, object.Cluster, key, c); err != nil {
		return Answer{}, err
	}
	found, err := f.cluster(ctx, c)
	a := answer(referenceOfCluster(c), c.Status.Phase, found)
	if found == nil && err == nil {
		if _, note := f.kubeconfig(ctx, c); note != "" {
			a.Notes = append(a.Notes, note)
		}
	}
	return a, err
}

func (f *Finder) answerDeployment(ctx context.Context, key client.ObjectKey) (Answer, error) {
	md := &clusterv1.MachineDeployment{}
	if err := f.Get(ctx, object.MachineDeployment, key, md); err != nil {
		return Answer{}, err
	}
	o := ownerOfDeployment(md)
	found, err := f.owner(ctx, o)
	a := answer(o.ref, replicas(md.Spec.Replicas, md.Status.ReadyReplicas), found)
	if c := o.condition(clusterv1.MachineDeploymentRollingOutCondition); found == nil && c != nil && c.Message != "" {
		a.Notes = append(a.Notes, "A change that no Machine waits for is refused: "+escape.Line(c.Message))
	}
	return a, err
}

func (f *Finder) answerSet(ctx context.Context, key client.ObjectKey) (Answer, error) {
	set := &clusterv1.MachineSet{}
	if err := f.Get(ctx, object.MachineSet, key, set); err != nil {
		return Answer{}, err
	}
	o := ownerOfSet(set)
	found, err := f.owner(ctx, o)
	return answer(o.ref, replicas(set.Spec.Replicas, set.Status.ReadyReplicas), found), err
}

func (f *Finder) answerMachine(ctx context.Context, m *clusterv1.Machine) (Answer, error) {
	found, err := f.machine(ctx, m)
	a := answer(ReferenceOf(m), m.Status.Phase, found)
	if c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineUpToDateCondition); found == nil && c != nil && c.Status == metav1.ConditionFalse {
		a.Notes = append(a.Notes, "It has an older template, and the rollout replaces it: "+escape.Line(c.Message))
	}
	return a, err
}

// answerAny is about an object of which only the conditions are known.
func (f *Finder) answerAny(ctx context.Context, kind object.Kind, key client.ObjectKey) (Answer, error) {
	o, err := f.Unstructured(ctx, kind, key)
	if err != nil {
		return Answer{}, err
	}
	ref, conditions := referenceOf(o), object.Conditions(o)
	if found := keptOfGroup(o); found != nil {
		return answer(ref, "", found), nil
	}
	if len(conditions) == 0 {
		if withoutConditions(kind) {
			return Answer{}, fmt.Errorf("%s has no conditions: ask about an object that uses it, as a machinedeployment or a machine", kind.Title())
		}
		return answer(ref, "", notReconciled(ref, o.GetCreationTimestamp())), nil
	}
	if found := paused(ref, o.GroupVersionKind().Group, conditions); found != nil {
		return answer(ref, "", found), nil
	}
	found := cmp.Or(deletionUnseen(o), byTable(ref, awaited(o, conditions)))
	if kind.GroupKind() == object.MachineHealthCheck.GroupKind() {
		return f.answerHealthCheck(ctx, o, found)
	}
	if found != nil && !found.unreconciled && ofMachine(ref.Kind) {
		f.reviewOfMachine(o, found)
	}
	return answer(ref, "", found), nil
}

// ofMachine reports whether objects of a kind are made for one Machine by a provider.
func ofMachine(kind string) bool {
	return reason.Group(kind) == reason.InfraMachine || kind == object.BootstrapConfig.Kind
}

// awaited are the conditions of an object that count: of one that is made for a Machine and is being deleted, only Ready.
func awaited(o *unstructured.Unstructured, conditions []metav1.Condition) []metav1.Condition {
	ready := meta.FindStatusCondition(conditions, clusterv1.ReadyCondition)
	if ofMachine(o.GetKind()) && ready != nil && o.GetDeletionTimestamp() != nil {
		return []metav1.Condition{*ready}
	}
	return conditions
}

// reviewOfMachine changes the finding of an object that is made for a Machine by what its deletion or creation is about.
func (f *Finder) reviewOfMachine(o *unstructured.Unstructured, found *Finding) {
	if reason.Group(o.GetKind()) == reason.InfraMachine {
		found.Command = commandOfInfraMachine(found, metav1.GetControllerOfNoCopy(o))
		provisioned, _, _ := unstructured.NestedBool(o.Object, "status", "initialization", "provisioned")
		found.reviewDeletion(provisioned, !o.GetDeletionTimestamp().IsZero())
		if o.GetDeletionTimestamp() == nil {
			found.reviewCreation(f.Now.Sub(found.Condition.LastTransitionTime.Time) > maxCreation)
		}
		providerID, _, _ := unstructured.NestedString(o.Object, "spec", "providerID")
		found.reviewControlPlane(o.GetLabels(), provisioned || providerID != "")
	}
	found.reviewRemoval(o, f.Now)
}

// withoutConditions reports whether no manager writes conditions of a kind: templates of other projects, and what Drover's
// managers only read.
func withoutConditions(kind object.Kind) bool {
	switch kind.Group {
	case clusterv1.GroupVersion.Group, droverpolicyv1.GroupVersion.Group, bootstrapv1.GroupVersion.Group, infrav1.GroupVersion.Group:
		return !reason.Reports(kind.Kind)
	}
	return strings.HasSuffix(kind.Kind, "Template")
}

// commandOfInfraMachine is the command of a finding about an infrastructure machine. It is about the Machine, which is what is
// deleted and what has a console, and which may have another name; there is none without one.
func commandOfInfraMachine(found *Finding, owner *metav1.OwnerReference) string {
	entry, _ := reason.Find(found.Object.Kind, found.Condition.Type, found.Condition.Reason)
	of := found.Object
	if owner != nil && object.Machine.Owns(owner) {
		of.Kind, of.Name = object.Machine.Kind, owner.Name
	} else if strings.Contains(entry.Command, "{name}") {
		return ""
	}
	return command(entry.Command, of)
}

func answer(ref Reference, state string, found *Finding) Answer {
	return Answer{Object: ref, State: state, Well: found == nil, Finding: found}
}
