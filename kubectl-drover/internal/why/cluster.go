// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/kubectl-drover/internal/object"
)

func referenceOfCluster(c *clusterv1.Cluster) Reference {
	return Reference{"Cluster", c.Namespace, c.Name, c.Name}
}

// ClusterProblem is what a Cluster waits for as its own conditions have it; nil if it is well.
func ClusterProblem(c *clusterv1.Cluster) *Finding {
	if found := kept(referenceOfCluster(c), clusterv1.GroupVersion.Group, c); found != nil {
		return found
	}
	return cmp.Or(clusterItself(c, clusterConditions), clusterAnnotations(c))
}

// clusterConditions are those of a Cluster apart from its workers, the first cause first.
var clusterConditions = []string{
	droverpolicyv1.ManagementClaimedCondition, // in a copy, nothing else may be mended
	clusterv1.ClusterInfrastructureReadyCondition,
	clusterv1.ClusterRemoteConnectionProbeCondition,
	clusterv1.ClusterControlPlaneAvailableCondition,
}

// awaitedByHealthChecks are the conditions of a Cluster without which no MachineHealthCheck evaluates its Machines.
var awaitedByHealthChecks = []string{clusterv1.ClusterInfrastructureReadyCondition, clusterv1.ClusterRemoteConnectionProbeCondition}

// awaitedByWorkers are the conditions that the creation and deletion of the workers of a Cluster wait for with it: of infrastructure
// and control plane, only that they are ready once, however their providers report on them later. Health checks wait for more.
func awaitedByWorkers(c *clusterv1.Cluster) []string {
	was := map[string]*bool{
		clusterv1.ClusterInfrastructureReadyCondition:   c.Status.Initialization.InfrastructureProvisioned,
		clusterv1.ClusterControlPlaneAvailableCondition: c.Status.Initialization.ControlPlaneInitialized,
	}
	return slices.DeleteFunc(slices.Clone(clusterConditions), func(kind string) bool { return ptr.Deref(was[kind], false) })
}

// clusterItself is what a Cluster waits for, of the given conditions.
func clusterItself(c *clusterv1.Cluster, kinds []string) *Finding {
	ref := referenceOfCluster(c)
	if len(c.Status.Conditions) == 0 {
		return notReconciled(ref, c.CreationTimestamp)
	}
	if found := paused(ref, clusterv1.GroupVersion.Group, c.Status.Conditions); found != nil {
		return found
	}
	for _, kind := range kinds {
		found := meta.FindStatusCondition(c.Status.Conditions, kind)
		if found == nil || found.Status == metav1.ConditionTrue {
			continue
		}
		if kind == droverpolicyv1.ManagementClaimedCondition && found.Reason == droverpolicyv1.NotClaimedYetReason {
			if probe := meta.FindStatusCondition(c.Status.Conditions, clusterv1.ClusterRemoteConnectionProbeCondition); probe != nil && probe.Status != metav1.ConditionTrue {
				continue // the connection is the cause
			}
		}
		return of(ref, *found)
	}
	return nil
}

// clusterAnnotations is an annotation of a Cluster that is not understood. Its workers do not wait for that.
func clusterAnnotations(c *clusterv1.Cluster) *Finding {
	return clusterIsNot(c, droverpolicyv1.AnnotationsValidCondition)
}

// clusterIsNot is the finding of a condition of a Cluster that is not True.
func clusterIsNot(c *clusterv1.Cluster, kind string) *Finding {
	found := meta.FindStatusCondition(c.Status.Conditions, kind)
	if found == nil || found.Status == metav1.ConditionTrue {
		return nil
	}
	return of(referenceOfCluster(c), *found)
}

// clusterNamed is what an object waits for with its Cluster.
func (f *Finder) clusterNamed(ctx context.Context, ref Reference) (*Finding, error) {
	cluster, err := f.readCluster(ctx, ref)
	switch {
	case cluster == nil || err != nil:
		return nil, err
	case !cluster.DeletionTimestamp.IsZero(): // Machines of a Cluster that is being deleted do not need the workload cluster
		return holdsDeletion(cluster), nil
	}
	return clusterItself(cluster, awaitedByWorkers(cluster)), nil
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
	ref := referenceOfCluster(c)
	if found := kept(ref, clusterv1.GroupVersion.Group, c); found != nil {
		return found, nil
	}
	if !c.DeletionTimestamp.IsZero() {
		return f.deletedCluster(ctx, c)
	}
	if found := clusterItself(c, clusterConditions); found != nil {
		return found, nil
	}
	if found, _ := f.kubeconfig(ctx, c); found != nil {
		return found, nil
	}
	first, others, rest, err := f.firstOwner(ctx, c)
	if err != nil {
		return nil, err
	}
	machine := (*Finding)(nil)
	switch {
	case first == nil || !first.needsAction() || first.isAside(): // the cause may be deeper than the conditions of Machines
		machine, err = f.anyMachine(ctx, ref, func(*clusterv1.Machine) bool { return true })
	case rest != nil:
		machine, err = f.worstMachine(ctx, rest)
	}
	switch {
	case err != nil:
		return nil, err
	case first == nil, machine != nil && machine.needsAction():
		first, others = machine, 0
	}
	if first != nil {
		first.Others += others
	}
	return orAside(c, first), nil
}

