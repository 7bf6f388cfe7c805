// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package drainplan

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestFieldOfADeletionIsSetInTheTemplate(t *testing.T) {
	t.Parallel()
	set := metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "MachineSet", Name: "s", Controller: new(true)}
	other := set
	other.APIVersion = "example.com/v1"
	user := set
	user.Controller = nil
	pool := map[string]string{clusterv1.MachineDeploymentNameLabel: "md"}
	for name, test := range map[string]struct {
		owner  *metav1.OwnerReference
		labels map[string]string
		want   string
	}{
		"of a Machine without an owner":          {nil, pool, "spec.deletion.f of the Machine"},
		"of a MachineSet":                        {&set, nil, "spec.template.spec.deletion.f of MachineSet s"},
		"of a MachineSet of a MachineDeployment": {&set, pool, "spec.template.spec.deletion.f of MachineDeployment md"},
		"not of a kind of another group":         {&other, pool, "spec.deletion.f of the Machine"},
		"not of an owner that does not control":  {&user, pool, "spec.deletion.f of the Machine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Labels: test.labels}}
			if test.owner != nil {
				m.OwnerReferences = []metav1.OwnerReference{*test.owner}
			}
			if got := DeletionField(m, "f"); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
