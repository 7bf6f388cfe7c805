// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nodematch

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestSharing(t *testing.T) {
	t.Parallel()
	const name = "ip-10-0-0-1.internal"
	for what, test := range map[string]struct {
		other func(*clusterv1.Machine)
		want  bool
	}{
		"with a Machine of that name":                    {func(m *clusterv1.Machine) { m.Name = name }, true},
		"with a Machine whose infrastructure has it":     {func(m *clusterv1.Machine) { m.Spec.InfrastructureRef.Name = name }, true},
		"with a Machine that has reported it":            {func(m *clusterv1.Machine) { reports(m, clusterv1.MachineInternalDNS, name) }, true},
		"with a Machine whose Node has it":               {func(m *clusterv1.Machine) { m.Name, m.Status.NodeRef.Name = name, name }, true},
		"not with a Machine whose Node has another name": {func(m *clusterv1.Machine) { m.Name, m.Status.NodeRef.Name = name, "n" }, false},
		"not with an address":                            {func(m *clusterv1.Machine) { reports(m, clusterv1.MachineInternalIP, name) }, false},
		"not with the Machine itself":                    {func(m *clusterv1.Machine) { m.UID, m.Name = "m", name }, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			other := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "other", UID: "other"}}
			test.other(&other)
			machines := interceptor.NewClient(nil, interceptor.Funcs{
				List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
					list.(*clusterv1.MachineList).Items = []clusterv1.Machine{other}
					return nil
				},
			})
			m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "m"}}
			if got, err := Sharing(t.Context(), machines, m, name); err != nil || len(got) == 1 != test.want {
				t.Errorf("shared with %v, error %v", got, err)
			}
		})
	}
}

func reports(m *clusterv1.Machine, kind clusterv1.MachineAddressType, address string) {
	m.Status.Addresses = clusterv1.MachineAddresses{{Type: kind, Address: address}}
}
