// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestReasonsThatNoConditionCanHave are replaced: the API server would refuse the whole status of the Machine.
func TestReasonsThatNoConditionCanHave(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 1024)
	for reported, want := range map[string]string{
		"CloningFailed": "CloningFailed", "A": "A", "a:b,c_1": "a:b,c_1", long: long,
		"": clusterv1.NotReadyReason, "Failed @ Disk/a": clusterv1.NotReadyReason, "Ends:": clusterv1.NotReadyReason, long + "a": clusterv1.NotReadyReason,
	} {
		_, object := read(fields{"status": fields{"conditions": []any{fields{"type": "Ready", "status": "False", "reason": reported}}}})
		if diff := cmp.Diff(want, object.ReadyCondition(true, "").Reason); diff != "" {
			t.Errorf("%q (-want +got):\n%s", reported, diff)
		}
	}
}
