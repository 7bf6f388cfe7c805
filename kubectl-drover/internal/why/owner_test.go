// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/api/reason"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/kubectl-drover/internal/object/objecttest"
)

// poolNamed is a MachineDeployment that is well but for the conditions that are given.
func poolNamed(name string, conditions ...metav1.Condition) *clusterv1.MachineDeployment {
	md := deployment(append(conditions, is("Other", "True", "Other", ""))...)
	md.Name = name
	return md
}

// failingIn is a Machine of a MachineDeployment whose instance has a problem.
func failingIn(pool, name, reason string) *clusterv1.Machine {
	m := machine(name, is(clusterv1.MachineInfrastructureReadyCondition, "False", reason, "message of "+name))
	m.Labels[clusterv1.MachineDeploymentNameLabel] = pool
	return m
}

// deletedIn is a Machine of a MachineDeployment that is being deleted.
func deletedIn(pool, name, reason, message string) *clusterv1.Machine {
	m := machine(name, is(clusterv1.MachineDeletingCondition, "True", reason, message))
	m.Labels[clusterv1.MachineDeploymentNameLabel] = pool
	m.DeletionTimestamp, m.Finalizers = new(ago(time.Hour)), []string{clusterv1.MachineFinalizer}
	return m
}

// setNamed is a MachineSet without a MachineDeployment.
func setNamed(name string, conditions ...metav1.Condition) *clusterv1.MachineSet {
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID("uid-of-" + name)}}
	set.Spec.ClusterName, set.Status.Conditions = "c", append(conditions, is("Other", "True", "Other", ""))
	return set
}

// inSet makes a Machine one of a MachineSet without a MachineDeployment.
func inSet(m *clusterv1.Machine, set string) *clusterv1.Machine {
	delete(m.Labels, clusterv1.MachineDeploymentNameLabel)
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: set, UID: types.UID("uid-of-" + set), Controller: new(true)}}
	return m
}

// TestFreezeNamesWhatItsMachinesWaitFor besides, as a freeze may be there for them.
func TestFreezeNamesWhatItsMachinesWaitFor(t *testing.T) {
	t.Parallel()
	frozen := is(droverpolicyv1.FrozenCondition, "True", droverpolicyv1.OvershootReason, "")
	f := finder(t, nil, poolNamed("a", frozen), failingIn("a", "a-0", "Unauthorized"), failingIn("a", "a-1", "Unauthorized"), cluster())
	for name, kind := range map[string]object.Kind{"a": object.MachineDeployment, "c": object.Cluster} {
		answer, err := f.Answer(t.Context(), kind, key(name))
		if err != nil || answer.Finding == nil || answer.Finding.Condition.Type != frozen.Type || answer.Finding.Others != 1 ||
			strings.Join(answer.Finding.Facts, "|") != "Besides, Machine a-0: the cloud refused the credentials: message of a-0" {
			t.Errorf("got %+v, error %v", answer.Finding, err)
		}
	}
}

// TestClusterThatIsDeletedNamesWhatKeepsIt once its Machines are gone.
func TestClusterThatIsDeletedNamesWhatKeepsIt(t *testing.T) {
	t.Parallel()
	c := cluster(is(clusterv1.ClusterDeletingCondition, "True", clusterv1.ClusterDeletingWaitingForWorkersDeletionReason, "* MachineDeployments: a"), unconnected)
	c.DeletionTimestamp, c.Finalizers = new(ago(time.Hour)), []string{clusterv1.ClusterFinalizer}
	blockedCluster := c.DeepCopy()
	blockedCluster.Status.Conditions[0].Reason = droverpolicyv1.BlockedReason
	kept := poolNamed("a")
	kept.DeletionTimestamp, kept.Finalizers = new(ago(time.Hour)), []string{"example.com/backup"}
	blocked := poolNamed("a", is(clusterv1.DeletingCondition, "True", droverpolicyv1.BlockedReason, "a policy"))
	held := poolNamed("a", is(clusterv1.PausedCondition, "True", clusterv1.PausedReason, "MachineDeployment has the cluster.x-k8s.io/paused annotation"))
	heldSet := setNamed("s", is(clusterv1.PausedCondition, "True", clusterv1.PausedReason, "MachineSet has the cluster.x-k8s.io/paused annotation"))
	refused := deletedIn("a", "a-0", clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason, `Waiting for SimMachine "i" to be deleted, which the API server refuses: a policy`)
	for name, test := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"and what a Machine waits for first":      {[]client.Object{kept, refused}, "Machine a-0"},
		"before a Machine that is being removed":  {[]client.Object{blocked, deletedIn("a", "a-0", clusterv1.MachineDeletingReason, "")}, "MachineDeployment a"},
		"before a Machine that is not deleted":    {[]client.Object{blocked, failingIn("a", "a-0", "CloudError")}, "MachineDeployment a"},
		"before a condition that is of no import": {[]client.Object{poolNamed("a", is(clusterv1.ScalingUpCondition, "True", droverpolicyv1.BlockedReason, "a quota"))}, "Cluster c"},
		"as a finalizer of others":                {[]client.Object{kept}, "MachineDeployment a"},
		"as a pool that is blocked":               {[]client.Object{blocked}, "MachineDeployment a"},
		"as a pool that is paused":                {[]client.Object{held}, "MachineDeployment a"},
		"as a MachineSet that is paused":          {[]client.Object{heldSet, deletedIn("", "m", clusterv1.MachineDeletingReason, "")}, "MachineSet s"},
		"as the refusal of the API server":        {[]client.Object{poolNamed("a"), deletedIn("a", "a-0", clusterv1.MachineDeletingReason, ""), blockedCluster}, "Cluster c"},
		"or a Machine that is being removed":      {[]client.Object{poolNamed("a"), deletedIn("a", "a-0", clusterv1.MachineDeletingReason, "")}, "Machine a-0"},
		"or itself":                               {[]client.Object{poolNamed("a")}, "Cluster c"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !slices.Contains(test.objects, client.Object(blockedCluster)) {
				test.objects = append(test.objects, c)
			}
			answer, err := finder(t, nil, test.objects...).Answer(t.Context(), object.Cluster, key("c"))
			if err != nil || answer.Finding == nil || answer.Finding.Object.String() != test.want {
				t.Errorf("got %+v, error %v", answer.Finding, err)
			}
		})
	}
}

