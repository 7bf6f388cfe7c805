// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"slices"
	"testing"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"drover.io/api/crds"
)

// TestClusterctlMovesEveryKind: clusterctl looks for objects of the kinds with its label, and moves what a Cluster owns. Of
// what nothing owns it moves the kinds with a second label only: a budget that stayed behind would limit nothing any more.
func TestClusterctlMovesEveryKind(t *testing.T) {
	t.Parallel()
	definitions, err := crds.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	withoutOwner := []string{"MachineDrainRule", "MachinePolicy", "NodeProfile", "RestartRemediationTemplate"}
	for _, crd := range definitions {
		kind := crd.Spec.Names.Kind
		if _, found := crd.Labels[clusterctlv1.ClusterctlLabel]; !found {
			t.Errorf("clusterctl does not find objects of kind %s", kind)
		}
		if _, moved := crd.Labels[clusterctlv1.ClusterctlMoveLabel]; moved != slices.Contains(withoutOwner, kind) {
			t.Errorf("clusterctl moves objects of kind %s without an owner: %t", kind, moved)
		}
	}
}
