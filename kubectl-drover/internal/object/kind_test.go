// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestKindOf has an API server on which another project has a kind of the same name.
func TestKindOf(t *testing.T) {
	t.Parallel()
	other := schema.GroupVersionKind{Group: "machine.example.org", Version: "v1", Kind: "MachineDeployment"}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(other, meta.RESTScopeNamespace)
	mapper.Add(MachineDeployment.GroupVersionKind, meta.RESTScopeNamespace)
	for word, want := range map[string]struct {
		is    Kind
		title string
	}{
		"machinedeployment":                      {MachineDeployment, "MachineDeployment"},
		"MachineDeployments":                     {MachineDeployment, "MachineDeployment"},
		"md":                                     {MachineDeployment, "MachineDeployment"},
		"machinedeployment.cluster.x-k8s.io":     {MachineDeployment, "MachineDeployment"},
		"machinedeployments.cluster.x-k8s.io":    {MachineDeployment, "MachineDeployment"},
		"machinedeployments.machine.example.org": {Kind{GroupVersionKind: other}, "MachineDeployment.machine.example.org"},
		"node":                                   {Node, "Node"},
	} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			got, err := KindOf(word, mapper)
			if err != nil || !got.Is(want.is) || got.Title() != want.title {
				t.Errorf("got %v, called %q, error %v", got.GroupVersionKind, got.Title(), err)
			}
		})
	}
}
