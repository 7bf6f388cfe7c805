// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/kubectl-drover/internal/object/objecttest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

// named is the metadata of an object, which the owner of a kind controls.
func named(name, ownerKind, ownerUID string) metav1.ObjectMeta {
	o := metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name), Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}}
	if ownerKind != "" {
		o.OwnerReferences = []metav1.OwnerReference{{Kind: ownerKind, Name: ownerUID, UID: types.UID(ownerUID), Controller: new(true)}}
	}
	return o
}

var well = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready"}}

func set(name, ownerUID string, replicas int32) *clusterv1.MachineSet {
	s := &clusterv1.MachineSet{ObjectMeta: named(name, "", "")}
	if ownerUID != "" {
		s.ObjectMeta = named(name, "MachineDeployment", ownerUID)
	}
	s.Spec.ClusterName, s.Spec.Replicas, s.Status.Conditions = "c", new(replicas), well
	return s
}

func machine(name, setUID string) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: named(name, "MachineSet", setUID)}
	m.Spec.ClusterName, m.Status.Phase, m.Status.Conditions = "c", "Running", well
	return m
}

// TestEveryMachineIsInTheTree has MachineSets of a MachineDeployment, of none, and of one that is gone or was restored with
// another UID, Machines of a set that does not exist, and objects of another Cluster.
func TestEveryMachineIsInTheTree(t *testing.T) {
	t.Parallel()
	c := &clusterv1.Cluster{ObjectMeta: named("c", "", "")}
	c.Status.Phase, c.Status.Conditions = "Provisioned", well
	md := &clusterv1.MachineDeployment{ObjectMeta: named("md", "", "")}
	md.Spec.ClusterName, md.Spec.Replicas, md.Status.Conditions = "c", new(int32(1)), well
	other := set("of-other-cluster", "", 1)
	other.Spec.ClusterName = "d"
	b := &Builder{Reader: objecttest.Reader(t, interceptor.Funcs{}, c, md, other,
		set("a", "md", 1), set("empty", "md", 0), set("lone", "", 1), set("left", "uid-before-the-restore", 1),
		machine("a-0", "a"), machine("lone-0", "lone"), machine("left-0", "left"), machine("gone-0", "gone"), machine("gone-1", "gone"))}
	const want = `Cluster c  Provisioned
├─ MachineDeployment md  1 replica: 0 ready, 0 available, 0 up to date
│  └─ MachineSet a  0 of 1 replica ready
│     └─ Machine a-0  Running
├─ MachineSet left  0 of 1 replica ready
│  └─ Machine left-0  Running
├─ MachineSet lone  0 of 1 replica ready
│  └─ Machine lone-0  Running
└─ 2 Machines  Running
`
	item, err := b.Cluster(t.Context(), client.ObjectKeyFromObject(c))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, item.Text(noon, false)); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
	b.History = true
	wide, err := b.Deployment(t.Context(), client.ObjectKeyFromObject(md))
	if err != nil || len(wide.Children) != 2 || wide.Children[1].Names[0] != "empty" {
		t.Errorf("with the history: %+v, error %v", wide, err)
	}
}

// TestMachineTree has the objects of a Machine and its Node, with and without problems.
func TestMachineTree(t *testing.T) {
	t.Parallel()
	infra := &infrav1.SimMachine{ObjectMeta: named("i", "", "")}
	infra.Status.Conditions = []metav1.Condition{
		{Type: "Ready", Status: metav1.ConditionFalse, Reason: "CloudError", Message: "503\nforged line", LastTransitionTime: ago(time.Minute)},
		{Type: "OfAnotherProject", Status: metav1.ConditionFalse, Reason: "Whatever"},
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	node.Spec.Unschedulable = true
	node.Status.NodeInfo.KubeletVersion = "v1.36.2"
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", Message: "cni", LastTransitionTime: ago(time.Hour)},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue, Reason: "Full", LastTransitionTime: ago(time.Hour)},
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
		{Type: "OfAnAgent", Status: corev1.ConditionTrue},
	}
	workload := objecttest.Reader(t, interceptor.Funcs{}, node)
	open := func(context.Context, client.ObjectKey) (*object.Reader, error) { return workload, nil }
	for name, test := range map[string]struct {
		node string
		open Opener
		want string
	}{
		"shows what is wrong with the Node": {"node", open, `└─ Node node  v1.36.2, cordoned
   ├─ condition Ready  Ready False KubeletNotReady for 60m: cni
   └─ condition DiskPressure  DiskPressure True Full for 60m
`},
		"shows a Node that is gone":         {"gone", open, "└─ Node gone  not well: there is no Node \"gone\"\n"},
		"shows why the Node was not read":   {"node", func(context.Context, client.ObjectKey) (*object.Reader, error) { return nil, errors.New("refused") }, "└─ Node node  not read: refused\n"},
		"shows no Node where there is none": {"", open, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := machine("m", "s")
			m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "SimMachine", Name: "i"}
			m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.drover.io", Kind: "BootstrapConfig", Name: "b"}
			m.Status.NodeRef.Name = test.node
			b := &Builder{Reader: objecttest.Reader(t, interceptor.Funcs{}, m, infra.DeepCopy())}
			item, err := b.Machine(t.Context(), client.ObjectKeyFromObject(m), test.open)
			if err != nil {
				t.Fatal(err)
			}
			want := `Machine m  Running
├─ BootstrapConfig b  not well: there is no BootstrapConfig "b" in namespace "n"
├─ SimMachine i
│  └─ condition Ready  Ready False CloudError for 60s: 503; forged line
` + test.want
			if test.node == "" {
				want = strings.Replace(want, "├─ SimMachine i\n│  ", "└─ SimMachine i\n   ", 1)
			}
			if diff := cmp.Diff(want, item.Text(noon, false)); diff != "" {
				t.Errorf("tree (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGroups has Machines that differ in one thing at a time.
func TestGroups(t *testing.T) {
	t.Parallel()
	g := &group{}
	add := func(name, phase, reason, message string, since time.Duration) {
		m := machine(name, "s")
		m.Status.Phase = phase
		if reason != "" {
			m.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.MachineInfrastructureReadyCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: ago(since),
			}}
		}
		g.add(m)
	}
	add("web-e", "Provisioning", "CloudError", "server web-e fails", time.Minute)
	add("web-d", "Provisioning", "CloudError", "server web-d fails", time.Hour)
	add("web-c", "Provisioning", "CloudError", "another message", time.Minute)
	add("web-b", "Pending", "CloudError", "server web-b fails", time.Minute)
	add("web-z", "Running", "", "", 0)
	add("web-g", "Provisioning", "CloudError", "server web-g fails", time.Minute)
	add("web-f", "Provisioning", "CloudError", "server web-f fails", time.Minute)
	add("web-a", "Running", "", "", 0)
	item := &Item{Kind: "Cluster", Names: []string{"c"}, Children: g.sorted()}
	const want = `Cluster c
├─ 2 Machines  Running
├─ 4 Machines (web-d, web-e, web-f and 1 more)  Provisioning  InfrastructureReady False CloudError for 60m: server web-e fails
├─ Machine web-b  Pending  InfrastructureReady False CloudError for 60s: server web-b fails
└─ Machine web-c  Provisioning  InfrastructureReady False CloudError for 60s: another message
`
	if diff := cmp.Diff(want, item.Text(noon, false)); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if got := item.Text(noon, true); !strings.Contains(got, "2 Machines (web-a, web-z)  Running") || !strings.Contains(got, "4 Machines (web-d, web-e, web-f, web-g)") {
		t.Errorf("with all names: %s", got)
	}
}
