// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	"drover.io/runtime/predicates"
)

// passes reports whether an update passes a predicate.
func passes[T client.Object](p predicate.Predicate, before, after T) bool {
	return p.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
}

func TestUpdatesOfAMachineThatMatterPass(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*clusterv1.Machine)
		want   bool
	}{
		"no change":                   {func(*clusterv1.Machine) {}, false},
		"a label":                     {func(m *clusterv1.Machine) { m.Labels = map[string]string{"a": "b"} }, false},
		"an address":                  {func(m *clusterv1.Machine) { m.Status.Addresses = clusterv1.MachineAddresses{{Address: "10.0.0.1"}} }, false},
		"a phase":                     {func(m *clusterv1.Machine) { m.Status.Phase = "Running" }, false},
		"the Node":                    {func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "n" }, true},
		"the instance":                {func(m *clusterv1.Machine) { m.Status.Initialization.InfrastructureProvisioned = new(true) }, true},
		"the instance is not there":   {func(m *clusterv1.Machine) { m.Status.Initialization.InfrastructureProvisioned = new(false) }, false},
		"the deletion":                {func(m *clusterv1.Machine) { m.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, true},
		"the reference to the config": {func(m *clusterv1.Machine) { m.Spec.Bootstrap.ConfigRef.Name = "c" }, true},
		"the Cluster":                 {func(m *clusterv1.Machine) { m.Spec.ClusterName = "c" }, true},
		"the end of its instance": {func(m *clusterv1.Machine) {
			m.Status.Conditions = infrastructureReady(clusterv1.MachineInfrastructureDeletedReason)
		}, true},
		"another state of its instance": {func(m *clusterv1.Machine) { m.Status.Conditions = infrastructureReady("Waiting") }, false},
	} {
		after := &clusterv1.Machine{}
		test.change(after)
		if got := passes(machineChanged(), &clusterv1.Machine{}, after); got != test.want {
			t.Errorf("%s: passes is %t, want %t", name, got, test.want)
		}
	}
}

func infrastructureReady(reason string) []metav1.Condition {
	return []metav1.Condition{{Type: clusterv1.MachineInfrastructureReadyCondition, Status: metav1.ConditionFalse, Reason: reason}}
}

func TestUpdatesOfAClusterThatMatterPass(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*clusterv1.Cluster)
		want   bool
	}{
		"no change":          {func(*clusterv1.Cluster) {}, false},
		"a label":            {func(c *clusterv1.Cluster) { c.Labels = map[string]string{"a": "b"} }, false},
		"the pause":          {func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }, true},
		"no pause":           {func(c *clusterv1.Cluster) { c.Spec.Paused = new(false) }, false},
		"the infrastructure": {func(c *clusterv1.Cluster) { c.Status.Initialization.InfrastructureProvisioned = new(true) }, true},
		"the host":           {func(c *clusterv1.Cluster) { c.Spec.ControlPlaneEndpoint.Host = "a" }, true},
		"the port":           {func(c *clusterv1.Cluster) { c.Spec.ControlPlaneEndpoint.Port = 1 }, true},
	} {
		after := &clusterv1.Cluster{}
		test.change(after)
		if got := passes(clusterChanged(), &clusterv1.Cluster{}, after); got != test.want {
			t.Errorf("%s: passes is %t, want %t", name, got, test.want)
		}
	}
}

func TestUpdatesOfOwnersPass(t *testing.T) {
	t.Parallel()
	before, after := &bootstrapv1.BootstrapConfig{}, &bootstrapv1.BootstrapConfig{}
	if passes(ownersChanged(), before, after) {
		t.Error("an update without a change passes")
	}
	after.OwnerReferences = []metav1.OwnerReference{{Name: "m"}}
	if !passes(ownersChanged(), before, after) || passes(ownersChanged(), after, after.DeepCopy()) {
		t.Error("only a change of the owners must pass")
	}
}

