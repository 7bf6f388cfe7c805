// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/health"
)

// TestReplacementsThatFailedDoNotBlockEachOther has two MachineDeployments, each with a replacement that failed, in a Cluster
// that became too small for a budget of two: neither frees its place before it is replaced.
func TestReplacementsThatFailedDoNotBlockEachOther(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	var failed []*clusterv1.Machine
	var sets []*clusterv1.MachineSet
	for _, name := range []string{"a", "b"} {
		_, set := s.deployment(t, name, 6)
		m := &clusterv1.Machine{}
		if err := s.store.Get(t.Context(), client.ObjectKey{Namespace: s.cluster.Namespace, Name: name + "-5"}, m); err != nil {
			t.Fatal(err)
		}
		health.SetReplacement(m, health.Replacement{Machine: "gone", Attempt: 1})
		if err := s.store.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		failed, sets = append(failed, s.makeUnhealthy(t, m.Name)), append(sets, set)
	}
	if allowed := s.replace(t, sets[0], s.makeUnhealthy(t, "a-0")); len(allowed) > 0 {
		t.Errorf("replaces %v beside the failed replacements", allowed)
	}
	if diff := cmp.Diff([]string{"a-5"}, s.replace(t, sets[0], failed[0])); diff != "" {
		t.Errorf("replaces of the first (-want +got):\n%s", diff)
	}
	if allowed := s.replace(t, sets[1], failed[1]); len(allowed) > 0 {
		t.Errorf("replaces %v while the first is under way", allowed)
	}
}

// TestFailedReplacementThatCannotBeReplacedBlocksNoOther has a budget of one, and a replacement that failed and that its
// MachineSet has refused to replace, as one of a superseded MachineSet.
func TestFailedReplacementThatCannotBeReplacedBlocksNoOther(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	_, set := s.deployment(t, "a", 6)
	m := s.makeUnhealthy(t, "a-5")
	before := m.DeepCopy()
	health.SetReplacement(m, health.Replacement{Machine: "gone", Attempt: 1})
	if err := s.store.Patch(t.Context(), m, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	other := s.makeUnhealthy(t, "a-0")
	if allowed := s.replace(t, set, other); len(allowed) > 0 {
		t.Errorf("replaces %v beside the failed replacement", allowed)
	}
	before = m.DeepCopy()
	conditions.Set(m, metav1.Condition{
		Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineSetMachineCannotBeRemediatedReason,
	})
	if err := s.store.Status().Patch(t.Context(), m, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a-0"}, s.replace(t, set, other)); diff != "" {
		t.Errorf("replaces (-want +got):\n%s", diff)
	}
}
