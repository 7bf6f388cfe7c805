// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package creation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

func TestLacksChildren(t *testing.T) {
	t.Parallel()
	missing := func(m *clusterv1.Machine, kind string) {
		conditions.Set(m, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: clusterv1.ObjectDoesNotExistReason})
	}
	const bootstrapKind, infraKind = clusterv1.MachineBootstrapConfigReadyCondition, clusterv1.MachineInfrastructureReadyCondition
	for name, test := range map[string]struct {
		change           func(*clusterv1.Machine)
		bootstrap, infra bool
	}{
		"lacks nothing that is not reported":     {func(*clusterv1.Machine) {}, false, false},
		"lacks both":                             {func(m *clusterv1.Machine) { missing(m, bootstrapKind); missing(m, infraKind) }, true, true},
		"needs no config once the data is known": {func(m *clusterv1.Machine) { missing(m, bootstrapKind); m.Spec.Bootstrap.DataSecretName = new("s") }, false, false},
		"never gets a second virtual machine": {func(m *clusterv1.Machine) {
			missing(m, infraKind)
			m.Status.Initialization.InfrastructureProvisioned = new(true)
		}, false, false},
		"never gets a second one by its ID either": {func(m *clusterv1.Machine) { missing(m, infraKind); m.Spec.ProviderID = "id" }, false, false},
		"lacks nothing that has another name": {func(m *clusterv1.Machine) {
			missing(m, bootstrapKind)
			missing(m, infraKind)
			m.Spec.Bootstrap.ConfigRef.Name, m.Spec.InfrastructureRef.Name = "other", "other"
		}, false, false},
		"lacks nothing of another kind": {func(m *clusterv1.Machine) {
			missing(m, bootstrapKind)
			missing(m, infraKind)
			m.Spec.Bootstrap.ConfigRef.Kind, m.Spec.InfrastructureRef.Kind = "Other", "Other"
		}, false, false},
		"lacks the infrastructure alone": {func(m *clusterv1.Machine) { missing(m, infraKind) }, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := &clusterv1.MachineSet{}
			set.Spec.Template.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "h", Kind: "CTemplate", Name: "t"}
			set.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "g", Kind: "MTemplate", Name: "t"}
			m := NewMachine(set, "m")
			test.change(m)
			if lacksBootstrap(set, m) != test.bootstrap || lacksInfra(set, m) != test.infra || LacksChildren(set, m) != (test.bootstrap || test.infra) {
				t.Errorf("lacks bootstrap %t, infrastructure %t", lacksBootstrap(set, m), lacksInfra(set, m))
			}
		})
	}
}

func TestNewMachineHasOwner(t *testing.T) {
	t.Parallel()
	set := templateSet()
	set.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "g", Kind: "ThingMachineTemplate", Name: "t"}
	set.Spec.Template.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "h", Kind: "ThingConfigTemplate", Name: "u"}
	got := NewMachine(set, "m")
	want := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "m", Labels: map[string]string{
				"l": "1", "pool": "a", clusterv1.ClusterNameLabel: "c", clusterv1.MachineSetNameLabel: "set", clusterv1.MachineDeploymentNameLabel: "md",
			}, Annotations: map[string]string{"drover.io/labels-from-template": "l"},
			Finalizers: []string{clusterv1.MachineFinalizer},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "set", UID: "set-uid", Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: clusterv1.MachineSpec{
			ClusterName:       "c",
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "g", Kind: "ThingMachine", Name: "m"},
			Bootstrap:         clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: "h", Kind: "ThingConfig", Name: "m"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// templateSet is a MachineSet of the MachineDeployment "md".
func templateSet() *clusterv1.MachineSet {
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "set", UID: "set-uid",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineDeployment", Name: "md", UID: "md-uid", Controller: new(true)}},
	}}
	set.Spec.ClusterName = "c"
	set.Spec.Selector.MatchLabels = map[string]string{"pool": "a"}
	set.Spec.Template.Labels = map[string]string{"l": "1"}
	return set
}
