// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/api/reason"
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
	// kept is that nothing but finalizers of others keeps it; nil if that is not so.
	kept *Finding
	// onDelete means that Machines of an older template are replaced only when they are deleted by hand.
	onDelete bool
	// deployment is nil for a MachineSet.
	deployment *clusterv1.MachineDeployment
	// belongs reports whether a Machine is one of its own.
	belongs func(*clusterv1.Machine) bool
}

func ownerOfDeployment(md *clusterv1.MachineDeployment) owner {
	ref := Reference{"MachineDeployment", md.Namespace, md.Name, md.Spec.ClusterName}
	return owner{
		ref: ref, key: md.Name, created: md.CreationTimestamp, conditions: md.Status.Conditions, kept: kept(ref, clusterv1.GroupVersion.Group, md),
		onDelete:   md.Spec.Rollout.Strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType,
		deployment: md,
		belongs:    func(m *clusterv1.Machine) bool { return m.Labels[clusterv1.MachineDeploymentNameLabel] == md.Name },
	}
}

func ownerOfSet(set *clusterv1.MachineSet) owner {
	ref := Reference{"MachineSet", set.Namespace, set.Name, set.Spec.ClusterName}
	return owner{
		ref: ref, key: string(set.UID), created: set.CreationTimestamp, conditions: set.Status.Conditions, kept: kept(ref, clusterv1.GroupVersion.Group, set),
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
	if found := o.itself(); found != nil && !isFreeze(found) {
		return found, nil
	}
	// Nothing is created, replaced or drained while the Cluster is not well.
	if found, err := f.clusterNamed(ctx, o.ref); found != nil || err != nil {
		return found, err
	}
	w, itself := &worst{}, o.itself()
	if itself == nil && o.blocked() != nil {
		return f.ofOwner(ctx, o, w)
	}
	err := f.collect(ctx, o.ref, func(m *clusterv1.Machine) *worst {
		if !o.belongs(m) {
			return nil
		}
		return w
	})
	if err != nil && (itself == nil || !object.IsForbidden(err)) {
		return nil, err
	}
	return f.ofOwner(ctx, o, w)
}

// waiting is what an owner waits for that is neither wrong itself nor blocked.
func (f *Finder) waiting(ctx context.Context, o owner, w *worst) (*Finding, error) {
	found, err := f.worstMachine(ctx, w)
	if err != nil {
		return nil, err
	}
	overdue := o.overdue()
	switch {
	case found == nil:
		found = o.inProgress()
		return found, f.reviewUndo(ctx, o, found)
	case overdue == nil:
		return found, f.offerUndo(ctx, o, found)
	case found.machine.DeletionTimestamp.IsZero():
		err = f.reviewUndo(ctx, o, overdue)
	case found.needsAction(): // a rollback does not end the deletion of an older Machine
		overdue.Actor, overdue.Help, overdue.Command = found.Actor, found.Help, found.Command
	default:
		o.withoutUndo(overdue)
	}
	if err != nil {
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
		o.with(policyv1.FrozenCondition, metav1.ConditionTrue),
		o.with(policyv1.RolledBackCondition, metav1.ConditionFalse),
		o.with(policyv1.AnnotationsValidCondition, metav1.ConditionFalse),
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
// instead.
func (o owner) blocked() *Finding {
	for _, kind := range []string{clusterv1.ScalingUpCondition, clusterv1.ScalingDownCondition, clusterv1.DeletingCondition, clusterv1.MachineDeploymentRollingOutCondition} {
		found := o.with(kind, metav1.ConditionTrue)
		if found == nil || found.Condition.Reason != policyv1.BlockedReason {
			continue
		}
		if kind == clusterv1.MachineDeploymentRollingOutCondition && o.overdue() != nil {
			continue
		}
		quota(found)
		return found
	}
	return nil
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

// inProgress is a rollout or a change of size without a Machine that is not well.
func (o owner) inProgress() *Finding {
	rolling := o.with(clusterv1.MachineDeploymentRollingOutCondition, metav1.ConditionTrue)
	if rolling != nil && o.deployment != nil && ptr.Deref(o.deployment.Spec.Paused, false) { // nobody continues
		rolling.Actor, rolling.Help = reason.Operator, "resume the rollout, or roll back if the new template is wrong"
		rolling.Command = command("kubectl drover rollout resume machinedeployment/{name} --namespace {namespace}", o.ref)
		return rolling
	}
	if rolling != nil && o.onDelete {
		rolling.Actor, rolling.Help = reason.Operator, "delete the Machines of the older template, one after another: the strategy OnDelete replaces each after that"
		rolling.Command = command("kubectl get "+resource(object.Machine.GroupVersionKind)+" --namespace {namespace} -l "+clusterv1.MachineDeploymentNameLabel+"={name}", o.ref)
		return rolling
	}
	for _, found := range []*Finding{
		o.overdue(),
		rolling,
		o.with(clusterv1.ScalingUpCondition, metav1.ConditionTrue),
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

// overdue is that there was no progress for too long. Where no Machine of an older template is left, a rollback would replace
// Machines that are well.
func (o owner) overdue() *Finding {
	found := o.with(policyv1.ProgressingCondition, metav1.ConditionFalse)
	if found != nil && o.with(clusterv1.MachineDeploymentRollingOutCondition, metav1.ConditionTrue) == nil {
		o.withoutUndo(found)
	}
	return found
}

// clusterNamed is what the Cluster of an object itself waits for.
func (f *Finder) clusterNamed(ctx context.Context, ref Reference) (*Finding, error) {
	cluster, err := f.readCluster(ctx, ref)
	switch {
	case cluster == nil || err != nil:
		return nil, err
	case !cluster.DeletionTimestamp.IsZero(): // Machines of a Cluster that is being deleted do not need the workload cluster
		return holdsDeletion(cluster), nil
	}
	return clusterItself(cluster), nil
}

// readCluster reads the Cluster of an object; nil if it does not exist, or may not be read.
func (f *Finder) readCluster(ctx context.Context, ref Reference) (*clusterv1.Cluster, error) {
	cluster := &clusterv1.Cluster{}
	err := f.Get(ctx, object.Cluster, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Cluster}, cluster)
	if object.IsNotFound(err) || object.IsForbidden(err) {
		return nil, nil //nolint:nilnil // there is none to read
	}
	return cluster, err
}

// cluster is what a Cluster waits for: itself first, then its workers. While it is being deleted, only its deletion counts.
func (f *Finder) cluster(ctx context.Context, c *clusterv1.Cluster) (*Finding, error) {
	ref := Reference{"Cluster", c.Namespace, c.Name, c.Name}
	if found := kept(ref, clusterv1.GroupVersion.Group, c); found != nil {
		return found, nil
	}
	deleting := meta.FindStatusCondition(c.Status.Conditions, clusterv1.ClusterDeletingCondition)
	if deleting != nil && deleting.Status == metav1.ConditionTrue {
		return f.deletedCluster(ctx, ref, c, *deleting)
	}
	if found := clusterItself(c); found != nil {
		return found, nil
	}
	if found, _ := f.kubeconfig(ctx, c); found != nil {
		return found, nil
	}
	first, others, unowned, err := f.firstOwner(ctx, c)
	if err != nil {
		return nil, err
	}
	machine := (*Finding)(nil)
	switch {
	case first == nil || !first.needsAction(): // the cause may be deeper than the conditions of Machines
		machine, err = f.anyMachine(ctx, ref)
	case first.isOnPurpose():
		machine, err = f.worstMachine(ctx, unowned)
	}
	switch {
	case err != nil:
		return nil, err
	case first == nil, machine != nil && machine.needsAction():
		first, others = machine, 0
	}
	if first == nil {
		return clusterAnnotations(c), nil
	}
	first.Others += others
	return first, nil
}

func (f *Finder) deletedCluster(ctx context.Context, ref Reference, c *clusterv1.Cluster, deleting metav1.Condition) (*Finding, error) {
	if found := holdsDeletion(c); found != nil {
		return found, nil
	}
	found, err := f.anyMachine(ctx, ref)
	if found != nil || err != nil {
		return found, err
	}
	owners, err := f.owners(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, o := range owners {
		if o.kept != nil {
			return o.kept, nil
		}
		if found := o.blocked(); found != nil {
			return found, nil
		}
	}
	return of(ref, deleting), nil
}

// holdsDeletion is what holds the deletion of everything in a Cluster: a pause, or that it is a copy, whose infrastructure machines
// have the instances of the original.
func holdsDeletion(c *clusterv1.Cluster) *Finding {
	ref := Reference{"Cluster", c.Namespace, c.Name, c.Name}
	if found := paused(ref, clusterv1.GroupVersion.Group, c.Status.Conditions); found != nil {
		return found
	}
	if claimed := meta.FindStatusCondition(c.Status.Conditions, policyv1.ManagementClaimedCondition); claimed != nil && claimed.Reason == policyv1.ClaimedElsewhereReason {
		return of(ref, *claimed)
	}
	return nil
}

// anyMachine is what most Machines of a Cluster wait for.
func (f *Finder) anyMachine(ctx context.Context, ref Reference) (*Finding, error) {
	w := &worst{}
	if err := f.collect(ctx, ref, func(*clusterv1.Machine) *worst { return w }); err != nil {
		return nil, err
	}
	return f.worstMachine(ctx, w)
}

// owners are the MachineDeployments of a Cluster, and its MachineSets without one. Without permission to read MachineSets, there
// are none of these.
func (f *Finder) owners(ctx context.Context, c *clusterv1.Cluster) ([]owner, error) {
	var owners []owner
	err := object.Each(ctx, f.Reader, object.MachineDeployment, &clusterv1.MachineDeploymentList{}, func(page *clusterv1.MachineDeploymentList) error {
		for i := range page.Items {
			if md := &page.Items[i]; md.Spec.ClusterName == c.Name {
				owners = append(owners, ownerOfDeployment(md))
			}
		}
		return nil
	}, client.InNamespace(c.Namespace))
	if err != nil {
		return nil, err
	}
	err = object.Each(ctx, f.Reader, object.MachineSet, &clusterv1.MachineSetList{}, func(page *clusterv1.MachineSetList) error {
		for i := range page.Items {
			if set := &page.Items[i]; set.Spec.ClusterName == c.Name && metav1.GetControllerOfNoCopy(set) == nil {
				owners = append(owners, ownerOfSet(set))
			}
		}
		return nil
	}, client.InNamespace(c.Namespace))
	if object.IsForbidden(err) {
		err = nil
	}
	return owners, err
}

// firstOwner is what the first MachineDeployment or MachineSet that needs action waits for, or if there is none, the first that is
// not well, how many other objects wait, and the Machines that none of them has. One that somebody has stopped on purpose does not
// hide another. The Machines are read once for all of them, and other objects for one alone.
func (f *Finder) firstOwner(ctx context.Context, c *clusterv1.Cluster) (first *Finding, others int, unowned *worst, err error) {
	unowned = &worst{}
	owners, err := f.owners(ctx, c)
	if err != nil || len(owners) == 0 {
		return nil, 0, unowned, err
	}
	machines := map[string]*worst{}
	for _, o := range owners {
		machines[o.key] = &worst{}
	}
	err = f.collect(ctx, owners[0].ref, func(m *clusterv1.Machine) *worst {
		if controller := metav1.GetControllerOfNoCopy(m); controller != nil && machines[string(controller.UID)] != nil {
			return machines[string(controller.UID)]
		}
		return cmp.Or(machines[m.Labels[clusterv1.MachineDeploymentNameLabel]], unowned)
	})
	if err != nil {
		return nil, 0, unowned, err
	}
	owners = slices.DeleteFunc(owners, func(o owner) bool { return o.problem() == nil && machines[o.key].all == 0 })
	if len(owners) == 0 {
		return nil, 0, unowned, nil
	}
	at := slices.IndexFunc(owners, func(o owner) bool { return o.needsAction(machines[o.key]) && !o.stoppedOnPurpose() })
	if at < 0 {
		at = max(0, slices.IndexFunc(owners, func(o owner) bool { return o.needsAction(machines[o.key]) }))
	}
	for i, o := range owners {
		if i != at {
			others += max(machines[o.key].all, 1)
		}
	}
	first, err = f.ofOwner(ctx, owners[at], machines[owners[at].key])
	return first, others, unowned, err
}

// stoppedOnPurpose reports whether somebody has frozen or paused an owner, or replaces its Machines by hand.
func (o owner) stoppedOnPurpose() bool {
	if found := o.itself(); found != nil {
		return found.isOnPurpose()
	}
	return o.onDelete || o.deployment != nil && ptr.Deref(o.deployment.Spec.Paused, false)
}

// isOnPurpose reports whether somebody has set what it is about.
func (f *Finding) isOnPurpose() bool {
	return f.Condition.Reason == policyv1.FrozenByAnnotationReason || f.Condition.Reason == clusterv1.PausedReason
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
	if found := o.itself(); found != nil {
		if isFreeze(found) {
			return found, f.besides(ctx, found, w)
		}
		return found, nil
	}
	if found := o.blocked(); found != nil {
		return found, nil
	}
	return f.waiting(ctx, o, w)
}

func isFreeze(found *Finding) bool { return found.Condition.Type == policyv1.FrozenCondition }

// besides adds what the Machines of a frozen owner wait for: a freeze says nothing about them, and may be there for them.
func (f *Finder) besides(ctx context.Context, freeze *Finding, w *worst) error {
	found, err := f.worstMachine(ctx, w)
	if found == nil || err != nil {
		return err
	}
	freeze.Facts = append(freeze.Facts, fmt.Sprintf("Besides, %s: %s", found.Object, found.Meaning))
	freeze.Others = found.Others
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

// ClusterProblem is the same of a Cluster.
func ClusterProblem(c *clusterv1.Cluster) *Finding {
	if found := kept(Reference{"Cluster", c.Namespace, c.Name, c.Name}, clusterv1.GroupVersion.Group, c); found != nil {
		return found
	}
	if found := clusterItself(c); found != nil {
		return found
	}
	return clusterAnnotations(c)
}

func (o owner) problem() *Finding {
	for _, found := range []*Finding{o.itself(), o.blocked(), o.inProgress()} {
		if found != nil {
			return found
		}
	}
	return nil
}
