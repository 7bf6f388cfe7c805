// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"strings"
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

// TestKindOfKubernetesIsRefused has kinds of Kubernetes itself, about which no manager reports anything.
func TestKindOfKubernetesIsRefused(t *testing.T) {
	t.Parallel()
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "Secret"}, {Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	} {
		mapper.Add(kind, meta.RESTScopeNamespace)
		if _, err := KindOf(kind.Kind, mapper); err == nil || !strings.HasPrefix(err.Error(), kind.Kind+" is no kind of Drover or of a provider; try one of cluster, ") {
			t.Errorf("%s: error %v", kind.Kind, err)
		}
	}
	provider := schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Kind: "AWSMachine"}
	mapper.Add(provider, meta.RESTScopeNamespace)
	if kind, err := KindOf("awsmachine", mapper); err != nil || kind.GroupVersionKind != provider {
		t.Errorf("got %v, error %v", kind, err)
	}
}
