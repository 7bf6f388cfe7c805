// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/infra-providers/driver/fake"
)

// A management cluster restored from a snapshot: the machine waited for capacity when the snapshot was taken; the original
// has created its instance and deleted the Machine since. The original holds the claim of the workload cluster.
func TestCopyCreatesNoInstance(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	r.home.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	meta.SetStatusCondition(&r.home.Status.Conditions, metav1.Condition{
		Type: droverpolicyv1.ManagementClaimedCondition, Status: metav1.ConditionFalse, Reason: "ClaimedElsewhere", Message: "holder original",
	})
	if err := cluster.Client.Status().Update(t.Context(), r.home); err != nil {
		t.Fatal(err)
	}
	machine, _ := r.machine("worker")
	for range 5 {
		if _, err := r.reconcile(machine); err != nil {
			t.Fatal(err)
		}
	}
	r.wantInCloud(0)
	ready := meta.FindStatusCondition(machine.Status.Conditions, clusterv1.ReadyCondition)
	if ready == nil || ready.Reason != infrav1.WaitingForManagementClaimReason {
		t.Errorf("got the condition %v", ready)
	}
}

// The Cluster was moved by clusterctl after the snapshot, so the tags have the UID that it has in the other management
// cluster, which holds the claim. The restored copy writes its own UID back.
func TestCopyChangesNoTags(t *testing.T) {
	t.Parallel()
	r := newFixture(t, fake.Options{})
	machine, _ := r.machine("worker")
	r.settle(machine)
	id := r.cloud.Snapshot().Instances[machine.UID]
	id.Owner.UID, id.ProviderID = "moved", machine.Spec.ProviderID
	if err := r.cloud.Tag(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client.Get(t.Context(), keyOf(r.home), r.home); err != nil {
		t.Fatal(err)
	}
	meta.SetStatusCondition(&r.home.Status.Conditions, metav1.Condition{
		Type: droverpolicyv1.ManagementClaimedCondition, Status: metav1.ConditionFalse, Reason: "ClaimedElsewhere", Message: "holder other",
	})
	if err := cluster.Client.Status().Update(t.Context(), r.home); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, _ = r.reconcile(machine)
	}
	if got := r.cloud.Snapshot().Instances[machine.UID].Owner.UID; got != "moved" {
		t.Errorf("the copy changed the Cluster's UID in the tags to %q", got)
	}
}
