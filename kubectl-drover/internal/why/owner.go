// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
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
	"drover.io/kubectl-drover/internal/rollout"
	"drover.io/runtime/quantity"
)

// owner is what MachineDeployments and MachineSets have in common.
type owner struct {
	ref        Reference
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
		ref: ref, created: md.CreationTimestamp, conditions: md.Status.Conditions, kept: kept(ref, md),
		onDelete:   md.Spec.Rollout.Strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType,
		deployment: md,
		belongs:    func(m *clusterv1.Machine) bool { return m.Labels[clusterv1.MachineDeploymentNameLabel] == md.Name },
	}
}

func ownerOfSet(set *clusterv1.MachineSet) owner {
	ref := Reference{"MachineSet", set.Namespace, set.Name, set.Spec.ClusterName}
	return owner{
		ref: ref, created: set.CreationTimestamp, conditions: set.Status.Conditions, kept: kept(ref, set),
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
	if found := o.itself(); found != nil {
		return found, nil
	}
	// Nothing is created, replaced or drained while the Cluster is not well.
	if found, err := f.clusterNamed(ctx, o.ref); found != nil || err != nil {
		return found, err
	}
	w := &worst{}
	if o.blocked() != nil {
		return f.ofOwner(ctx, o, w)
	}
	if err := f.collect(ctx, o.ref, func(m *clusterv1.Machine) *worst {
		if !o.belongs(m) {
			return nil
		}
		return w
	}); err != nil {
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
		return found, nil
	}
	if err := f.reviewUndo(ctx, o, overdue); err != nil {
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
	if found := paused(o.ref, o.conditions); found != nil {
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
		rolling.Command = command("kubectl get machine --namespace {namespace} -l "+clusterv1.MachineDeploymentNameLabel+"={name}", o.ref)
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

// withoutUndo is for a rollout without progress that a rollback does not help.
func (o owner) withoutUndo(found *Finding) {
	found.Help = "see what is awaited, and correct it"
	found.Command = command("kubectl drover describe machinedeployment/{name} --namespace {namespace}", o.ref)
}

// reviewUndo takes the rollback out of a finding about a rollout without progress unless that withdraws its template. A user who
// may not read the revisions cannot roll back with the command.
func (f *Finder) reviewUndo(ctx context.Context, o owner, found *Finding) error {
	if found == nil || o.deployment == nil || found.Condition.Type != policyv1.ProgressingCondition {
		return nil
	}
	history, err := rollout.History(ctx, f.Reader, o.deployment)
	switch {
	case object.IsForbidden(err):
	case err != nil:
		return err
	case history.WithdrawsTemplate():
		return nil
	}
	o.withoutUndo(found)
	return nil
}

// clusterNamed is what the Cluster of an object itself waits for.
func (f *Finder) clusterNamed(ctx context.Context, ref Reference) (*Finding, error) {
	cluster, err := f.readCluster(ctx, ref)
	if cluster == nil || err != nil {
		return nil, err
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
	if found := kept(ref, c); found != nil {
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
	first, others, err := f.deployments(ctx, c)
	if err != nil {
		return nil, err
	}
	if first == nil {
		first, err = f.anyMachine(ctx, ref)
	}
	if first == nil {
		return clusterAnnotations(c), err
	}
	first.Others += others
	return first, err
}

func (f *Finder) deletedCluster(ctx context.Context, ref Reference, c *clusterv1.Cluster, deleting metav1.Condition) (*Finding, error) {
	if found := paused(ref, c.Status.Conditions); found != nil {
		return found, nil
	}
	found, err := f.anyMachine(ctx, ref)
	if found == nil && err == nil {
		found = of(ref, deleting)
	}
	return found, err
}

// anyMachine is what most Machines of a Cluster wait for.
func (f *Finder) anyMachine(ctx context.Context, ref Reference) (*Finding, error) {
	w := &worst{}
	if err := f.collect(ctx, ref, func(*clusterv1.Machine) *worst { return w }); err != nil {
		return nil, err
	}
	return f.worstMachine(ctx, w)
}

// deployments is what the first MachineDeployment that needs action waits for, or if there is none, the first that is not
// well, and how many other objects wait. The Machines are read once for all MachineDeployments, and other objects for one alone.
func (f *Finder) deployments(ctx context.Context, c *clusterv1.Cluster) (first *Finding, others int, err error) {
	var owners []owner
	machines := map[string]*worst{}
	err = object.Each(ctx, f.Reader, object.MachineDeployment, &clusterv1.MachineDeploymentList{}, func(page *clusterv1.MachineDeploymentList) error {
		for i := range page.Items {
			if md := &page.Items[i]; md.Spec.ClusterName == c.Name {
				owners, machines[md.Name] = append(owners, ownerOfDeployment(md)), &worst{}
			}
		}
		return nil
	}, client.InNamespace(c.Namespace))
	if err != nil || len(owners) == 0 {
		return nil, 0, err
	}
	err = f.collect(ctx, owners[0].ref, func(m *clusterv1.Machine) *worst { return machines[m.Labels[clusterv1.MachineDeploymentNameLabel]] })
	if err != nil {
		return nil, 0, err
	}
	owners = slices.DeleteFunc(owners, func(o owner) bool { return o.problem() == nil && machines[o.ref.Name].all == 0 })
	if len(owners) == 0 {
		return nil, 0, nil
	}
	at := max(0, slices.IndexFunc(owners, func(o owner) bool { return o.needsAction(machines[o.ref.Name]) }))
	for i, o := range owners {
		if i != at {
			others += max(machines[o.ref.Name].all, 1)
		}
	}
	first, err = f.ofOwner(ctx, owners[at], machines[owners[at].ref.Name])
	return first, others, err
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
	for _, found := range []*Finding{o.itself(), o.blocked()} {
		if found != nil {
			return found, nil
		}
	}
	return f.waiting(ctx, o, w)
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
	if found := kept(Reference{"Cluster", c.Namespace, c.Name, c.Name}, c); found != nil {
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