// TestPoolOfAClusterThatIsDeleted does not wait for the workload cluster, unless another management cluster acts on it: this one is a
// copy then.
func TestPoolOfAClusterThatIsDeleted(t *testing.T) {
	t.Parallel()
	c := cluster(unconnected)
	c.DeletionTimestamp, c.Finalizers = new(ago(time.Hour)), []string{clusterv1.ClusterFinalizer}
	copied := c.DeepCopy()
	copied.Status.Conditions = append(copied.Status.Conditions, is(droverpolicyv1.ManagementClaimedCondition, "False", droverpolicyv1.ClaimedElsewhereReason, ""))
	for want, c := range map[string]*clusterv1.Cluster{"Machine a-0": c, "Cluster c": copied} {
		answer, err := finder(t, nil, poolNamed("a"), failingIn("a", "a-0", "CloudError"), c).Answer(t.Context(), object.MachineDeployment, key("a"))
		if err != nil || answer.Finding == nil || answer.Finding.Object.String() != want {
			t.Errorf("got %+v, error %v", answer.Finding, err)
		}
	}
}

// TestClusterAnswersAboutItsFirstPool has two MachineDeployments: the answer is about the first that is not well, and counts what the
// others and their Machines wait for.
func TestClusterAnswersAboutItsFirstPool(t *testing.T) {
	t.Parallel()
	frozen := is(droverpolicyv1.FrozenCondition, "True", droverpolicyv1.FrozenByAnnotationReason, "")
	rolling := is(clusterv1.MachineDeploymentRollingOutCondition, "True", clusterv1.MachineDeploymentRollingOutReason, "")
	paused := is(clusterv1.PausedCondition, "True", clusterv1.PausedReason, "")
	onDelete := func(name string, conditions ...metav1.Condition) *clusterv1.MachineDeployment {
		md := poolNamed(name, conditions...)
		md.Spec.Rollout.Strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
		return md
	}
	resumable := poolNamed("b", rolling)
	resumable.Spec.Paused = new(true)
	overdue := is(droverpolicyv1.ProgressingCondition, "False", droverpolicyv1.ProgressDeadlineExceededReason, "")
	annotation := is(droverpolicyv1.AnnotationsValidCondition, "False", droverpolicyv1.InvalidValueReason, "")
	byHand := onDelete("a", rolling)
	setOfAnother, setOfPool := setNamed("s", frozen), setNamed("s", frozen)
	setOfAnother.Spec.ClusterName = "d"
	setOfPool.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineDeployment", Name: "a", Controller: new(true)}}
	other := poolNamed("of-another", frozen)
	other.Spec.ClusterName = "d"
	booting := failingIn("a", "a-0", infrav1.InstancePendingReason)
	booting.Status.Conditions[0].LastTransitionTime = ago(time.Minute)
	removed := deletedIn("b", "b-0", clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason, "")
	removed.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "SimMachine", Name: "i"}
	blocked := is(clusterv1.ScalingUpCondition, "True", droverpolicyv1.BlockedReason, "")
	blockedRollout := is(clusterv1.MachineDeploymentRollingOutCondition, "True", droverpolicyv1.BlockedReason, "")
	ending := deletedIn("a", "a-0", clusterv1.MachineDeletingDrainingNodeReason, "Draining:\n* Pod a/b: waiting for completion")
	stuck := deletedIn("b", "b-0", clusterv1.MachineDeletingDrainingNodeReason, "Draining:\n* Pod a/c: being deleted, waiting for the kubelet to end them")
	ending.Status.Conditions[0].LastTransitionTime = ago(5 * time.Hour)
	now := func(m *clusterv1.Machine) *clusterv1.Machine {
		m.Status.Conditions[0].LastTransitionTime = ago(time.Minute)
		return m
	}
	detaching := now(deletedIn("a", "a-2", clusterv1.MachineDeletingWaitingForVolumeDetachReason, ""))
	removing := now(deletedIn("a", "a-3", clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason, ""))
	exhausted := deletedIn("b", "z-0", clusterv1.MachineDeletingDrainingNodeReason, "Draining:\n* Pod a/b: PodDisruptionBudget a/x allows no disruption now")
	kept := deletedIn("a", "a-1", clusterv1.MachineDeletingDrainingNodeReason, "Draining:\n* Pod a/b: PodDisruptionBudget a/x allows no disruption")
	refused := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "i"}}
	refused.Status.Conditions = []metav1.Condition{is(clusterv1.ReadyCondition, "False", infrav1.UnauthorizedReason, "")}
	for name, test := range map[string]struct {
		objects []client.Object
		want    string
		others  int
	}{
		"is well":                                     {[]client.Object{poolNamed("a"), poolNamed("b")}, "", 0},
		"does not count another Cluster's":            {[]client.Object{poolNamed("a"), other}, "", 0},
		"is about a Machine of the first":             {[]client.Object{poolNamed("a"), poolNamed("b"), failingIn("a", "a-0", "CloudError")}, "Machine a-0 InfrastructureReady", 0},
		"is about a Machine of the second":            {[]client.Object{poolNamed("a"), poolNamed("b"), failingIn("b", "b-0", "CloudError")}, "Machine b-0 InfrastructureReady", 0},
		"counts the Machines of the same":             {[]client.Object{poolNamed("a"), failingIn("a", "a-0", "CloudError"), failingIn("a", "a-1", "CloudError")}, "Machine a-0 InfrastructureReady", 1},
		"counts the Machines of the others":           {[]client.Object{poolNamed("a"), poolNamed("b"), failingIn("a", "a-0", "CloudError"), failingIn("b", "b-0", "CloudError"), failingIn("b", "b-1", "CloudError")}, "Machine a-0 InfrastructureReady", 2},
		"counts a pool that waits itself as one":      {[]client.Object{poolNamed("a"), poolNamed("b", frozen), failingIn("a", "a-0", "CloudError")}, "Machine a-0 InfrastructureReady", 1},
		"is about the pool that waits itself":         {[]client.Object{poolNamed("a", frozen), poolNamed("b", rolling)}, "MachineDeployment a Frozen", 1},
		"prefers a freeze to its Machines":            {[]client.Object{poolNamed("a", frozen), failingIn("a", "a-0", "CloudError")}, "MachineDeployment a Frozen", 0},
		"prefers a Machine to the rollout":            {[]client.Object{poolNamed("a", rolling), failingIn("a", "a-0", "CloudError")}, "Machine a-0 InfrastructureReady", 0},
		"prefers the pool that needs action":          {[]client.Object{poolNamed("a", rolling), poolNamed("b"), failingIn("b", "b-0", "CloudError")}, "Machine b-0 InfrastructureReady", 1},
		"prefers the pool whose Machine needs action": {[]client.Object{poolNamed("a"), poolNamed("b"), failingIn("a", "a-0", "InstancePending"), failingIn("b", "b-0", "CloudError")}, "Machine b-0 InfrastructureReady", 1},
		"prefers the pool that is frozen":             {[]client.Object{poolNamed("a"), poolNamed("b", frozen), booting}, "MachineDeployment b Frozen", 1},
		"prefers a host that does not boot to a freeze": {
			[]client.Object{poolNamed("a"), poolNamed("b", frozen), failingIn("a", "a-0", "InstancePending")}, "Machine a-0 InfrastructureReady", 0,
		},
		"prefers a cause that is deeper than a pool to a freeze": {
			[]client.Object{poolNamed("a", frozen), poolNamed("b"), removed, refused, failingIn("b", "b-1", infrav1.WaitingForBootstrapReason)}, "SimMachine i Ready", 1,
		},
		"leaves out the Machines of what is frozen": {
			[]client.Object{poolNamed("a", frozen), poolNamed("b"), failingIn("a", "a-0", "InstancePending"), failingIn("b", "b-0", infrav1.WaitingForBootstrapReason)}, "MachineDeployment a Frozen", 1,
		},
		"is a rollout where all Machines are well": {[]client.Object{poolNamed("a", rolling), failingIn("b", "of-no-pool", infrav1.WaitingForBootstrapReason)}, "MachineDeployment a RollingOut", 0},
		"prefers a Machine of no pool that needs action": {
			[]client.Object{poolNamed("a", rolling), failingIn("b", "of-no-pool", "CloudError")}, "Machine of-no-pool InfrastructureReady", 0,
		},
		"is a MachineSet of its own":                                   {[]client.Object{poolNamed("a"), setNamed("s", frozen)}, "MachineSet s Frozen", 0},
		"is a Machine of such a MachineSet":                            {[]client.Object{poolNamed("a"), setNamed("s"), inSet(failingIn("", "s-0", "CloudError"), "s")}, "Machine s-0 InfrastructureReady", 0},
		"is no MachineSet of another Cluster":                          {[]client.Object{poolNamed("a"), setOfAnother}, "", 0},
		"is no MachineSet of a pool":                                   {[]client.Object{poolNamed("a"), setOfPool}, "", 0},
		"prefers a Machine of no pool to one that is stopped":          {[]client.Object{poolNamed("a", frozen), failingIn("b", "of-no-pool", "CloudError")}, "Machine of-no-pool InfrastructureReady", 0},
		"prefers a Machine of no pool to one that is replaced by hand": {[]client.Object{byHand, failingIn("b", "of-no-pool", "CloudError")}, "Machine of-no-pool InfrastructureReady", 0},
		"prefers a failing pool that is replaced by hand to a frozen one": {
			[]client.Object{poolNamed("0", frozen), byHand, failingIn("a", "a-0", "CloudError")}, "Machine a-0 InfrastructureReady", 1,
		},
		"prefers a deeper cause of a pool without a rollout to one that is replaced by hand": {
			[]client.Object{byHand, onDelete("b"), removed, refused}, "SimMachine i Ready", 0,
		},
		"prefers a deeper cause of a pool that is replaced by hand too": {
			[]client.Object{byHand, onDelete("b", rolling), removed, refused}, "SimMachine i Ready", 0,
		},
		"prefers a deeper cause of a pool that is replaced by hand to a freeze": {
			[]client.Object{poolNamed("a", frozen), onDelete("b", rolling), removed, refused}, "SimMachine i Ready", 0,
		},
		"prefers a deeper cause of a pool whose rollout is paused": {[]client.Object{poolNamed("a", frozen), resumable, removed, refused}, "SimMachine i Ready", 0},
		"prefers a pool without progress to one that is replaced by hand": {
			[]client.Object{byHand, onDelete("b", overdue), failingIn("b", "b-0", "InstancePending")}, "MachineDeployment b Progressing", 1,
		},
		"prefers an annotation of a pool without a rollout to a rollout": {[]client.Object{poolNamed("a", rolling), onDelete("b", annotation)}, "MachineDeployment b AnnotationsValid", 1},
		"prefers a rollback that failed to a Machine that Drover continues": {
			[]client.Object{poolNamed("a", rolling, is(droverpolicyv1.RolledBackCondition, "False", "RevisionNotFound", "")), booting}, "MachineDeployment a RolledBack", 1,
		},
		"prefers an annotation of a pool that is replaced by hand": {[]client.Object{poolNamed("a", frozen), onDelete("b", rolling, annotation)}, "MachineDeployment b AnnotationsValid", 1},
		"prefers an annotation to a Machine that Drover continues": {
			[]client.Object{poolNamed("a", annotation), booting}, "MachineDeployment a AnnotationsValid", 1,
		},
		"prefers what is blocked to a drain that ends by itself": {[]client.Object{poolNamed("a"), poolNamed("b", blocked), ending}, "MachineDeployment b ScalingUp", 1},
		"prefers what is blocked to a rollout without progress that waits for a drain": {
			[]client.Object{poolNamed("a", rolling, overdue), poolNamed("b", blocked), ending}, "MachineDeployment b ScalingUp", 1,
		},
		"prefers what is blocked to a rollout without progress that waits for volumes": {
			[]client.Object{poolNamed("a", rolling, overdue), poolNamed("b", blocked), detaching}, "MachineDeployment b ScalingUp", 1,
		},
		"prefers what is blocked to a rollout without progress that waits for an instance to be deleted": {
			[]client.Object{poolNamed("a", rolling, overdue), poolNamed("b", blocked), removing}, "MachineDeployment b ScalingUp", 1,
		},
		"prefers what is blocked to a rollout without progress that waits for several deletions": {
			[]client.Object{poolNamed("a", rolling, overdue), poolNamed("b", blocked), ending, detaching, removing}, "MachineDeployment b ScalingUp", 3,
		},
		"is a rollout without progress that waits for a host besides a deletion": {
			[]client.Object{poolNamed("a", rolling, overdue), poolNamed("b", frozen), detaching, booting}, "MachineDeployment a Progressing", 2,
		},
		"prefers a freeze to a rollout without progress that waits for a drain": {
			[]client.Object{poolNamed("a", rolling, overdue), poolNamed("b", frozen), ending}, "MachineDeployment b Frozen", 1,
		},
		"is a rollout without progress that waits for a drain that is blocked": {[]client.Object{poolNamed("a", rolling, overdue), kept}, "MachineDeployment a Progressing", 0},
		"is a pool that does not grow beside a drain":                          {[]client.Object{poolNamed("a", overdue), ending}, "MachineDeployment a Progressing", 0},
		"prefers a rollout without progress that is blocked to a freeze": {
			[]client.Object{poolNamed("a", blockedRollout, overdue), poolNamed("b", frozen), ending}, "MachineDeployment a RollingOut", 1,
		},
		"prefers a freeze to a drain that ends by itself":                   {[]client.Object{poolNamed("a"), poolNamed("b", frozen), ending}, "MachineDeployment b Frozen", 1},
		"prefers a drain whose Pod does not end to one that ends by itself": {[]client.Object{poolNamed("a"), poolNamed("b"), ending, stuck}, "Machine b-0 Deleting", 1},
		"prefers a drain that takes too long to several causes that continue": {
			[]client.Object{poolNamed("a"), poolNamed("b"), booting, deletedIn("a", "a-2", clusterv1.MachineDeletingReason, ""), deletedIn("a", "a-3", clusterv1.MachineDeletingWaitingForBootstrapDeletionReason, ""), exhausted},
			"Machine z-0 Deleting", 3,
		},
		"prefers a drain that is blocked to one that ends by itself": {[]client.Object{poolNamed("a"), ending, kept}, "Machine a-1 Deleting", 1},
		"prefers the pool that was not stopped": {
			[]client.Object{poolNamed("a", frozen), poolNamed("b", paused), poolNamed("c"), failingIn("c", "c-0", "CloudError")}, "Machine c-0 InfrastructureReady", 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := finder(t, nil, append(test.objects, cluster())...).Answer(t.Context(), object.Cluster, key("c"))
			if err != nil {
				t.Fatal(err)
			}
			got, others := "", 0
			if found := answer.Finding; found != nil {
				got, others = fmt.Sprint(found.Object, " ", found.Condition.Type), found.Others
			}
			if got != test.want || others != test.others || answer.Well != (test.want == "") {
				t.Errorf("got %q and %d others, want %q and %d", got, others, test.want, test.others)
			}
		})
	}
}

