// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestNodeWithoutProviderID(t *testing.T) {
	t.Parallel()
	at := func(name, id string, addresses ...string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: id}}
		for _, each := range addresses {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: each})
		}
		return n
	}
	outside := at("m", "")
	outside.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeExternalIP, Address: "10.0.0.1"}}
	for name, test := range map[string]struct {
		nodes []corev1.Node
		want  string
	}{
		"takes the Node with its name and address":           {[]corev1.Node{at("m", "", "10.0.0.1")}, "m"},
		"takes one that is called as the infrastructure is":  {[]corev1.Node{at("infra", "", "10.0.0.9", "10.0.0.1")}, "infra"},
		"takes one that is called as the host is":            {[]corev1.Node{at("ip-10-0-0-1.internal", "", "10.0.0.1")}, "ip-10-0-0-1.internal"},
		"leaves one with its name and another address":       {[]corev1.Node{at("m", "", "10.0.0.2")}, ""},
		"leaves one with its name and no address yet":        {[]corev1.Node{at("m", "")}, ""},
		"leaves one whose address is of another kind":        {[]corev1.Node{outside}, ""},
		"leaves one with its address and another name":       {[]corev1.Node{at("other", "", "10.0.0.1")}, ""},
		"leaves one that has a providerID":                   {[]corev1.Node{at("m", "cloud://1", "10.0.0.1")}, ""},
		"takes none of two, as they cannot be distinguished": {[]corev1.Node{at("m", "", "10.0.0.1"), at("infra", "", "10.0.0.1")}, ""},
		"takes the one of two that has no providerID so far": {[]corev1.Node{at("m", "", "10.0.0.1"), at("infra", "cloud://2", "10.0.0.1")}, "m"},
		"finds nothing where there is nothing":               {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
			m.Spec.InfrastructureRef.Name = "infra"
			m.Status.Addresses = clusterv1.MachineAddresses{
				{Type: clusterv1.MachineInternalIP, Address: "10.0.0.1"}, {Type: clusterv1.MachineInternalDNS, Address: "ip-10-0-0-1.internal"},
			}
			got := nodeWithoutProviderID(m, func(name string) (*corev1.Node, bool) {
				for i := range test.nodes {
					if test.nodes[i].Name == name {
						return &test.nodes[i], true
					}
				}
				return nil, false
			})
			found := ""
			if got != nil {
				found = got.Name
			}
			if diff := cmp.Diff(test.want, found); diff != "" {
				t.Error(diff)
			}
		})
	}
}
