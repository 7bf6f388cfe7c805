// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/machine/nodesync"
	"drover.io/machine-controller/internal/testenv"
)

// TestTaintIsRemovedThatTheCacheDoesNotShowYet adds a taint to a Machine and removes it again before the cache shows the
// Node with it.
func TestTaintIsRemovedThatTheCacheDoesNotShowYet(t *testing.T) {
	t.Parallel()
	if err := startEnvironment(); err != nil {
		t.Fatal(err)
	}
	cached := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "taint-"}}
	if err := shared.nodes.Create(t.Context(), cached); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shared.nodes.Delete(context.Background(), cached) })
	m, sync := testenv.Machine("ns", "m"), nodesync.Sync{}
	apply := func(node *corev1.Node) error {
		err := sync.Apply(t.Context(), shared.nodes, nodesync.State{Machine: m, Node: node})
		if err == nil {
			sync.TrimRecord(m)
		}
		return err
	}
	if err := apply(cached); err != nil {
		t.Fatal(err)
	}
	if err := shared.nodes.Get(t.Context(), client.ObjectKeyFromObject(cached), cached); err != nil {
		t.Fatal(err)
	}
	m.Spec.Taints = []clusterv1.MachineTaint{{Key: "k", Effect: corev1.TaintEffectNoSchedule, Propagation: clusterv1.MachineTaintPropagationAlways}}
	sync.RecordRestricted(m)
	if err := apply(cached); err != nil {
		t.Fatal(err)
	}
	m.Spec.Taints = nil
	if err := apply(cached); !apierrors.IsConflict(err) {
		t.Errorf("error %v, want a conflict with the Node that has the taint", err)
	}
	latest := &corev1.Node{}
	for range 2 {
		if err := shared.nodes.Get(t.Context(), client.ObjectKeyFromObject(cached), latest); err != nil {
			t.Fatal(err)
		}
		if err := apply(latest); err != nil {
			t.Fatal(err)
		}
	}
	if err := shared.nodes.Get(t.Context(), client.ObjectKeyFromObject(cached), latest); err != nil || slices.ContainsFunc(latest.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "k" }) {
		t.Errorf("taints %v, error %v", latest.Spec.Taints, err)
	}
	if recorded := nodesync.Recorded(m); len(recorded) > 0 {
		t.Errorf("the record still has %v", recorded)
	}
}