// TestWorstIsWhatMostWaitFor has Machines with different problems; of the same problem, the Machine with the most facts is asked.
func TestWorstIsWhatMostWaitFor(t *testing.T) {
	t.Parallel()
	unhealthy := func(name string, more ...metav1.Condition) *clusterv1.Machine {
		return ofDeployment(machine(name, append(more, is(clusterv1.MachineNodeHealthyCondition, "False", clusterv1.MachineNodeNotHealthyReason, ""))...))
	}
	checked := is(clusterv1.MachineHealthCheckSucceededCondition, "False", clusterv1.MachineHealthCheckUnhealthyNodeReason, "not ready for 5m")
	since := func(m *clusterv1.Machine, d time.Duration) *clusterv1.Machine {
		m.Status.Conditions[0].LastTransitionTime = ago(d)
		return m
	}
	for name, test := range map[string]struct {
		machines []*clusterv1.Machine
		want     string
		others   int
	}{
		"is none":                            {[]*clusterv1.Machine{ofDeployment(machine("well", is("Ready", "True", "Ready", "")))}, "", 0},
		"is the first of equal ones":         {[]*clusterv1.Machine{failingIn("md", "a", "X"), failingIn("md", "b", "Y")}, "a", 1},
		"is the greater group":               {[]*clusterv1.Machine{failingIn("md", "a", "X"), failingIn("md", "b", "Y"), failingIn("md", "c", "Y")}, "b", 2},
		"is a group that needs action":       {[]*clusterv1.Machine{failingIn("md", "a", "InstancePending"), failingIn("md", "b", "InstancePending"), failingIn("md", "c", "Y")}, "c", 2},
		"is the one that has waited longest": {[]*clusterv1.Machine{since(failingIn("md", "a", "X"), time.Minute), since(failingIn("md", "b", "X"), time.Hour)}, "b", 1},
		"is told apart by a health check":    {[]*clusterv1.Machine{unhealthy("a"), unhealthy("b", checked), unhealthy("c", checked)}, "b", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &worst{}
			for _, m := range test.machines {
				w.add(m)
			}
			found, err := finder(t, nil).worstMachine(t.Context(), w)
			if err != nil {
				t.Fatal(err)
			}
			got, others := "", 0
			if found != nil {
				got, others = found.Object.Name, found.Others
			}
			if got != test.want || others != test.others {
				t.Errorf("got %q and %d others", got, others)
			}
		})
	}
}

