// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"drover.io/machine-controller/internal/contract"
)

// TestProviderIDConflict has a Machine ns/m of Cluster c, and another with the same providerID.
func TestProviderIDConflict(t *testing.T) {
	t.Parallel()
	machine := func(namespace, cluster string, uid types.UID) clusterv1.Machine {
		m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: string(uid), UID: uid}}
		m.Spec.ClusterName, m.Spec.ProviderID = cluster, "sim://1"
		return m
	}
	confirming := func(id string) *contract.InfraMachine {
		o := reporting("I", nil)
		o.Object["spec"] = map[string]any{"providerID": id}
		return &contract.InfraMachine{Object: o}
	}
	for name, test := range map[string]struct {
		other clusterv1.Machine
		infra *contract.InfraMachine
		want  bool
	}{
		"is another Machine of the Cluster":            {machine("ns", "c", "other"), nil, true},
		"is not the Machine itself":                    {machine("ns", "c", "m-uid"), nil, false},
		"is not a Machine of another Cluster":          {machine("ns", "d", "other"), nil, false},
		"is not a Machine of another namespace":        {machine("tenant", "c", "other"), nil, false},
		"is not one when the InfraMachine confirms it": {machine("ns", "c", "other"), confirming("sim://1"), false},
		"is one when the InfraMachine has another":     {machine("ns", "c", "other"), confirming("sim://2"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader := interceptor.NewClient(nil, interceptor.Funcs{
				List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
					list.(*clusterv1.MachineList).Items = []clusterv1.Machine{test.other}
					return nil
				},
			})
			s := deletingState(func(s *state) { s.infra = observed[contract.InfraMachine]{object: test.infra} })
			err := node{machines: reader}.checkProviderIDConflict(t.Context(), s)
			if isProviderIDConflict(err) != test.want || (err != nil) != test.want {
				t.Errorf("error %v", err)
			}
		})
	}
}