// orAside is what the workers of a Cluster wait for, or instead what they do not wait for, if they are well or go on by themselves.
func orAside(c *clusterv1.Cluster, workers *Finding) *Finding {
	if workers == nil {
		available := clusterIsNot(c, clusterv1.ClusterAvailableCondition) // where nothing else is left
		return cmp.Or(clusterAnnotations(c), unseen(referenceOfCluster(c), c, c.Status.ObservedGeneration), available)
	}
	if aside := cmp.Or(clusterAnnotations(c), closedGate(c)); aside != nil && !workers.needsAction() {
		aside.Others = workers.Others + 1
		return aside
	}
	return workers
}

// closedGate is that a Cluster is not available for a condition of its spec.availabilityGates; nil if it is, or
// is not for another condition.
func closedGate(c *clusterv1.Cluster) *Finding {
	closed := slices.ContainsFunc(c.Spec.AvailabilityGates, func(gate clusterv1.ClusterAvailabilityGate) bool {
		open := metav1.ConditionTrue
		if gate.Polarity == clusterv1.NegativePolarityCondition {
			open = metav1.ConditionFalse
		}
		return !meta.IsStatusConditionPresentAndEqual(c.Status.Conditions, gate.ConditionType, open)
	})
	if !closed {
		return nil
	}
	return clusterIsNot(c, clusterv1.ClusterAvailableCondition)
}

func (f *Finder) deletedCluster(ctx context.Context, c *clusterv1.Cluster) (*Finding, error) {
	ref, deleting := referenceOfCluster(c), meta.FindStatusCondition(c.Status.Conditions, clusterv1.ClusterDeletingCondition)
	if found := holdsDeletion(c); found != nil {
		return found, nil
	}
	if deleting == nil || deleting.Status != metav1.ConditionTrue {
		return notDeleted(ref, *c.DeletionTimestamp), nil
	}
	// A Machine that is not being deleted yet says nothing about the deletion.
	found, err := f.anyMachine(ctx, ref, func(m *clusterv1.Machine) bool { return !m.DeletionTimestamp.IsZero() })
	if err != nil || found != nil && found.needsAction() {
		return found, err
	}
	owners, err := f.owners(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, o := range owners {
		if kept := cmp.Or(o.kept, paused(o.ref, clusterv1.GroupVersion.Group, o.conditions), o.blockedBy(clusterv1.DeletingCondition)); kept != nil {
			return kept, nil
		}
	}
	if deleting.Reason == droverpolicyv1.BlockedReason {
		return of(ref, *deleting), nil
	}
	return cmp.Or(found, of(ref, *deleting)), nil
}

// holdsDeletion is what holds the deletion of everything in a Cluster: a pause, or that it is a copy, whose infrastructure machines
// have the instances of the original.
func holdsDeletion(c *clusterv1.Cluster) *Finding {
	ref := referenceOfCluster(c)
	if found := paused(ref, clusterv1.GroupVersion.Group, c.Status.Conditions); found != nil {
		return found
	}
	if claimed := meta.FindStatusCondition(c.Status.Conditions, droverpolicyv1.ManagementClaimedCondition); claimed != nil && claimed.Reason == droverpolicyv1.ClaimedElsewhereReason {
		return of(ref, *claimed)
	}
	return nil
}

// anyMachine is what most of those Machines of a Cluster wait for that count.
func (f *Finder) anyMachine(ctx context.Context, ref Reference, counts func(*clusterv1.Machine) bool) (*Finding, error) {
	w, err := f.worstOf(ctx, ref, counts)
	if err != nil {
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
// not well, and how many other objects wait. One that was stopped on purpose does not hide another, nor the Machines of any that was
// not, or of none, which are returned then. The Machines are read once for all of them, and other objects for one alone.
func (f *Finder) firstOwner(ctx context.Context, c *clusterv1.Cluster) (first *Finding, others int, rest *worst, err error) {
	owners, err := f.owners(ctx, c)
	if err != nil || len(owners) == 0 {
		return nil, 0, nil, err
	}
	unowned := &worst{}
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
		return nil, 0, nil, err
	}
	for i := range owners {
		owners[i].deletions = machines[owners[i].key].deletions()
	}
	owners = slices.DeleteFunc(owners, func(o owner) bool { return cmp.Or(o.problem(), o.unseen) == nil && machines[o.key].all == 0 })
	if len(owners) == 0 {
		return nil, 0, nil, nil
	}
	at := firstOf(owners, machines)
	for i, o := range owners {
		if i != at {
			others += max(machines[o.key].all, 1)
		}
	}
	w := machines[owners[at].key]
	if owners[at].stoppedOnPurpose(w) {
		rest = unowned
		for _, o := range owners {
			if !o.machinesStopped() {
				rest.merge(machines[o.key])
			}
		}
	}
	first, err = f.ofOwner(ctx, owners[at], w)
	return first, others, rest, err
}

// firstOf is the index of the owner that an answer is about: one that needs action, one with something that nothing waits for, one
// that was stopped on purpose, and then the first.
func firstOf(owners []owner, machines map[string]*worst) int {
	for _, preferred := range []func(owner) bool{
		func(o owner) bool { return o.needsAction(machines[o.key]) && !o.stoppedOnPurpose(machines[o.key]) },
		func(o owner) bool {
			found := o.remaining()
			return found != nil && found.needsAction() && !o.machinesStopped() && (found.isAside() || !o.stoppedOnPurpose(machines[o.key]))
		},
		func(o owner) bool { return o.needsAction(machines[o.key]) },
		func(o owner) bool { return o.unseen != nil },
	} {
		if at := slices.IndexFunc(owners, preferred); at >= 0 {
			return at
		}
	}
	return 0
}