// TestBlockedChanges are told by their reason, and not by their message.
func TestBlockedChanges(t *testing.T) {
	t.Parallel()
	const up, down, gone, rolling = clusterv1.ScalingUpCondition, clusterv1.ScalingDownCondition, clusterv1.DeletingCondition, clusterv1.MachineDeploymentRollingOutCondition
	overdue := is(droverpolicyv1.ProgressingCondition, "False", droverpolicyv1.ProgressDeadlineExceededReason, "no progress")
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		want       string
		actor      reason.Actor
	}{
		"a scale up":                      {[]metav1.Condition{is(up, "True", clusterv1.ScalingUpReason, "Scaling up from 1 to 3 replicas")}, "", ""},
		"one that waits for pending ones": {[]metav1.Condition{is(up, "True", clusterv1.ScalingUpReason, "Scaling up is blocked because 3 pending Machines are the limit")}, "", ""},
		"one that is blocked":             {[]metav1.Condition{is(up, "True", droverpolicyv1.BlockedReason, "Scaling up from 1 to 3 replicas")}, up, reason.Operator},
		"one that a quota blocks":         {[]metav1.Condition{is(up, "True", droverpolicyv1.BlockedReason, "MachineSet a: exceeded quota: machines")}, up, reason.Installer},
		"a message of the past":           {[]metav1.Condition{is(up, "False", clusterv1.NotScalingUpReason, "Scaling up would be blocked")}, "", ""},
		"a scale down":                    {[]metav1.Condition{is(down, "True", clusterv1.ScalingDownReason, "Scaling down from 3 to 1 replicas")}, "", ""},
		"a scale down that is blocked":    {[]metav1.Condition{is(down, "True", droverpolicyv1.BlockedReason, "Scaling down from 3 to 1 replicas")}, down, reason.Operator},
		"a deletion":                      {[]metav1.Condition{is(gone, "True", clusterv1.DeletingReason, "Deleting 1 MachineSet with 3 Machines")}, "", ""},
		"a deletion that is blocked":      {[]metav1.Condition{is(gone, "True", droverpolicyv1.BlockedReason, "Deleting 3 Machines")}, gone, reason.Operator},
		"a rollout":                       {[]metav1.Condition{is(rolling, "True", clusterv1.RollingOutReason, "Rolling out 3 not up-to-date replicas")}, "", ""},
		"a rollout that is blocked":       {[]metav1.Condition{is(rolling, "True", droverpolicyv1.BlockedReason, "Rolling out 3 not up-to-date replicas")}, rolling, reason.Operator},
		"one without progress for long":   {[]metav1.Condition{is(rolling, "True", droverpolicyv1.BlockedReason, ""), overdue}, "", ""},
		"one that a quota blocks for long": {
			[]metav1.Condition{is(rolling, "True", droverpolicyv1.BlockedReason, "MachineSet a: exceeded quota: machines"), overdue}, rolling, reason.Installer,
		},
		"a scale up besides": {[]metav1.Condition{is(rolling, "True", droverpolicyv1.BlockedReason, ""), is(up, "True", droverpolicyv1.BlockedReason, "")}, up, reason.Operator},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := ownerOfDeployment(poolNamed("md", test.conditions...)).blocked()
			switch {
			case found == nil && test.want != "", found != nil && (found.Condition.Type != test.want || found.Actor != test.actor):
				t.Errorf("got %+v", found)
			}
		})
	}
}

