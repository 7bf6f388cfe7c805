// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/index/indextest"
	"drover.io/machine-controller/internal/testenv"
)

func ownerUID(name string) types.UID { return types.UID(name + "-uid") }

func awake(requests []reconcile.Request) []string {
	names := []string{}
	for _, each := range requests {
		names = append(names, each.String())
	}
	slices.Sort(names)
	return names
}

func TestRequestsOfEvents(t *testing.T) {
	t.Parallel()
	api := indextest.NewClient(t, shared.management.Client(t))
	// The manager of other tests only reports that these Machines have no Cluster.
	a, b := shared.management.Namespace(t), shared.management.Namespace(t)
	machine := func(name, cluster, id, deployment string, addresses ...string) client.Object {
		m := testenv.Machine("", name)
		m.Spec.ClusterName, m.Spec.ProviderID = cluster, id
		if deployment != "" {
			m.Labels = map[string]string{clusterv1.MachineDeploymentNameLabel: deployment}
		}
		for _, each := range addresses {
			m.Status.Addresses = append(m.Status.Addresses, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: each})
		}
		return m
	}
	joined := machine("joined", "d", "id-2", "")
	joined.(*clusterv1.Machine).Status.NodeRef.Name = "joined"
	owner := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: a, Name: "set", UID: ownerUID("set")}}
	owned := machine("owned", "e", "", "")
	owned.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, clusterv1.GroupVersion.WithKind("MachineSet"))})
	indextest.Create(t, api, a, machine("one", "c", "id-1", "md", "10.0.0.1"), machine("two", "c", "", "md"), machine("other", "d", "id-1", ""), joined, owned)
	indextest.Create(t, api, b, machine("one", "c", "id-1", "md"))
	r := &Reconciler{Client: api}
	cluster := client.ObjectKey{Namespace: a, Name: "c"}
	node := func(name, id, annotation, ip string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: id}}
		if annotation != "" {
			n.Annotations = map[string]string{clusterv1.MachineAnnotation: annotation}
		}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}
		return n
	}
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: a, Name: name} }
	for name, test := range map[string]struct {
		got  []reconcile.Request
		want []string
	}{
		"a Cluster triggers its Machines":                                  {r.machinesOfCluster(t.Context(), &clusterv1.Cluster{ObjectMeta: named("c")}), []string{a + "/one", a + "/two"}},
		"a connection triggers those of its Cluster":                       {r.machinesOfConnection(cluster), []string{a + "/one", a + "/two"}},
		"a MachineDeployment triggers its Machines":                        {r.machinesOfDeployment(t.Context(), &clusterv1.MachineDeployment{ObjectMeta: named("md")}), []string{a + "/one", a + "/two"}},
		"a MachineSet triggers its Machines":                               {r.machinesOfSet(t.Context(), owner), []string{a + "/owned"}},
		"a Node triggers the Machine of its ID in its Cluster":             {r.machinesOfNode(cluster, node("n", "id-1", "", "")), []string{a + "/one"}},
		"a Node prefers its ID to its annotation":                          {r.machinesOfNode(cluster, node("n", "id-1", "two", "")), []string{a + "/one"}},
		"a Node without an ID triggers the one that its annotation names":  {r.machinesOfNode(cluster, node("n", "", "two", "")), []string{a + "/two"}},
		"a Node of an unknown ID, too":                                     {r.machinesOfNode(cluster, node("n", "id-9", "two", "")), []string{a + "/two"}},
		"a Node without either triggers the one it may belong to":          {r.machinesOfNode(cluster, node("one", "", "", "10.0.0.1")), []string{a + "/one"}},
		"a Node of another address triggers none":                          {r.machinesOfNode(cluster, node("one", "", "", "10.0.0.2")), []string{}},
		"a Node of an unknown ID triggers the one that waits for its name": {r.machinesOfNode(cluster, node("one", "id-9", "", "")), []string{a + "/one"}},
		"but none of another Cluster":                                      {r.machinesOfNode(cluster, node("other", "id-9", "", "")), []string{}},
		"nor one that has a Node":                                          {r.machinesOfNode(client.ObjectKey{Namespace: a, Name: "d"}, node("joined", "id-9", "", "")), []string{}},
		"nor one of another name":                                          {r.machinesOfNode(cluster, node("n", "id-9", "", "10.0.0.1")), []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, awake(test.got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRevisionChanged(t *testing.T) {
	t.Parallel()
	set := func(revision, other string) *clusterv1.MachineSet {
		return &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{clusterv1.RevisionAnnotation: revision, "a": other}}}
	}
	passes := revisionChanged()
	if !passes.Update(event.UpdateEvent{ObjectOld: set("1", ""), ObjectNew: set("3", "")}) {
		t.Error("a new revision does not pass")
	}
	if passes.Update(event.UpdateEvent{ObjectOld: set("1", ""), ObjectNew: set("1", "b")}) || passes.Create(event.CreateEvent{Object: set("1", "")}) || passes.Delete(event.DeleteEvent{Object: set("1", "")}) {
		t.Error("something else passes")
	}
}

func TestUpToDateInputChanged(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*clusterv1.MachineDeployment)
		want   bool
	}{
		"passes another template": {func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = "v1.37.0" }, true},
		"passes another revision": {func(md *clusterv1.MachineDeployment) {
			md.Annotations = map[string]string{clusterv1.RevisionAnnotation: "7"}
		}, true},
		"passes a rollout by time": {func(md *clusterv1.MachineDeployment) { md.Spec.Rollout.After = metav1.Unix(9, 0) }, true},
		"stops other replicas":     {func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = new(int32(9)) }, false},
		"stops status":             {func(md *clusterv1.MachineDeployment) { md.Status.Phase, md.ResourceVersion = "x", "9" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := &clusterv1.MachineDeployment{}, &clusterv1.MachineDeployment{}
			test.change(after)
			if got := upToDateInputChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != test.want {
				t.Errorf("passes is %t, want %t", got, test.want)
			}
		})
	}
	if upToDateInputChanged().Create(event.CreateEvent{Object: &clusterv1.MachineDeployment{}}) || upToDateInputChanged().Delete(event.DeleteEvent{}) {
		t.Error("a MachineDeployment that that is created or deleted does not pass")
	}
}
