// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	"drover.io/api/reason"
	"drover.io/kubectl-drover/internal/object"
)

const foreignFinalizer = "backup.example.com/keep"

func TestKeptByFinalizersOfOthers(t *testing.T) {
	t.Parallel()
	deleted := new(ago(time.Hour))
	for name, test := range map[string]struct {
		deleted    *metav1.Time
		finalizers []string
		want       bool
	}{
		"is one of another project":           {deleted, []string{foreignFinalizer}, true},
		"is one without a domain":             {deleted, []string{"x.io"}, true},
		"is one of a domain that ends so":     {deleted, []string{"notdrover.io/x"}, true},
		"is not one before a deletion":        {nil, []string{foreignFinalizer}, false},
		"is not one beside Cluster API's":     {deleted, []string{foreignFinalizer, clusterv1.MachineFinalizer}, false},
		"is not one beside that of a set":     {deleted, []string{foreignFinalizer, clusterv1.MachineSetFinalizer}, false},
		"is not one beside that of a machine": {deleted, []string{foreignFinalizer, infrav1.MachineFinalizer}, false},
		"is not that of the API server":       {deleted, []string{metav1.FinalizerDeleteDependents}, false},
		"is not there":                        {deleted, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: test.deleted, Finalizers: test.finalizers}}
			if got := kept(ReferenceOf(m), clusterv1.GroupVersion.Group, m); (got != nil) != test.want {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestFinalizerOfAProviderOfAnotherProject may be the one under which its controller deletes the instance.
func TestFinalizerOfAProviderOfAnotherProject(t *testing.T) {
	t.Parallel()
	for group, want := range map[string]bool{
		"infrastructure.cluster.x-k8s.io": false, "infrastructure.example.org": false, "notdrover.io": false,
		"infrastructure.drover.io": true, clusterv1.GroupVersion.Group: true,
	} {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion(group + "/v1")
		o.SetKind("RemoteMachine")
		o.SetDeletionTimestamp(new(ago(time.Hour)))
		o.SetFinalizers([]string{foreignFinalizer})
		if got := keptOfGroup(o); (got != nil) != want {
			t.Errorf("%s: got %+v", group, got)
		}
	}
}

// TestFinalizersOfOthersAreNamed has objects whose controllers have done their part of the deletion: none of their conditions
// has what is left.
func TestFinalizersOfOthersAreNamed(t *testing.T) {
	t.Parallel()
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "n", Name: name, DeletionTimestamp: new(ago(time.Hour)), Finalizers: []string{foreignFinalizer}}
	}
	c := cluster(is(clusterv1.ClusterDeletingCondition, "False", clusterv1.ClusterNotDeletingReason, ""))
	c.ObjectMeta = meta("c")
	md := deployment(is(clusterv1.MachineDeploymentDeletingCondition, "True", clusterv1.MachineDeploymentDeletingReason, "Deleting 1 MachineSet"))
	md.ObjectMeta = meta("md")
	set := &clusterv1.MachineSet{ObjectMeta: meta("set")}
	set.Spec.ClusterName, set.Status.Conditions = "c", []metav1.Condition{is(clusterv1.PausedCondition, "False", clusterv1.NotPausedReason, "")}
	m := machine("m", is(clusterv1.MachineDeletingCondition, "False", clusterv1.MachineNotDeletingReason, ""))
	m.ObjectMeta = meta("m")
	infra := &infrav1.SimMachine{ObjectMeta: meta("i")}
	infra.Status.Conditions = []metav1.Condition{is(clusterv1.ReadyCondition, "True", infrav1.InstanceRunningReason, "")}
	config := &bootstrapv1.BootstrapConfig{ObjectMeta: meta("b")}
	config.Status.Conditions = []metav1.Condition{is(clusterv1.ReadyCondition, "True", bootstrapv1.DataSecretAvailableReason, "")}
	waiting := func(name, reason string) *clusterv1.Machine {
		m := machine(name, is(clusterv1.MachineDeletingCondition, "True", reason, "Waiting"))
		m.DeletionTimestamp, m.Finalizers = new(ago(time.Hour)), []string{clusterv1.MachineFinalizer}
		m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "SimMachine", Name: "i"}
		m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: "BootstrapConfig", Name: "b"}
		return m
	}
	objects := []client.Object{
		c, md, set, m, infra, config,
		waiting("waits-for-i", clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason), waiting("waits-for-b", clusterv1.MachineDeletingWaitingForBootstrapDeletionReason),
	}
	simMachine := object.Kind{GroupVersionKind: infrav1.GroupVersion.WithKind("SimMachine"), Resource: "simmachines"}
	for _, asked := range []struct {
		kind object.Kind
		name string
		want Reference
	}{
		{object.Cluster, "c", Reference{"Cluster", "n", "c", "c"}},
		{object.MachineDeployment, "md", Reference{"MachineDeployment", "n", "md", "c"}},
		{object.MachineSet, "set", Reference{"MachineSet", "n", "set", "c"}},
		{object.Machine, "m", Reference{"Machine", "n", "m", "c"}},
		{simMachine, "i", Reference{"SimMachine", "n", "i", ""}},
		{object.BootstrapConfig, "b", Reference{"BootstrapConfig", "n", "b", ""}},
		{object.Machine, "waits-for-i", Reference{"SimMachine", "n", "i", ""}},
		{object.Machine, "waits-for-b", Reference{"BootstrapConfig", "n", "b", ""}},
	} {
		t.Run(asked.kind.Kind+" "+asked.name, func(t *testing.T) {
			t.Parallel()
			answer, err := finder(t, nil, objects...).Answer(t.Context(), asked.kind, key(asked.name))
			if err != nil || answer.Finding == nil {
				t.Fatalf("got %+v, error %v", answer, err)
			}
			found := answer.Finding
			if diff := cmp.Diff(asked.want, found.Object); diff != "" || found.Actor != reason.FinalizerOwner {
				t.Errorf("%s must act, about (-want +got):\n%s", found.Actor, diff)
			}
		})
	}
	answer, err := finder(t, nil, objects...).Answer(t.Context(), object.Machine, key("m"))
	if err != nil {
		t.Fatal(err)
	}
	want := "Machine m in namespace n has not been well for 60m: its deletion waits for nothing but the finalizer backup.example.com/keep, of another project than Drover and Cluster API. The owner of the finalizer must act: see why its controller does not remove it; if that controller is gone for good, remove it from metadata.finalizers by hand.\n\n  kubectl edit machine.cluster.x-k8s.io m --namespace n\n"
	if diff := cmp.Diff(want, answer.Text(noon)); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

// TestADeletionOfAMomentAgoIsNotANewObject: only of an object that no manager has written to, the first minute is as it should be.
func TestADeletionOfAMomentAgoIsNotANewObject(t *testing.T) {
	t.Parallel()
	m := machine("m", is(clusterv1.MachineDeletingCondition, "False", clusterv1.MachineNotDeletingReason, ""))
	m.DeletionTimestamp, m.Finalizers = new(ago(time.Second)), []string{foreignFinalizer}
	answer, err := finder(t, nil, m).Answer(t.Context(), object.Machine, key("m"))
	if err != nil || answer.Finding == nil || answer.Finding.Actor != reason.FinalizerOwner {
		t.Errorf("got %+v, error %v", answer.Finding, err)
	}
}
