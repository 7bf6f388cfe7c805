// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/expectation"
	"drover.io/machine-controller/internal/inplace"
	"drover.io/machine-controller/internal/testenv"
	"drover.io/runtime/expiring"
)

// watchedSet is a MachineSet of an older template, controlled by the deployment if there is one.
func watchedSet(name, watch string, selector *clusterv1.MachineDeployment, owner bool) *clusterv1.MachineSet {
	set := setWith("6", 3, 2)
	set.Name = name
	set.Spec.ClusterName, set.Spec.Selector, set.Spec.Template = "c", selector.Spec.Selector, setOfRevision("6", "v1.36.1").Spec.Template
	set.Labels = map[string]string{"pool": "a"}
	if watch != "" {
		set.Labels[clusterv1.WatchLabel] = watch
	}
	if owner {
		set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(selector, clusterv1.GroupVersion.WithKind("MachineDeployment"))}
	}
	return set
}

func (r *Reconciler) resourceVersions(t *testing.T, namespace string) map[string]string {
	t.Helper()
	list := &clusterv1.MachineSetList{}
	if err := r.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, set := range list.Items {
		all[set.Name] = set.ResourceVersion
	}
	return all
}

func labelledDeployment() *clusterv1.MachineDeployment {
	md := selecting()
	md.Labels = map[string]string{clusterv1.WatchLabel: "own"}
	md.Finalizers = []string{clusterv1.MachineDeploymentFinalizer}
	return md
}

// TestDeploymentWithForeignSetIsBlocked has a MachineSet that is labelled for another manager.
func TestDeploymentWithForeignSetIsBlocked(t *testing.T) {
	t.Parallel()
	md := labelledDeployment()
	r := reconcilerWith(t, interceptor.Funcs{}, md, watchedSet("a", "own", md, true), watchedSet("b", "other", md, true), testenv.Cluster(""))
	r.watch, r.tracker, r.writes = "own", &expectation.Tracker{Clock: r.Clock}, &expectation.Writes{Clock: r.Clock}
	r.steps = &expiring.Limiter[types.UID]{Clock: r.Clock, Period: stepPeriod}
	before := r.resourceVersions(t, md.Namespace)
	s := &state{deployment: md, cluster: &clusterv1.Cluster{}}
	if err := r.observe(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	result, err := r.rollOut(t.Context(), s)
	if err != nil || result.RequeueAfter == 0 || s.blocked == nil || !strings.Contains(s.blocked.Error(), `MachineSet "b" has the label`) {
		t.Errorf("the error is %v (%v, %v)", s.blocked, result, err)
	}
	if diff := cmp.Diff(before, r.resourceVersions(t, md.Namespace)); diff != "" {
		t.Errorf("MachineSets changed: %s", diff)
	}
}

func TestDeletedDeploymentKeepsSetOfOtherWatchFilter(t *testing.T) {
	t.Parallel()
	md := labelledDeployment()
	mine, other := watchedSet("a", "own", md, true), watchedSet("b", "other", md, true)
	mine.Finalizers = []string{hold}
	r := reconcilerWith(t, interceptor.Funcs{}, md, mine, other, testenv.Cluster(""))
	r.watch, r.tracker = "own", &expectation.Tracker{Clock: r.Clock}
	if err := r.Client.Delete(t.Context(), md); err != nil {
		t.Fatal(err)
	}
	r.get(t, md)
	if _, err := r.Reconcile(t.Context(), md); err != nil {
		t.Fatal(err)
	}
	r.get(t, mine)
	r.get(t, other)
	if mine.DeletionTimestamp.IsZero() || !other.DeletionTimestamp.IsZero() {
		t.Errorf("deleted at %v and %v", mine.DeletionTimestamp, other.DeletionTimestamp)
	}
	if message := conditions.GetMessage(md, clusterv1.MachineDeploymentDeletingCondition); !strings.Contains(message, `MachineSet "b" has the label`) {
		t.Errorf("condition Deleting is %q", message)
	}
}

func TestAdoptionRequiresWatchLabel(t *testing.T) {
	t.Parallel()
	md := labelledDeployment()
	sets := []*clusterv1.MachineSet{watchedSet("a", "own", md, false), watchedSet("b", "other", md, false), watchedSet("c", "", md, false)}
	r := reconcilerWith(t, interceptor.Funcs{}, md, sets[0], sets[1], sets[2], testenv.Cluster(""))
	r.watch = "own"
	s := &state{deployment: md, cluster: &clusterv1.Cluster{}}
	if err := r.observe(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for i, adopted := range []bool{true, false, false} {
		if r.get(t, sets[i]); metav1.IsControlledBy(sets[i], md) != adopted {
			t.Errorf("MachineSet %q has the owners %v", sets[i].Name, sets[i].OwnerReferences)
		}
	}
}

func TestSetsInheritWatchLabel(t *testing.T) {
	t.Parallel()
	md := labelledDeployment()
	md.Spec.Template.Labels[clusterv1.WatchLabel] = "template"
	set := &clusterv1.MachineSet{}
	inplace.PropagateToMachineSet(set, md)
	if set.Labels[clusterv1.WatchLabel] != "own" || set.Spec.Template.Labels[clusterv1.WatchLabel] != "own" {
		t.Errorf("the labels are %v, those of the template %v", set.Labels, set.Spec.Template.Labels)
	}
	old := &clusterv1.MachineSet{}
	inplace.MachineSetDeletion(old, md)
	if old.Labels[clusterv1.WatchLabel] != "own" {
		t.Errorf("the labels of a superseded set are %v", old.Labels)
	}
}
