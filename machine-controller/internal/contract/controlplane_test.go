// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestAvailable has what KubeadmControlPlanes report by each contract version, which is never a condition Ready by the newer one.
func TestAvailable(t *testing.T) {
	t.Parallel()
	const field = "FIELD"
	ready := fields{"type": "Ready", "status": "True", "reason": "Fine"}
	quorum := fields{"type": "Available", "status": "False", "reason": "NotAvailable", "message": "etcd has no quorum"}
	lost := metav1.Condition{Status: metav1.ConditionFalse, Reason: clusterv1.NotAvailableReason, Message: "etcd has no quorum"}
	for name, test := range map[string]struct {
		status      fields
		initialized bool
		want        metav1.Condition
	}{
		"is what the object reports, and not whether it is ready": {fields{"conditions": []any{ready, quorum}}, true, lost},
		"is that of the newer shape where there are both": {fields{
			"conditions": []any{fields{"type": "Available", "status": "True"}}, "v1beta2": fields{"conditions": []any{quorum}},
		}, true, lost},
		"is true once initialized where nothing is reported": {fields{"conditions": []any{fields{"type": "Ready", "status": "False"}}}, true,
			metav1.Condition{Status: metav1.ConditionTrue, Reason: clusterv1.AvailableReason}},
		"is false before that": {fields{}, false,
			metav1.Condition{Status: metav1.ConditionFalse, Reason: clusterv1.NotAvailableReason, Message: "P " + field + " is false"}},
		"has a reason where none is reported": {fields{"conditions": []any{fields{"type": "Available", "status": "Unknown"}}}, true,
			metav1.Condition{Status: metav1.ConditionUnknown, Reason: clusterv1.AvailableUnknownReason}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v1beta1, v1beta2 := read(fields{"kind": "P", "status": test.status})
			for of, o := range map[string]Object{"status.initialized": v1beta1, "status.initialization.controlPlaneInitialized": v1beta2} {
				want := test.want
				want.Message = strings.Replace(want.Message, field, of, 1)
				if diff := cmp.Diff(want, (&ControlPlane{o}).AvailableCondition(test.initialized)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", o.Contract, diff)
				}
			}
		})
	}
}

func TestReported(t *testing.T) {
	t.Parallel()
	_, o := read(fields{"kind": "P", "status": fields{"conditions": []any{
		fields{"type": "RollingOut", "status": "True", "reason": "RollingOut", "message": "from v1.35.0 to v1.36.0"}, fields{"type": "ScalingUp", "status": "Maybe"},
	}}})
	plane := &ControlPlane{o}
	if diff := cmp.Diff(&metav1.Condition{Status: metav1.ConditionTrue, Reason: "RollingOut", Message: "from v1.35.0 to v1.36.0"}, plane.Reported("RollingOut")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if odd := plane.Reported("ScalingUp"); odd == nil || odd.Status != metav1.ConditionUnknown {
		t.Errorf("a status that does not exist becomes %+v", odd)
	}
	if got := plane.Reported("ScalingDown"); got != nil {
		t.Errorf("what is not reported becomes %+v", got)
	}
}

// TestReplicas has the counters of both contract versions, of which each is read by the version that defines it.
func TestReplicas(t *testing.T) {
	t.Parallel()
	all := fields{
		"spec": fields{"replicas": int64(3)},
		"status": fields{
			"replicas": int64(4), "readyReplicas": int64(2), "availableReplicas": int64(1), "upToDateReplicas": int64(0),
			"unavailableReplicas": int64(2), "updatedReplicas": int64(4),
			"versions": []any{fields{"version": "v1.36.0", "replicas": int64(3)}, "odd", fields{"replicas": int64(1)}, fields{"version": "v1.36.1"}},
		},
	}
	versions := []clusterv1.StatusVersion{{Version: "v1.36.0", Replicas: 3}, {Version: "v1.36.1"}}
	v1beta1, v1beta2 := read(all)
	for o, want := range map[*Object]clusterv1.ClusterControlPlaneStatus{
		&v1beta1: {DesiredReplicas: new(int32(3)), Replicas: new(int32(4)), ReadyReplicas: new(int32(2)), AvailableReplicas: new(int32(1)), UpToDateReplicas: new(int32(4)), Versions: versions},
		&v1beta2: {DesiredReplicas: new(int32(3)), Replicas: new(int32(4)), ReadyReplicas: new(int32(2)), AvailableReplicas: new(int32(1)), UpToDateReplicas: new(int32(0)), Versions: versions},
	} {
		if diff := cmp.Diff(want, (&ControlPlane{*o}).Replicas()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", o.Contract, diff)
		}
	}
	old, _ := read(fields{"spec": fields{"replicas": int64(1)}, "status": fields{"unavailableReplicas": int64(2), "availableReplicas": int64(7)}})
	if diff := cmp.Diff(clusterv1.ClusterControlPlaneStatus{DesiredReplicas: new(int32(1)), AvailableReplicas: new(int32(0))}, (&ControlPlane{old}).Replicas()); diff != "" {
		t.Errorf("more unavailable than desired (-want +got):\n%s", diff)
	}
	_, odd := read(fields{"spec": fields{"replicas": "3"}, "status": fields{"replicas": int64(1 << 40), "readyReplicas": int64(-1)}})
	if diff := cmp.Diff(clusterv1.ClusterControlPlaneStatus{}, (&ControlPlane{odd}).Replicas()); diff != "" {
		t.Errorf("counters that no Cluster can have (-want +got):\n%s", diff)
	}
}
