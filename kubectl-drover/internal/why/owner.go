// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/api/reason"
	"drover.io/kubectl-drover/internal/escape"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/runtime/quantity"
)

// owner is what MachineDeployments and MachineSets have in common.
type owner struct {
	ref Reference
	// key tells the owners of one Cluster apart: the name of a MachineDeployment, the UID of a MachineSet.
	key        string
	created    metav1.Time
	conditions []metav1.Condition
	// unseen is that no manager has acted on its newest spec; nil if one has.
	unseen *Finding
	// kept is that nothing but finalizers of others keeps it; nil if that is not so.
	kept *Finding
	// onDelete means that Machines of an older template are replaced only when they are deleted by hand.
	onDelete bool
	// deletions means that its Machines wait for nothing but deletions that Drover continues, as far as their own conditions have it.
	deletions bool
	// deployment is nil for a MachineSet.
	deployment *clusterv1.MachineDeployment
	// belongs reports whether a Machine is one of its own.
	belongs func(*clusterv1.Machine) bool
}

func ownerOfDeployment(md *clusterv1.MachineDeployment) owner {
	ref := Reference{"MachineDeployment", md.Namespace, md.Name, md.Spec.ClusterName}
	return owner{
		ref: ref, key: md.Name, created: md.CreationTimestamp, conditions: md.Status.Conditions, kept: kept(ref, clusterv1.GroupVersion.Group, md),
		unseen:     unseen(ref, md, md.Status.ObservedGeneration),
		onDelete:   md.Spec.Rollout.Strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType,
		deployment: md,
		belongs:    func(m *clusterv1.Machine) bool { return m.Labels[clusterv1.MachineDeploymentNameLabel] == md.Name },
	}
}

func ownerOfSet(set *clusterv1.MachineSet) owner {
	ref := Reference{"MachineSet", set.Namespace, set.Name, set.Spec.ClusterName}
	return owner{
		ref: ref, key: string(set.UID), created: set.CreationTimestamp, conditions: set.Status.Conditions, kept: kept(ref, clusterv1.GroupVersion.Group, set),
		unseen: unseen(ref, set, set.Status.ObservedGeneration),
		belongs: func(m *clusterv1.Machine) bool {
			controller := metav1.GetControllerOfNoCopy(m)
			return controller != nil && controller.UID == set.UID
		},
	}
}

func (o owner) condition(kind string) *metav1.Condition {
	return meta.FindStatusCondition(o.conditions, kind)
}

// with is the finding of a condition that has one of the statuses.
func (o owner) with(kind string, statuses ...metav1.ConditionStatus) *Finding {
	c := o.condition(kind)
	if c == nil {
		return nil
	}
	for _, status := range statuses {
		if c.Status == status {
			return of(o.ref, *c)
		}
	}
	return nil
}

// owner is what a MachineDeployment or MachineSet waits for: what concerns it as a whole first, then its Machines.
func (f *Finder) owner(ctx context.Context, o owner) (*Finding, error) {
	itself := o.itself()
	if itself != nil && !isStop(itself) {
		return itself, nil
	}
	// Without what its workers need of a Cluster, nothing is created, replaced or drained.
	if found, err := f.clusterNamed(ctx, o.ref); found != nil || err != nil {
		return found, err
	}
	if itself == nil && o.blocked() != nil {
		return f.ofOwner(ctx, o, &worst{})
	}
	w, err := f.worstOf(ctx, o.ref, o.belongs)
	if err != nil && (itself == nil || !object.IsForbidden(err)) {
		return nil, err
	}
	return f.ofOwner(ctx, o, w)
}

// waiting is what an owner waits for that is neither wrong itself nor blocked.
func (f *Finder) waiting(ctx context.Context, o owner, w *worst) (*Finding, error) {
	overdue, aside := o.overdue(), o.aside()
	w.overdue = overdue != nil
	found, err := f.worstMachine(ctx, w)
	if err != nil {
		return nil, err
	}
	switch {
	case found == nil:
		if found = o.remaining(); o.unseen != nil && (found == nil || !found.needsAction()) {
			return o.unseen, nil
		}
		return found, f.reviewUndo(ctx, o, found)
	case overdue == nil && !found.needsAction() && aside != nil:
		aside.Others = found.Others + 1
		return aside, nil
	case overdue == nil:
		return found, f.offerUndo(ctx, o, found)
	}
	if err := f.adviseOverdue(ctx, o, overdue, found); err != nil {
		return nil, err
	}
	fact := fmt.Sprintf("%s: %s", found.Object, found.Meaning)
	if found.Condition.Type != "" {
		fact = found.condition("The condition " + found.Condition.Type + " of " + found.Object.String())
	}
	overdue.Facts = append(overdue.Facts, fact)
	overdue.Facts, overdue.Others = append(overdue.Facts, found.Facts...), found.Others
	return overdue, nil
}

