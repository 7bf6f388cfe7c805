// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package managementclaim_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/infra-providers/internal/managementclaim"
)

func TestForbids(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status      metav1.ConditionStatus
		initialized bool
		want        bool
	}{
		"permits without a condition":                          {initialized: true},
		"permits with the claim":                               {status: metav1.ConditionTrue, initialized: true},
		"forbids with a claim elsewhere":                       {status: metav1.ConditionFalse, initialized: true, want: true},
		"forbids with a claim elsewhere before initialization": {status: metav1.ConditionFalse, want: true},
		"forbids before the first claim since a start":         {status: metav1.ConditionUnknown, initialized: true, want: true},
		"permits the first control plane":                      {status: metav1.ConditionUnknown},
	} {
		t.Run("it "+name, func(t *testing.T) {
			t.Parallel()
			cluster := &clusterv1.Cluster{}
			cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(test.initialized)
			if test.status != "" {
				cluster.Status.Conditions = []metav1.Condition{{Type: droverpolicyv1.ManagementClaimedCondition, Status: test.status}}
			}
			if got := managementclaim.Forbids(cluster); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
	if managementclaim.Forbids(nil) {
		t.Error("a Cluster that does not exist forbids")
	}
}