// TestBlockedPoolIsAnsweredWithoutItsMachines has a cause that is known before a Machine is read.
func TestBlockedPoolIsAnsweredWithoutItsMachines(t *testing.T) {
	t.Parallel()
	md := poolNamed("md", is(clusterv1.ScalingUpCondition, "True", droverpolicyv1.BlockedReason, "Scaling up is blocked because:\n* the template does not exist"))
	f := finder(t, nil)
	f.Reader = objecttest.Reader(t, interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
		t.Errorf("%T was read", list)
		return nil
	}}, md, cluster())
	answer, err := f.Answer(t.Context(), object.MachineDeployment, key("md"))
	if err != nil || answer.Finding == nil || answer.Finding.Condition.Type != clusterv1.ScalingUpCondition || answer.Finding.Help != "remove the cause that the message names" {
		t.Errorf("got %+v, error %v", answer.Finding, err)
	}
}

// TestNodeIsThatOfOneMachine has Nodes of no Machine, one, and two Clusters.
func TestNodeIsThatOfOneMachine(t *testing.T) {
	t.Parallel()
	joined := func(name, cluster, node string) *clusterv1.Machine {
		m := machine(name, is("Ready", "True", "Ready", ""))
		m.Spec.ClusterName, m.Status.NodeRef.Name = cluster, node
		return m
	}
	f := finder(t, nil, joined("a", "c", "ip-10-0-1-7"), joined("b", "c", "ip-10-0-1-9"), joined("x", "east", "same"), joined("y", "west", "same"), machine("new"))
	answer, err := f.Answer(t.Context(), object.Node, key("ip-10-0-1-7"))
	if err != nil || !answer.Well || answer.Object != (Reference{"Machine", "n", "a", "c"}) || strings.Join(answer.Notes, "|") != "Its Node is ip-10-0-1-7" {
		t.Errorf("got %+v, error %v", answer, err)
	}
	for name, want := range map[string]string{
		"ip-10-0-1-8": `there is no Machine with the Node "ip-10-0-1-8" in namespace "n"; did you mean "ip-10-0-1-7"?`,
		"database":    `there is no Machine with the Node "database" in namespace "n"`,
		"same":        `2 Machines have a Node "same": x of Cluster east, y of Cluster west; ask why of one of them`,
	} {
		if answer, err := f.Answer(t.Context(), object.Node, key(name)); err == nil || err.Error() != want || answer.Finding != nil {
			t.Errorf("%s: got %+v, error %v", name, answer, err)
		}
	}
}

// TestOldTemplateIsANote of a Machine that is well, and of no other.
func TestOldTemplateIsANote(t *testing.T) {
	t.Parallel()
	old := is(clusterv1.MachineUpToDateCondition, "False", clusterv1.MachineNotUpToDateReason, "* Version v1.36.2, v1.36.3 required")
	answer, err := finder(t, nil, machine("m", old)).Answer(t.Context(), object.Machine, key("m"))
	if err != nil || !answer.Well || !strings.Contains(answer.Text(noon), "It has an older template, and the rollout replaces it: Version v1.36.2, v1.36.3 required.") {
		t.Errorf("got %+v, error %v", answer, err)
	}
	answer, err = finder(t, nil, machine("m", old, is(clusterv1.MachineReadyCondition, "False", "NotReady", ""))).Answer(t.Context(), object.Machine, key("m"))
	if err != nil || answer.Well || len(answer.Notes) != 0 {
		t.Errorf("one that is not well: %+v, error %v", answer, err)
	}
}