// itself is what is wrong with the object as a whole.
func (o owner) itself() *Finding {
	if o.kept != nil {
		return o.kept
	}
	if len(o.conditions) == 0 {
		return notReconciled(o.ref, o.created)
	}
	if found := paused(o.ref, clusterv1.GroupVersion.Group, o.conditions); found != nil {
		return found
	}
	for _, found := range []*Finding{
		o.with(clusterv1.AvailableCondition, metav1.ConditionUnknown), // no Cluster
		o.with(droverpolicyv1.FrozenCondition, metav1.ConditionTrue),
	} {
		if found != nil {
			return found
		}
	}
	if c := o.condition(clusterv1.ScalingUpCondition); c != nil && c.Status == metav1.ConditionUnknown {
		return of(o.ref, *c)
	}
	return nil
}

// blocked is what prevents a change of size, a deletion or a rollout. A rollout without progress for too long may be rolled back
// instead, unless a ResourceQuota prevents it: its template is not wrong.
func (o owner) blocked() *Finding {
	for _, kind := range []string{clusterv1.ScalingUpCondition, clusterv1.ScalingDownCondition, clusterv1.DeletingCondition, clusterv1.MachineDeploymentRollingOutCondition} {
		found := o.blockedBy(kind)
		undoable := kind == clusterv1.MachineDeploymentRollingOutCondition && o.overdue() != nil
		if found != nil && (!undoable || exceedsQuota(found)) {
			return found
		}
	}
	return nil
}

// blockedBy is the finding of one of these conditions if it is Blocked; nil otherwise.
func (o owner) blockedBy(kind string) *Finding {
	found := o.with(kind, metav1.ConditionTrue)
	if found == nil || found.Condition.Reason != droverpolicyv1.BlockedReason {
		return nil
	}
	quota(found)
	return found
}

// collect adds each Machine of a Cluster to one of the worst; nil for a Machine that does not count.
func (f *Finder) collect(ctx context.Context, ref Reference, to func(*clusterv1.Machine) *worst) error {
	return f.Machines(ctx, ref.Namespace, ref.Cluster, func(page []clusterv1.Machine) error {
		for i := range page {
			if w := to(&page[i]); w != nil {
				w.add(&page[i])
			}
		}
		return nil
	})
}

// remaining is what an owner is about without a Machine that is not well. Nothing waits for a rollback that failed, an annotation
// that is not understood, or a spec that no manager has seen; an annotation is named before what continues without it.
func (o owner) remaining() *Finding {
	going := o.inProgress()
	if going != nil && going.needsAction() && !o.continuedByHand() {
		return cmp.Or(o.rollbackFailed(), going)
	}
	return cmp.Or(o.rollbackFailed(), o.invalid(), going)
}

// invalid is an annotation that is not understood.
func (o owner) invalid() *Finding {
	return o.with(droverpolicyv1.AnnotationsValidCondition, metav1.ConditionFalse)
}

// aside is a rollback that failed, a spec that no manager has seen, or an annotation that is not understood: Drover continues with
// none of them.
func (o owner) aside() *Finding { return cmp.Or(o.rollbackFailed(), o.unseen, o.invalid()) }

// isAside reports whether a finding about an owner is one that no Machine waits for.
func (f *Finding) isAside() bool {
	return f.Condition.Type == droverpolicyv1.RolledBackCondition || f.Condition.Type == droverpolicyv1.AnnotationsValidCondition
}

// worstOf collects the Machines of a Cluster that count. After a failure, it has those that were read.
func (f *Finder) worstOf(ctx context.Context, ref Reference, counts func(*clusterv1.Machine) bool) (*worst, error) {
	w := &worst{}
	return w, f.collect(ctx, ref, func(m *clusterv1.Machine) *worst {
		if !counts(m) {
			return nil
		}
		return w
	})
}

// inProgress is a rollout or a change of size without a Machine that is not well.
func (o owner) inProgress() *Finding {
	rolling := o.with(clusterv1.MachineDeploymentRollingOutCondition, metav1.ConditionTrue)
	if rolling != nil && o.deployment != nil && ptr.Deref(o.deployment.Spec.Paused, false) { // nobody continues
		rolling.Actor, rolling.Help = reason.Operator, "resume the rollout, or roll back if the new template is wrong"
		rolling.Command = command("kubectl drover rollout resume machinedeployment/{name} --namespace {namespace}", o.ref)
		return rolling
	}
	scalingUp := o.with(clusterv1.ScalingUpCondition, metav1.ConditionTrue)
	if rolling != nil && o.onDelete && scalingUp != nil { // the last Machine that was deleted is not replaced yet
		return scalingUp
	}
	if rolling != nil && o.onDelete {
		rolling.Actor, rolling.Help = reason.Operator, "delete the Machines of the older template, one after another: the strategy OnDelete replaces each after that"
		rolling.Command = command("kubectl get "+resource(object.Machine.GroupVersionKind)+" --namespace {namespace} -l "+clusterv1.MachineDeploymentNameLabel+"={name}", o.ref)
		return rolling
	}
	for _, found := range []*Finding{
		o.overdue(),
		rolling,
		scalingUp,
		o.with(clusterv1.ScalingDownCondition, metav1.ConditionTrue),
		o.with(clusterv1.DeletingCondition, metav1.ConditionTrue),
		o.with(clusterv1.AvailableCondition, metav1.ConditionFalse),
	} {
		if found != nil {
			return found
		}
	}
	return nil
}

