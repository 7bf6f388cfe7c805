// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package restart_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
)

// The copy has the remediation and the unhealthy condition of the time of the snapshot; the original holds the claim.
func TestCopyRestartsNothing(t *testing.T) {
	t.Parallel()
	r := newFixture(t, 1)
	r.connection(metav1.ConditionTrue)
	meta.SetStatusCondition(&r.home.Status.Conditions, metav1.Condition{
		Type: droverpolicyv1.ManagementClaimedCondition, Status: metav1.ConditionFalse, Reason: "ClaimedElsewhere", Message: "holder original",
	})
	r.must(cluster.Client.Status().Update(t.Context(), r.home))
	_, err := r.reconcile()
	r.must(err)
	r.wantRestarts(0)
}