// TestSourceOfAMirroredCondition is named, unless its object is paused: that is the cause then.
func TestSourceOfAMirroredCondition(t *testing.T) {
	t.Parallel()
	config := &bootstrapv1.BootstrapConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "b"}}
	infra := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "i"}}
	paused := is(clusterv1.PausedCondition, "True", clusterv1.PausedReason, "SimMachine has the cluster.x-k8s.io/paused annotation")
	for name, test := range map[string]struct {
		condition string
		paused    bool
		want      string
		fact      string
	}{
		"of the bootstrap":                {clusterv1.MachineBootstrapConfigReadyCondition, false, "Machine m", "The object is BootstrapConfig b"},
		"of the infrastructure":           {clusterv1.MachineInfrastructureReadyCondition, false, "Machine m", "The object is SimMachine i"},
		"of an infrastructure that rests": {clusterv1.MachineInfrastructureReadyCondition, true, "SimMachine i", ""},
		"of nothing that a provider has":  {clusterv1.MachineReadyCondition, true, "Machine m", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := machine("m", is(test.condition, "False", "X", ""))
			m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: "BootstrapConfig", Name: "b"}
			m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "SimMachine", Name: "i"}
			i := infra.DeepCopy()
			if test.paused {
				i.Status.Conditions = []metav1.Condition{paused}
			}
			found, err := finder(t, nil, m, config, i, cluster()).machine(t.Context(), m)
			if err != nil || found.Object.String() != test.want || strings.Join(found.Facts, "|") != test.fact {
				t.Errorf("got %+v, error %v", found, err)
			}
			if test.want == "SimMachine i" && found.Command != "kubectl annotate simmachine.infrastructure.drover.io i --namespace n cluster.x-k8s.io/paused-" {
				t.Errorf("the command is %q", found.Command)
			}
		})
	}
}

// TestAnswersNeedWhatTheyAreAbout has an API server that refuses one list or object: there is no answer, and none that is partly so.
func TestAnswersNeedWhatTheyAreAbout(t *testing.T) {
	t.Parallel()
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", errors.New("no rule"))
	unavailable := apierrors.NewServiceUnavailable("etcd")
	for name, test := range map[string]struct {
		kind  object.Kind
		list  string
		err   error
		found bool
	}{
		"a Cluster without MachineDeployments": {object.Cluster, "MachineDeploymentList", refusal, false},
		"a Cluster without Machines":           {object.Cluster, "MachineList", refusal, false},
		"a pool without Machines":              {object.MachineDeployment, "MachineList", refusal, false},
		"a Node without Machines":              {object.Node, "MachineList", refusal, false},
		"a pool whose Cluster is not readable": {object.MachineDeployment, "Cluster", refusal, true},
		"a pool whose Cluster fails":           {object.MachineDeployment, "Cluster", unavailable, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuses := func(c client.Client, o interface {
				GetResourceVersion() string
			}) bool {
				var gvk schema.GroupVersionKind
				var err error
				switch typed := o.(type) {
				case client.Object:
					gvk, err = c.GroupVersionKindFor(typed)
				case client.ObjectList:
					gvk, err = c.GroupVersionKindFor(typed)
				}
				return err == nil && gvk.Kind == test.list
			}
			m := failingIn("md", "a", "CloudError")
			f := finder(t, nil)
			f.Reader = objecttest.Reader(t, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
					if refuses(c, o) {
						return test.err
					}
					return c.Get(ctx, key, o, options...)
				},
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					if refuses(c, list) {
						return test.err
					}
					return c.List(ctx, list, options...)
				},
			}, m, poolNamed("md"), cluster())
			name := map[string]string{"Cluster": "c", "MachineDeployment": "md", "Node": "x"}[test.kind.Kind]
			answer, err := f.Answer(t.Context(), test.kind, key(name))
			if (err == nil) != test.found || (answer.Finding != nil) != test.found {
				t.Errorf("got %+v, error %v", answer.Finding, err)
			}
		})
	}
}

// TestEachKindOfOwnerIsAsked has a missing object of each kind that has a question of its own.
func TestEachKindOfOwnerIsAsked(t *testing.T) {
	t.Parallel()
	for _, kind := range []object.Kind{object.Cluster, object.MachineDeployment, object.MachineSet, object.Machine, object.MachineHealthCheck, object.MachinePolicy, object.BootstrapConfig} {
		answer, err := finder(t, nil).Answer(t.Context(), kind, key("none"))
		if !object.IsNotFound(err) || answer.Finding != nil || !strings.HasPrefix(err.Error(), fmt.Sprintf(`there is no %s "none" in namespace "n"`, kind.Kind)) {
			t.Errorf("%s: got %+v, error %v", kind.Kind, answer, err)
		}
	}
}