// overdue is that there was no progress for too long. A rollout by hand takes as long as its user wants, and a deletion as long as its
// Pods and volumes need: none of its steps counts as progress. Where no Machine of an older template is left, a rollback would replace
// Machines that are well.
func (o owner) overdue() *Finding {
	found := o.with(droverpolicyv1.ProgressingCondition, metav1.ConditionFalse)
	rolling := o.with(clusterv1.MachineDeploymentRollingOutCondition, metav1.ConditionTrue) != nil
	switch {
	case found != nil && rolling && (o.onDelete || o.deletions):
		return nil
	case found != nil && !rolling:
		o.withoutUndo(found)
	}
	return found
}

// stoppedOnPurpose reports whether an owner waits for nothing but that it was frozen or paused on purpose, or that a user continues
// its rollout.
func (o owner) stoppedOnPurpose(w *worst) bool {
	if o.itself() != nil {
		return o.machinesStopped()
	}
	return o.blocked() == nil && !w.needsAction() && o.continuedByHand()
}

// machinesStopped reports whether nothing is done about the Machines of an owner, because it was frozen or paused on purpose.
func (o owner) machinesStopped() bool {
	found := o.itself()
	return found != nil && (found.Condition.Reason == droverpolicyv1.FrozenByAnnotationReason || found.Condition.Reason == clusterv1.PausedReason)
}

// continuedByHand reports whether a rollout is under way that only a user continues. Machines that fail are replaced meanwhile.
func (o owner) continuedByHand() bool {
	rolling := o.with(clusterv1.MachineDeploymentRollingOutCondition, metav1.ConditionTrue) != nil
	return rolling && (o.onDelete || o.deployment != nil && ptr.Deref(o.deployment.Spec.Paused, false))
}

// needsAction reports whether an owner or one of its Machines needs action, as far as their own conditions have it.
func (o owner) needsAction(w *worst) bool {
	for _, found := range []*Finding{o.itself(), o.blocked(), o.overdue()} {
		if found != nil {
			return found.needsAction()
		}
	}
	if w.all > 0 {
		return w.needsAction()
	}
	found := o.inProgress()
	return found != nil && found.needsAction()
}

// ofOwner is what an owner in a Cluster that is well waits for, with what its Machines wait for.
func (f *Finder) ofOwner(ctx context.Context, o owner, w *worst) (*Finding, error) {
	o.deletions = w.deletions()
	if found := o.itself(); found != nil {
		if isStop(found) {
			return found, f.besides(ctx, found, w)
		}
		return found, nil
	}
	if found := o.blocked(); found != nil {
		return found, nil
	}
	return f.waiting(ctx, o, w)
}

// isStop reports whether an owner is frozen, or paused by its own annotation.
func isStop(found *Finding) bool {
	own := found.Condition.Reason == clusterv1.PausedReason && !strings.Contains(found.Condition.Message, clusterPaused)
	return own || found.Condition.Type == droverpolicyv1.FrozenCondition
}

// besides adds what the Machines of an owner wait for that is frozen or paused: that says nothing about them, and may be there for them.
func (f *Finder) besides(ctx context.Context, stop *Finding, w *worst) error {
	found, err := f.worstMachine(ctx, w)
	if found == nil || err != nil {
		return err
	}
	fact := fmt.Sprintf("Besides, %s: %s", found.Object, found.Meaning)
	if found.Condition.Message != "" {
		fact += ": " + escape.Line(found.Condition.Message)
	}
	stop.Facts = append(stop.Facts, fact)
	stop.Others = found.Others
	return nil
}

// replicas is the state of a MachineDeployment or MachineSet.
func replicas(desired, ready *int32) string {
	return fmt.Sprintf("%d of %s ready", ptr.Deref(ready, 0), quantity.Of(ptr.Deref(desired, 0), "replica"))
}

// DeploymentProblem is what a MachineDeployment waits for as its own conditions have it, without a look at its Machines; nil if
// it is well.
func DeploymentProblem(md *clusterv1.MachineDeployment) *Finding {
	return ownerOfDeployment(md).problem()
}

// SetProblem is the same of a MachineSet.
func SetProblem(set *clusterv1.MachineSet) *Finding { return ownerOfSet(set).problem() }

func (o owner) problem() *Finding {
	return cmp.Or(o.itself(), o.blocked(), o.remaining())
}
