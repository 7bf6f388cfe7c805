// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"slices"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// TestMachineSetThatBecomesCurrentAgainLosesItsTaint reverts a rollout that is not complete: the MachineDeployment has its next
// revision already, and then the MachineSet gets it.
func TestMachineSetThatBecomesCurrentAgainLosesItsTaint(t *testing.T) {
	t.Parallel()
	l := newTestMachine(t, "m")
	l.provision()
	template := clusterv1.MachineTemplateSpec{ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"pool": "a"}}, Spec: testenv.TemplateSpec()}
	meta := func(name, revision string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: l.machine.Namespace, Name: name, Annotations: map[string]string{clusterv1.RevisionAnnotation: revision}}
	}
	md := &clusterv1.MachineDeployment{ObjectMeta: meta("md", "3")}
	md.Spec.ClusterName, md.Spec.Template, md.Spec.Selector.MatchLabels = "c", template, template.Labels
	l.must(shared.client.Create(t.Context(), md))
	set := &clusterv1.MachineSet{ObjectMeta: meta("md-1", "1")}
	set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(md, clusterv1.GroupVersion.WithKind("MachineDeployment"))}
	set.Spec.ClusterName, set.Spec.Template, set.Spec.Selector.MatchLabels = "c", template, template.Labels
	l.must(shared.client.Create(t.Context(), set))
	owned := l.machine.DeepCopy()
	owned.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, clusterv1.GroupVersion.WithKind("MachineSet"))}
	l.must(shared.client.Patch(t.Context(), owned, client.MergeFrom(l.machine)))
	tainted := func() bool {
		l.must(shared.nodes.Get(t.Context(), client.ObjectKeyFromObject(l.node), l.node))
		return slices.Contains(l.node.Spec.Taints, clusterv1.NodeOutdatedRevisionTaint)
	}
	l.Eventually(tainted).Should(gomega.BeTrue())
	// Once this is in the status, the event of the tainted Node triggers no reconcile any more.
	l.report(l.infra, map[string]any{
		"initialization": map[string]any{"provisioned": true}, "failureDomain": "z",
		"addresses": []any{map[string]any{"type": "InternalIP", "address": "10.0.0.2"}},
	}, "status")
	l.until(func(g gomega.Gomega, m *clusterv1.Machine) {
		g.Expect(m.Status.Addresses).To(gomega.ContainElement(gomega.HaveField("Address", "10.0.0.2")))
	})
	again := []byte(`{"metadata":{"annotations":{"` + clusterv1.RevisionAnnotation + `":"3"}}}`)
	l.must(shared.client.Patch(t.Context(), set, client.RawPatch(types.MergePatchType, again)))
	l.Eventually(tainted).Should(gomega.BeFalse())
}