// TestWordsOfAnAnswer has who acts, and since when, of answers that differ in one thing at a time.
func TestWordsOfAnAnswer(t *testing.T) {
	t.Parallel()
	subject := Reference{"Machine", "n", "m", "c"}
	at := func(d time.Duration) metav1.Condition {
		return metav1.Condition{Type: "Ready", Status: "False", Reason: "X", Message: "why", LastTransitionTime: ago(d)}
	}
	for want, answer := range map[string]Answer{
		"Machine m in namespace n is well: it waits for nothing.\n":                                                                                                                  {Object: subject, Well: true},
		"Cluster c is well: it waits for nothing. A note.\n":                                                                                                                         {Object: Reference{Kind: "Cluster", Name: "c"}, Notes: []string{"A note."}},
		"Machine m in namespace n has been in progress for 5m: it boots. Its condition Ready is False (X): why. Drover continues by itself.\n":                                       {Object: subject, Finding: &Finding{Object: subject, Condition: at(5 * time.Minute), Meaning: "it boots", Actor: reason.Drover}},
		"Machine m in namespace n has been in progress for 5m: it boots. Its condition Ready is False (X): why. Drover continues by itself; wait.\n":                                 {Object: subject, Finding: &Finding{Object: subject, Condition: at(5 * time.Minute), Meaning: "it boots", Actor: reason.Drover, Help: "wait"}},
		"Machine m in namespace n has been in progress for 0s: fine. Its condition Ready is False (X): why. Nobody has to act.\n":                                                    {Object: subject, Finding: &Finding{Object: subject, Condition: at(-time.Hour), Meaning: "fine", Actor: reason.Nobody}},
		"Machine m in namespace n is not well: nothing was done. The owner of the hook must act: remove it.\n\n  kubectl x\n":                                                        {Object: subject, Finding: &Finding{Object: subject, Meaning: "nothing was done", Actor: reason.HookOwner, Help: "remove it", Command: "kubectl x"}},
		"Machine m in namespace n is in progress: Cluster c: it starts. Drover continues by itself.\n":                                                                               {Object: subject, Finding: &Finding{Object: Reference{"Cluster", "n", "c", "c"}, Meaning: "it starts", Actor: reason.Drover}},
		"Machine m in namespace n has not been well for 2d: x. The condition Ready of Cluster c is False (X): why. One fact. 2 more objects wait. The operator must act: mend it.\n": {Object: subject, Finding: &Finding{Object: Reference{"Cluster", "n", "c", "c"}, Condition: at(48 * time.Hour), Meaning: "x", Facts: []string{"One fact."}, Others: 2, Actor: reason.Operator, Help: "mend it"}},
	} {
		if got := answer.Text(noon); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

// TestCommandThatWasAskedIsNotOffered has the command of the question, and the same of another object.
func TestCommandThatWasAskedIsNotOffered(t *testing.T) {
	t.Parallel()
	subject := Reference{"Cluster", "n", "c", "c"}
	for command, offered := range map[string]bool{"kubectl drover why cluster/c --namespace n": false, "kubectl drover why cluster/d --namespace n": true, "": false} {
		text := Answer{Object: subject, Finding: &Finding{Object: subject, Meaning: "x", Actor: reason.Operator, Help: "y", Command: command}}.Text(noon)
		if strings.Contains(text, "\n  kubectl") != offered {
			t.Errorf("%q: %q", command, text)
		}
	}
}

// TestCommandsAreForAShell has names that a tenant chooses.
func TestCommandsAreForAShell(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		object Reference
		text   string
		want   string
	}{
		"plain names":             {Reference{"Machine", "n", "m-0.x_y", "c"}, "why {name} {cluster} --namespace {namespace}", "why m-0.x_y c --namespace n"},
		"a Cluster of a tenant":   {Reference{"Machine", "n", "m", "c; rm -rf /"}, "why cluster/{cluster}", "why cluster/'c; rm -rf /'"},
		"a quote":                 {Reference{"Machine", "n", "m", "it's"}, "why cluster/{cluster}", `why cluster/'it'\''s'`},
		"a substitution":          {Reference{"Machine", "n", "m", "$(id)"}, "why cluster/{cluster}", "why cluster/'$(id)'"},
		"a Cluster that is none":  {Reference{"Machine", "n", "m", ""}, "why cluster/{cluster}", ""},
		"the Cluster itself":      {Reference{"Cluster", "n", "c", ""}, "why cluster/{cluster}", "why cluster/c"},
		"no namespace":            {Reference{"Node", "", "x", ""}, "why node/{name} --namespace {namespace}", "why node/x"},
		"a text without a name":   {Reference{"Machine", "n", "m", ""}, "kubectl drover check", "kubectl drover check"},
		"a name like a place":     {Reference{"Machine", "n", "{namespace}", "c"}, "why {name} --namespace {namespace}", "why '{namespace}' --namespace n"},
		"more than one character": {Reference{"Machine", "n", "ü", "c"}, "why {name}", "why 'ü'"},
	} {
		if got := command(test.text, test.object); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// TestWhatNothingWaitsForHidesNoMachine: Machines are created and replaced whatever an annotation of their owner has, or after a
// rollback that failed, and those of a paused owner go on.
func TestWhatNothingWaitsForHidesNoMachine(t *testing.T) {
	t.Parallel()
	annotation := is(droverpolicyv1.AnnotationsValidCondition, "False", "AnnotationsInvalid", "")
	rollback := is(droverpolicyv1.RolledBackCondition, "False", droverpolicyv1.RevisionNotKeptReason, "")
	for _, condition := range []metav1.Condition{annotation, rollback} {
		f := finder(t, nil, poolNamed("a", condition), poolNamed("z"), failingIn("z", "z-0", "CloudError"), cluster())
		if answer, err := f.Answer(t.Context(), object.Cluster, key("c")); err != nil || answer.Finding == nil || answer.Finding.Object.String() != "Machine z-0" {
			t.Errorf("the Cluster of a pool with %s: got %+v, error %v", condition.Type, answer.Finding, err)
		}
		f = finder(t, nil, poolNamed("a", condition), failingIn("a", "a-0", "CloudError"), cluster())
		if answer, err := f.Answer(t.Context(), object.MachineDeployment, key("a")); err != nil || answer.Finding == nil || answer.Finding.Object.String() != "Machine a-0" {
			t.Errorf("a pool with %s and a Machine: got %+v, error %v", condition.Type, answer.Finding, err)
		}
		f = finder(t, nil, poolNamed("a", condition), cluster())
		if answer, err := f.Answer(t.Context(), object.MachineDeployment, key("a")); err != nil || answer.Finding == nil || answer.Finding.Condition.Type != condition.Type {
			t.Errorf("a pool with %s alone: got %+v, error %v", condition.Type, answer.Finding, err)
		}
	}
	rolling := poolNamed("a", is(clusterv1.MachineDeploymentRollingOutCondition, "True", clusterv1.MachineDeploymentRollingOutReason, ""))
	for name, test := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"a pool that rolls out hides no failed rollback": {[]client.Object{rolling, poolNamed("b", rollback)}, "MachineDeployment b"},
		"nor an annotation a Machine without a pool":     {[]client.Object{poolNamed("a", annotation), failingIn("", "m", "CloudError")}, "Machine m"},
	} {
		f := finder(t, nil, append(test.objects, cluster())...)
		if answer, err := f.Answer(t.Context(), object.Cluster, key("c")); err != nil || answer.Finding == nil || answer.Finding.Object.String() != test.want {
			t.Errorf("%s: got %+v, error %v", name, answer.Finding, err)
		}
	}
	paused := is(clusterv1.PausedCondition, "True", clusterv1.PausedReason, "MachineDeployment has the cluster.x-k8s.io/paused annotation")
	f := finder(t, nil, poolNamed("a", paused), failingIn("a", "a-0", "CloudError"), cluster())
	answer, err := f.Answer(t.Context(), object.MachineDeployment, key("a"))
	if err != nil || answer.Finding == nil || answer.Finding.Condition.Type != paused.Type || len(answer.Finding.Facts) != 1 || !strings.HasPrefix(answer.Finding.Facts[0], "Besides, Machine a-0: ") {
		t.Errorf("a paused pool with a Machine: got %+v, error %v", answer.Finding, err)
	}
}

// TestNewestSpecThatNoManagerHasSeen is not well, once a manager should have.
func TestNewestSpecThatNoManagerHasSeen(t *testing.T) {
	t.Parallel()
	changed := func(o client.Object) client.Object {
		o.SetGeneration(2)
		return o
	}
	isDeleted := func(o client.Object, before time.Duration) client.Object {
		o.SetDeletionTimestamp(new(ago(before)))
		o.SetFinalizers([]string{clusterv1.MachineDeploymentFinalizer})
		return o
	}
	seen := poolNamed("a")
	seen.Status.ObservedGeneration = 2
	undeleted := machine("a", is(clusterv1.MachineReadyCondition, "True", "Ready", ""))
	for name, test := range map[string]struct {
		object  client.Object
		kind    object.Kind
		meaning string
		actor   reason.Actor
	}{
		"a MachineDeployment":                   {changed(poolNamed("a")), object.MachineDeployment, "no manager has acted on its newest spec yet", reason.Drover},
		"one that was deleted just now":         {isDeleted(changed(poolNamed("a")), time.Second), object.MachineDeployment, "no manager has acted on its deletion yet", reason.Drover},
		"one that was being rolled out":         {changed(poolNamed("a", is(clusterv1.MachineDeploymentRollingOutCondition, "True", clusterv1.MachineDeploymentRollingOutReason, ""))), object.MachineDeployment, "no manager has acted on its newest spec yet", reason.Drover},
		"one whose status has it":               {changed(seen), object.MachineDeployment, "", ""},
		"a MachineSet":                          {changed(setNamed("a")), object.MachineSet, "no manager has acted on its newest spec yet", reason.Drover},
		"a MachineDeployment, deleted":          {isDeleted(changed(poolNamed("a")), time.Hour), object.MachineDeployment, "no manager has acted on its deletion yet", reason.Installer},
		"a Machine, deleted, without condition": {isDeleted(undeleted, time.Hour), object.Machine, "no manager has acted on its deletion yet", reason.Installer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := finder(t, nil, test.object, cluster()).Answer(t.Context(), test.kind, key("a"))
			if found := answer.Finding; err != nil || answer.Well != (test.meaning == "") || found != nil && (found.Meaning != test.meaning || found.Actor != test.actor) {
				t.Errorf("got %+v, error %v", found, err)
			}
		})
	}
	c := cluster()
	answer, err := finder(t, nil, changed(c)).Answer(t.Context(), object.Cluster, key("c"))
	if err != nil || answer.Finding == nil || answer.Finding.Meaning != "no manager has acted on its newest spec yet" {
		t.Errorf("a Cluster: got %+v, error %v", answer.Finding, err)
	}
}

// TestControlPlaneMachineIsNotDeletedByHand: its provider takes the member out of etcd before.
func TestControlPlaneMachineIsNotDeletedByHand(t *testing.T) {
	t.Parallel()
	m := machine("m", is(clusterv1.MachineInfrastructureReadyCondition, "False", infrav1.InstanceMissingReason, ""))
	worker, err := finder(t, nil, m, cluster()).machine(t.Context(), m)
	if err != nil || !worker.deletes() {
		t.Fatalf("a worker: got %+v, error %v", worker, err)
	}
	m.Labels[clusterv1.MachineControlPlaneLabel] = ""
	found, err := finder(t, nil, m, cluster()).machine(t.Context(), m)
	if err != nil || found.Command != "" || !strings.Contains(found.Help, "the provider of the control plane") {
		t.Errorf("got %+v, error %v", found, err)
	}
	m.Status.Conditions = []metav1.Condition{is(clusterv1.MachineInfrastructureReadyCondition, "False", infrav1.InvalidConfigurationReason, "")}
	if found, err := finder(t, nil, m, cluster()).machine(t.Context(), m); err != nil || !found.deletes() {
		t.Errorf("without an instance: got %+v, error %v", found, err)
	}
	for condition, help := range map[metav1.Condition]string{
		is(clusterv1.MachineInfrastructureReadyCondition, "False", infrav1.InstanceStoppedReason, ""):                                                  "start the instance, or have",
		is(clusterv1.MachineInfrastructureReadyCondition, "False", clusterv1.ObjectDoesNotExistReason, ""):                                             "create it, or have",
		is(clusterv1.MachineInfrastructureReadyCondition, "False", infrav1.HostFailedReason, ""):                                                       "",
		is(clusterv1.MachineBootstrapConfigReadyCondition, "False", bootstrapv1.InvalidSpecReason, ""):                                                 "make a BootstrapConfigTemplate",
		is(clusterv1.MachineReadyCondition, "False", clusterv1.MachineNotReadyReason, `Cluster "c" does not exist: create it, or delete this Machine`): "create the Cluster, or have",
	} {
		m := m.DeepCopy()
		m.Spec.ProviderID, m.Status.Conditions = "sim://m", []metav1.Condition{condition}
		found, err := finder(t, nil, m, cluster()).machine(t.Context(), m)
		if err != nil || strings.Contains(found.Help, "delete ") || !strings.HasPrefix(found.Help, help) || found.Command != "" {
			t.Errorf("%s: got %+v, error %v", condition.Reason, found, err)
		}
	}
	m.Spec.ProviderID = "sim://m" // and a status that a restore has lost
	if found, err := finder(t, nil, m, cluster()).machine(t.Context(), m); err != nil || found.Command != "" {
		t.Errorf("with an instance: got %+v, error %v", found, err)
	}
}
