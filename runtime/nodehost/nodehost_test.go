// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nodehost

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestRuns(t *testing.T) {
	t.Parallel()
	m := &clusterv1.Machine{}
	m.Status.Addresses = []clusterv1.MachineAddress{
		{Type: clusterv1.MachineInternalIP, Address: "10.0.0.1"}, {Type: clusterv1.MachineExternalIP, Address: "192.0.2.1"},
	}
	for name, test := range map[string]struct {
		ready    corev1.ConditionStatus
		kind     corev1.NodeAddressType
		address  string
		has, run bool
	}{
		"a ready Node with its address": {corev1.ConditionTrue, corev1.NodeInternalIP, "10.0.0.1", true, true},
		"one that is not ready":         {corev1.ConditionUnknown, corev1.NodeInternalIP, "10.0.0.1", true, false},
		"another address":               {corev1.ConditionTrue, corev1.NodeInternalIP, "10.0.0.2", false, false},
		"an address of another type":    {corev1.ConditionTrue, corev1.NodeExternalIP, "10.0.0.1", false, false},
		"an external address":           {corev1.ConditionTrue, corev1.NodeInternalIP, "192.0.2.1", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := &corev1.Node{Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: test.ready}},
				Addresses:  []corev1.NodeAddress{{Type: test.kind, Address: test.address}},
			}}
			if has, runs := HasInternalIP(m, node), Runs(m, node); has != test.has || runs != test.run {
				t.Errorf("got %t and %t, want %t and %t", has, runs, test.has, test.run)
			}
		})
	}
}
