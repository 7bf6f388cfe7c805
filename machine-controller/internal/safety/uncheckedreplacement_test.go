// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/health"
)

// TestReplacementOutOfHealthChecksHasNoPlaceInTheBudget has a replacement that an annotation has taken out of health checks
// before it settled: it never will, as package health knows.
func TestReplacementOutOfHealthChecksHasNoPlaceInTheBudget(t *testing.T) {
	t.Parallel()
	for _, annotation := range []string{clusterv1.MachineSkipRemediationAnnotation, clusterv1.PausedAnnotation} {
		t.Run(annotation, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			_, set := s.deployment(t, "a", 6)
			replacement := &clusterv1.Machine{}
			if err := s.store.Get(t.Context(), client.ObjectKey{Namespace: s.cluster.Namespace, Name: "a-5"}, replacement); err != nil {
				t.Fatal(err)
			}
			health.SetReplacement(replacement, health.Replacement{Machine: "gone", Attempt: 1})
			replacement.Annotations[annotation] = ""
			if err := s.store.Update(t.Context(), replacement); err != nil {
				t.Fatal(err)
			}
			if taken := health.InFlight([]*clusterv1.Machine{replacement}, nil); taken != 0 {
				t.Fatalf("package health counts %d", taken)
			}
			if diff := cmp.Diff([]string{"a-0"}, s.replace(t, set, s.makeUnhealthy(t, "a-0"))); diff != "" {
				t.Errorf("replaces (-want +got):\n%s", diff)
			}
		})
	}
}
