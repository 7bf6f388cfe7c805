// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/machine/deletion"
	"drover.io/machine-controller/internal/ownership"
)

// deletingState is a machine that is being deleted, whose Node and InfraMachine exist.
func deletingState(changes ...func(*state)) *state {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "m-uid", DeletionTimestamp: new(metav1.NewTime(epoch))}}
	m.Spec.ClusterName, m.Spec.ProviderID, m.Status.NodeRef.Name = "c", "sim://1", "n"
	infra := reporting("I", nil)
	s := &state{
		machine: m,
		cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "c-uid"}},
		infra:   observed[contract.InfraMachine]{object: &contract.InfraMachine{Object: infra}},
		node:    observed[corev1.Node]{object: nodeWith(nil)},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

// TestForDeletion checks the facts on which nothing is deleted or drained.
func TestForDeletion(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, test := range map[string]struct {
		change func(*state)
		holds  func(deletion.State) bool
	}{
		"has the InfraMachine": {func(*state) {}, func(d deletion.State) bool {
			return d.Infrastructure.Unstructured != nil && !d.Infrastructure.Foreign && !d.Infrastructure.Deleting()
		}},
		"has the owners": {func(s *state) { s.set, s.deployment = &clusterv1.MachineSet{}, &clusterv1.MachineDeployment{} },
			func(d deletion.State) bool { return d.MachineSet != nil && d.Deployment != nil }},
		"has the Node": {func(*state) {}, func(d deletion.State) bool { return d.Node != nil && !d.ProviderIDConflict }},
		"takes an object of another owner for foreign": {func(s *state) {
			s.infra, s.bootstrap.err = observed[contract.InfraMachine]{err: &ownership.ForeignError{}}, &ownership.ForeignError{}
		}, func(d deletion.State) bool { return d.Infrastructure.Foreign && d.Bootstrap.Foreign }},
		"takes an object of a kind that cannot be referred to for foreign": {func(s *state) {
			s.infra = observed[contract.InfraMachine]{err: &contract.InvalidReferenceError{}}
		}, func(d deletion.State) bool { return d.Infrastructure.Foreign }},
		"does not take an unreadable object for foreign or gone": {func(s *state) {
			s.infra, s.bootstrap.err = observed[contract.InfraMachine]{err: boom}, boom
		}, func(d deletion.State) bool {
			return !d.Infrastructure.Foreign && !d.Bootstrap.Foreign && !d.Infrastructure.Deleting() && errors.Is(d.Bootstrap.Err, boom)
		}},
		"marks the Node of another Machine": {func(s *state) { s.node = observed[corev1.Node]{err: fmt.Errorf("%w: x", errProviderIDConflict)} },
			func(d deletion.State) bool { return d.Node == nil && d.ProviderIDConflict }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d := deletingState(test.change).forDeletion(false); !test.holds(d) {
				t.Errorf("state is %+v", d)
			}
		})
	}
}
