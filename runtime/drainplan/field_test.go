// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drainplan

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestFieldOfADeletionIsSetWhereItHasAnEffect has a Machine of a MachineSet of a MachineDeployment, and one change of them.
func TestFieldOfADeletionIsSetWhereItHasAnEffect(t *testing.T) {
	t.Parallel()
	const (
		onMachine    = "spec.deletion.f of the Machine"
		onSet        = "spec.template.spec.deletion.f of MachineSet s"
		onDeployment = "spec.template.spec.deletion.f of MachineDeployment md"
	)
	paused, deleted := map[string]string{clusterv1.PausedAnnotation: ""}, new(metav1.Now())
	controlPlane := metav1.OwnerReference{APIVersion: "controlplane.cluster.x-k8s.io/v1beta2", Kind: "KubeadmControlPlane", Name: "cp", Controller: new(true)}
	for name, test := range map[string]struct {
		change func(*clusterv1.Machine, *Owners)
		want   string
	}{
		"is that of the MachineDeployment":                    {func(*clusterv1.Machine, *Owners) {}, onDeployment},
		"is that of the MachineSet without one":               {func(_ *clusterv1.Machine, o *Owners) { o.MachineDeployment = nil }, onSet},
		"is that of the MachineSet of a deleted one":          {func(_ *clusterv1.Machine, o *Owners) { o.MachineDeployment.DeletionTimestamp = deleted }, onSet},
		"is that of the MachineSet of a paused one":           {func(_ *clusterv1.Machine, o *Owners) { o.MachineDeployment.Annotations = paused }, onSet},
		"is that of the Machine of a deleted set":             {func(_ *clusterv1.Machine, o *Owners) { o.MachineSet.DeletionTimestamp = deleted }, onMachine},
		"is that of the Machine of a paused set":              {func(_ *clusterv1.Machine, o *Owners) { o.MachineSet.Annotations = paused }, onMachine},
		"is that of the Machine of a set that does not exist": {func(_ *clusterv1.Machine, o *Owners) { o.MachineSet = nil }, onMachine},
		"is that of the Machine of a paused Cluster":          {func(_ *clusterv1.Machine, o *Owners) { o.Cluster.Spec.Paused = new(true) }, onMachine},
		"is that of the Machine without a Cluster":            {func(_ *clusterv1.Machine, o *Owners) { o.Cluster = nil }, onMachine},
		"is that of the Machine of a Cluster without a UID":   {func(_ *clusterv1.Machine, o *Owners) { o.Cluster.UID = "" }, onMachine},
		"is that of the Machine that nothing controls": {
			func(m *clusterv1.Machine, _ *Owners) { m.OwnerReferences[0].Controller = nil }, onMachine,
		},
		"is in the template of another controller": {
			func(m *clusterv1.Machine, o *Owners) {
				*o, m.OwnerReferences[0] = Owners{Cluster: o.Cluster}, controlPlane
			},
			"deletion.f in the Machine template of KubeadmControlPlane cp",
		},
		"is that of the Machine of another controller without a Cluster": {
			func(m *clusterv1.Machine, o *Owners) { *o, m.OwnerReferences[0] = Owners{}, controlPlane }, onMachine,
		},
		"is in the template of a MachineSet of another group": {
			func(m *clusterv1.Machine, _ *Owners) { m.OwnerReferences[0].APIVersion = "example.com/v1" },
			"deletion.f in the Machine template of MachineSet s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "MachineSet", Name: "s", Controller: new(true)},
			}}}
			owners := Owners{
				Cluster:           &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{UID: "c"}},
				MachineDeployment: &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "md"}},
				MachineSet:        &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "s"}},
			}
			test.change(m, &owners)
			if got := owners.DeletionField(m, "f"); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
