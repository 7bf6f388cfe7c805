// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/inplace"
)

func TestSetCapacityLabels(t *testing.T) {
	t.Parallel()
	const scaled = clusterv1.AutoscalerMaxSizeAnnotation
	labels := map[string]string{
		"node-role.kubernetes.io/worker":           "",
		"pool.node-restriction.kubernetes.io/name": "a",
		"x.node.cluster.x-k8s.io/y":                "z",
		"app":                                      "stays with the Machine",
	}
	const shown = "node-role.kubernetes.io/worker=,pool.node-restriction.kubernetes.io/name=a,x.node.cluster.x-k8s.io/y=z"
	for name, test := range map[string]struct{ annotations, want map[string]string }{
		"it shows the labels that reach Nodes": {
			map[string]string{scaled: "3"}, map[string]string{scaled: "3", capacityLabels: shown, inplace.ManagedCapacityLabels: shown},
		},
		"it follows the template": {
			map[string]string{scaled: "3", capacityLabels: "old=1", inplace.ManagedCapacityLabels: "old=1"},
			map[string]string{scaled: "3", capacityLabels: shown, inplace.ManagedCapacityLabels: shown},
		},
		"it leaves what a user wrote": {
			map[string]string{scaled: "3", capacityLabels: "mine=1"}, map[string]string{scaled: "3", capacityLabels: "mine=1"},
		},
		"it keeps what a user wrote in place of Drover's value": {
			map[string]string{scaled: "3", capacityLabels: "mine=1", inplace.ManagedCapacityLabels: shown}, map[string]string{scaled: "3", capacityLabels: "mine=1"},
		},
		"it shows nothing where nothing is scaled": {map[string]string{}, map[string]string{}},
		"it takes its own away again": {
			map[string]string{capacityLabels: shown, inplace.ManagedCapacityLabels: shown}, map[string]string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := &clusterv1.MachineDeployment{}
			md.Annotations = test.annotations
			md.Spec.Template.Labels = labels
			setCapacityLabels(md)
			if diff := cmp.Diff(test.want, md.Annotations); diff != "" {
				t.Error(diff)
			}
		})
	}
}