func TestMachineIsMappedToItsConfig(t *testing.T) {
	t.Parallel()
	machine := func(group, kind string) *clusterv1.Machine {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}}
		m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: kind, Name: "config"}
		return m
	}
	group := bootstrapv1.GroupVersion.Group
	for name, test := range map[string]struct {
		object client.Object
		want   []reconcile.Request
	}{
		"one of this project": {machine(group, "BootstrapConfig"), []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "config"}}}},
		"another kind":        {machine(group, "Other"), nil},
		"another group":       {machine("bootstrap.cluster.x-k8s.io", "BootstrapConfig"), nil},
		"no reference":        {&clusterv1.Machine{}, nil},
		"no Machine":          {&clusterv1.Cluster{}, nil},
	} {
		if diff := cmp.Diff(test.want, configOfMachine(t.Context(), test.object)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestOwnerIsTheMachineThatControls(t *testing.T) {
	t.Parallel()
	reference := func(version, kind string, controller bool) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "m", UID: "u", Controller: &controller}}
	}
	for name, test := range map[string]struct {
		owners []metav1.OwnerReference
		want   bool
	}{
		"a Machine that controls":    {reference("cluster.x-k8s.io/v1beta2", "Machine", true), true},
		"one of an earlier version":  {reference("cluster.x-k8s.io/v1beta1", "Machine", true), true},
		"one that does not control":  {reference("cluster.x-k8s.io/v1beta2", "Machine", false), false},
		"a Machine of another group": {reference("machine.openshift.io/v1beta1", "Machine", true), false},
		"another kind":               {reference("cluster.x-k8s.io/v1beta2", "MachinePool", true), false},
		"a core kind":                {reference("v1", "Machine", true), false},
		"none":                       {nil, false},
	} {
		config := &bootstrapv1.BootstrapConfig{ObjectMeta: metav1.ObjectMeta{OwnerReferences: test.owners}}
		if got := machineOwner(config); (got != nil) != test.want || got != nil && got.UID != "u" {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// TestWaitsForMachineAndCluster lists what must exist before there is data, in the order in which it is awaited.
func TestWaitsForMachineAndCluster(t *testing.T) {
	t.Parallel()
	gone := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", DeletionTimestamp: &metav1.Time{Time: time.Now()}}}
	published := &bootstrapv1.BootstrapConfig{}
	published.Status.Initialization.DataSecretCreated = new(true)
	labelled := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{clusterv1.WatchLabel: "ours"}}}
	for name, test := range map[string]struct {
		state  state
		reason string
		after  time.Duration
	}{
		"for a Machine":              {state{config: &bootstrapv1.BootstrapConfig{}, cluster: labelled}, bootstrapv1.WaitingForMachineReason, 0},
		"for none that is deleted":   {state{config: &bootstrapv1.BootstrapConfig{}, machine: gone, cluster: labelled}, bootstrapv1.WaitingForMachineReason, 0},
		"for a Cluster":              {state{config: &bootstrapv1.BootstrapConfig{}, machine: &clusterv1.Machine{}}, bootstrapv1.WaitingForClusterReason, 0},
		"for the label of a Cluster": {state{config: &bootstrapv1.BootstrapConfig{}, machine: &clusterv1.Machine{}, cluster: &clusterv1.Cluster{}}, bootstrapv1.WaitingForClusterReason, poll},
		"for nothing":                {state{config: &bootstrapv1.BootstrapConfig{}, machine: &clusterv1.Machine{}, cluster: labelled}, "", 0},
		"for nothing once published": {state{config: published, machine: gone, cluster: labelled}, "", 0},
	} {
		_, err := (&ownership{watch: predicates.WatchFilter("ours")}).reconcile(t.Context(), &test.state)
		reason, after := "", time.Duration(0)
		if w, is := errors.AsType[*waiting](err); is {
			reason, after = w.reason, w.after
		}
		if reason != test.reason || after != test.after {
			t.Errorf("%s: waits for %q, again after %s", name, reason, after)
		}
	}
}
