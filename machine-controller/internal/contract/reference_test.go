// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestReferences(t *testing.T) {
	t.Parallel()
	const core = "cluster.x-k8s.io"
	for gk, want := range map[schema.GroupKind][3]bool{ // an instance, a template, a template of remediation requests
		{Group: "infra.test", Kind: "ThingMachine"}:              {true, false, false},
		{Group: "infra.test", Kind: "ThingMachineTemplate"}:      {false, true, false},
		{Group: "infra.test", Kind: "RebootRemediation"}:         {true, false, false},
		{Group: "infra.test", Kind: "RebootRemediationTemplate"}: {false, true, true},
		{Group: "infra.test", Kind: "RemediationTemplate"}:       {false, true, false},
		{Group: "infra.test", Kind: "Template"}:                  {false, false, false},
		{Group: "infra.test", Kind: ""}:                          {true, false, false},
		{Group: core, Kind: "Cluster"}:                           {false, false, false},
		{Group: core, Kind: "MachineTemplate"}:                   {false, false, false},
		{Group: core, Kind: "XRemediationTemplate"}:              {false, false, false},
		{Group: "", Kind: "XRemediationTemplate"}:                {false, true, false},
		{Group: "apps", Kind: "XRemediationTemplate"}:            {false, true, false},
	} {
		got := [3]bool{CheckInstance(gk) == nil, CheckTemplate(gk) == nil, CheckRemediationTemplate(gk) == nil}
		if got != want {
			t.Errorf("%s: %v, want %v", gk, got, want)
		}
	}
}

// Kinds of Cluster API itself carry the contract's label, and belong to no provider.
func TestResolveRefusesClusterAPIsOwnKinds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		gk   schema.GroupKind
		crd  string
		want bool
	}{
		"Clusters":            {schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "Cluster"}, "clusters.cluster.x-k8s.io", true},
		"of its other groups": {schema.GroupKind{Group: "ipam.cluster.x-k8s.io", Kind: "IPAddress"}, "ipaddresses.ipam.cluster.x-k8s.io", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			labels := map[string]string{V1Beta2.label(): "v1beta2", clusterv1.ProviderNameLabel: "cluster-api"}
			r := &Resolver{Reader: crds{labels: map[string]map[string]string{test.crd: labels}}}
			if _, _, err := r.Resolve(t.Context(), test.gk); IsInvalidReference(err) != test.want || !IsMisconfigured(err) {
				t.Errorf("error is %v", err)
			}
			labels[clusterv1.ProviderNameLabel] = "infrastructure-test"
			if _, _, err := r.Resolve(t.Context(), test.gk); err != nil {
				t.Errorf("a provider's kind is refused: %v", err)
			}
		})
	}
}
