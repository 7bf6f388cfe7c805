// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/ownership"
	"drover.io/machine-controller/internal/workload"
)

var (
	notFound = apierrors.NewNotFound(corev1.Resource("things"), "x")
	infraRef = clusterv1.ContractVersionedObjectReference{APIGroup: "g", Kind: "I", Name: "i"}
	planeRef = clusterv1.ContractVersionedObjectReference{APIGroup: "g", Kind: "P", Name: "p"}
)

type summary struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

func summaryOf(c metav1.Condition) summary { return summary{c.Status, c.Reason, c.Message} }

// reporting is an object whose Ready condition has the given fields; none reports nothing.
func reporting(ready map[string]any) *contract.Object {
	o := &unstructured.Unstructured{Object: map[string]any{"kind": "I"}}
	if ready != nil {
		ready["type"] = "Ready"
		o.Object["status"] = map[string]any{"conditions": []any{ready}}
	}
	return &contract.Object{Unstructured: o, Contract: contract.V1Beta2}
}

func TestMirrored(t *testing.T) {
	t.Parallel()
	foreign := &ownership.ForeignError{Kind: "I", Name: "i", Owner: `Cluster "other"`, Referrer: "Cluster", Field: "spec.infrastructureRef"}
	for name, test := range map[string]struct {
		object *contract.Object
		err    error
		done   bool
		want   summary
	}{
		"mirrors a good condition":                    {reporting(map[string]any{"status": "True", "reason": "Fine", "message": "m"}), nil, false, summary{"True", "Fine", "m"}},
		"mirrors a bad condition":                     {reporting(map[string]any{"status": "False", "reason": "Quota"}), nil, true, summary{"False", "Quota", ""}},
		"mirrors an unknown condition":                {reporting(map[string]any{"status": "Unknown", "reason": "NoHeartbeat"}), nil, true, summary{"Unknown", "NoHeartbeat", ""}},
		"shortens a long message":                     {reporting(map[string]any{"status": "False", "reason": "R", "message": strings.Repeat("x", 40_000)}), nil, true, summary{"False", "R", strings.Repeat("x", 512) + "…"}},
		"reports a status that does not exist":        {reporting(map[string]any{"status": "Maybe"}), nil, true, summary{"Unknown", clusterv1.InvalidConditionReportedReason, `I reports the condition Ready with status "Maybe"`}},
		"finds a reason where none is given":          {reporting(map[string]any{"status": "True"}), nil, false, summary{"True", clusterv1.ReadyReason, ""}},
		"finds a reason for unknown":                  {reporting(map[string]any{"status": "Unknown"}), nil, false, summary{"Unknown", clusterv1.ReadyUnknownReason, ""}},
		"takes being done for being ready":            {reporting(nil), nil, true, summary{"True", clusterv1.ReadyReason, ""}},
		"reports what is awaited before it is done":   {reporting(nil), nil, false, summary{"False", clusterv1.NotReadyReason, "I status.initialization.provisioned is false"}},
		"names an object that does not exist":         {nil, notFound, false, summary{"False", clusterv1.ObjectDoesNotExistReason, `I "i" does not exist`}},
		"names an object that was deleted":            {nil, notFound, true, summary{"False", clusterv1.ObjectDeletedReason, `I "i" has been deleted`}},
		"reports an object of another owner":          {nil, foreign, false, summary{"False", ownership.ForeignObjectReason, foreign.Error()}},
		"does not guess when reading failed":          {nil, errors.New("boom"), true, summary{"Unknown", clusterv1.InternalErrorReason, "boom"}},
		"does not guess when nothing was read at all": {nil, nil, true, summary{"Unknown", clusterv1.InternalErrorReason, `I "i" was not read`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &state{cluster: clusterWith(infraRef), infraErr: test.err}
			if test.object != nil {
				s.infra = &contract.InfraCluster{Object: *test.object}
			}
			if test.done {
				s.cluster.Status.Initialization.InfrastructureProvisioned = new(true)
			}
			got := infrastructureReady(s)
			if diff := cmp.Diff(test.want, summaryOf(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestControlPlaneAvailable mirrors the condition Available, as KubeadmControlPlanes report it; whether such an object is ready
// is none of its conditions.
func TestControlPlaneAvailable(t *testing.T) {
	t.Parallel()
	noQuorum := map[string]any{"type": "Available", "status": "False", "reason": "NotAvailable", "message": "etcd has no quorum"}
	for name, test := range map[string]struct {
		conditions []any
		err        error
		done       bool
		want       summary
	}{
		"is false without a quorum": {[]any{noQuorum}, nil, true, summary{"False", clusterv1.ClusterControlPlaneNotAvailableReason, "etcd has no quorum"}},
		"is false without a quorum, though it is ready": {
			[]any{map[string]any{"type": "Ready", "status": "True"}, noQuorum}, nil, true, summary{"False", clusterv1.ClusterControlPlaneNotAvailableReason, "etcd has no quorum"},
		},
		"is true once initialized, where it is not reported": {[]any{}, nil, true, summary{"True", clusterv1.ClusterControlPlaneAvailableReason, ""}},
		"is false before, where it is not reported": {
			[]any{}, nil, false, summary{"False", clusterv1.ClusterControlPlaneNotAvailableReason, "P status.initialization.controlPlaneInitialized is false"},
		},
		"names an object that was deleted": {nil, notFound, true, summary{"False", clusterv1.ObjectDeletedReason, `P "p" has been deleted`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &state{cluster: &clusterv1.Cluster{}, controlPlaneErr: test.err}
			s.cluster.Spec.ControlPlaneRef = planeRef
			if test.conditions != nil {
				s.controlPlane = plane(map[string]any{"conditions": test.conditions})
			}
			if test.done {
				s.cluster.Status.Initialization.ControlPlaneInitialized = new(true)
			}
			if diff := cmp.Diff(test.want, summaryOf(controlPlaneAvailable(s))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// plane is a control plane object with a status.
func plane(status map[string]any) *contract.ControlPlane {
	o := &unstructured.Unstructured{Object: map[string]any{"kind": "P", "status": status}}
	o.SetName("p")
	return &contract.ControlPlane{Object: contract.Object{Unstructured: o, Contract: contract.V1Beta2}}
}

func TestConnectionConditions(t *testing.T) {
	t.Parallel()
	last := func(kind string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Before"}
	}
	const succeeded, failed = clusterv1.ClusterRemoteConnectionProbeSucceededReason, clusterv1.ClusterRemoteConnectionProbeFailedReason
	const available, unavailable = clusterv1.ClusterControlPlaneAvailableReason, clusterv1.ClusterControlPlaneNotAvailableReason
	for name, test := range map[string]struct {
		state        workload.State
		known        bool
		probe, plane summary
	}{
		"is well when connected": {
			workload.State{Connected: true}, true, summary{"True", succeeded, ""}, summary{"True", available, ""},
		},
		"reports a failed probe while connected": {
			workload.State{Connected: true, Reason: workload.ReasonUnreachable, Message: "timeout"}, true,
			summary{"False", failed, "Unreachable: timeout"}, summary{"True", available, ""},
		},
		"reports why there is no connection": {
			workload.State{Reason: workload.ReasonUnauthorized, Message: "401"}, true,
			summary{"False", failed, "Unauthorized: 401"}, summary{"False", unavailable, "Unauthorized: 401"},
		},
		"keeps the conditions until the first attempt has ended": {
			workload.State{Reason: workload.ReasonConnecting, Message: "m"}, true, summary{"True", "Before", ""}, summary{"True", "Before", ""},
		},
		"reports that there is no connection yet": {
			workload.State{}, false,
			summary{"False", failed, "Not connected to the workload cluster yet"}, summary{"False", unavailable, "Not connected to the workload cluster yet"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &state{cluster: &clusterv1.Cluster{}, connection: test.state}
			if test.known {
				s.cluster.Status.Conditions = []metav1.Condition{
					last(clusterv1.ClusterRemoteConnectionProbeCondition), last(clusterv1.ClusterControlPlaneAvailableCondition),
				}
			}
			if diff := cmp.Diff(test.probe, summaryOf(connectionProbe(s))); diff != "" {
				t.Errorf("probe: %s", diff)
			}
			if diff := cmp.Diff(test.plane, summaryOf(controlPlaneAvailable(s))); diff != "" {
				t.Errorf("control plane: %s", diff)
			}
		})
	}
}

func TestInitialized(t *testing.T) {
	t.Parallel()
	const kind = clusterv1.ClusterControlPlaneInitializedCondition
	for name, test := range map[string]struct {
		done *bool
		ref  clusterv1.ContractVersionedObjectReference
		want metav1.Condition
	}{
		"waits for the first connection": {nil, clusterv1.ContractVersionedObjectReference{}, metav1.Condition{
			Type: kind, Status: "False", Reason: clusterv1.ClusterControlPlaneNotInitializedReason, Message: "Waiting for the first connection to the workload cluster",
		}},
		"waits for the control plane object": {nil, planeRef, metav1.Condition{Type: kind, Status: "False", Reason: clusterv1.ClusterControlPlaneNotInitializedReason}},
		"is when it is":                      {new(true), planeRef, metav1.Condition{Type: kind, Status: "True", Reason: clusterv1.ClusterControlPlaneInitializedReason}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &state{cluster: &clusterv1.Cluster{}}
			s.cluster.Spec.ControlPlaneRef, s.cluster.Status.Initialization.ControlPlaneInitialized = test.ref, test.done
			if diff := cmp.Diff(test.want, controlPlaneInitialized(s)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWorkersAvailable(t *testing.T) {
	t.Parallel()
	const kind = clusterv1.MachineDeploymentAvailableCondition
	for name, test := range map[string]struct {
		given  []*clusterv1.MachineDeployment
		status metav1.ConditionStatus
		reason string
	}{
		"is true without workers":       {nil, "True", clusterv1.ClusterWorkersAvailableNoWorkersReason},
		"is true when all are":          {[]*clusterv1.MachineDeployment{deploymentWith("a", kind, "True", "")}, "True", clusterv1.ClusterWorkersAvailableReason},
		"is false when one is not":      {[]*clusterv1.MachineDeployment{deploymentWith("a", kind, "True", ""), deploymentWith("b", kind, "False", "x")}, "False", clusterv1.ClusterWorkersNotAvailableReason},
		"is unknown before one reports": {[]*clusterv1.MachineDeployment{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}, "Unknown", clusterv1.ClusterWorkersAvailableUnknownReason},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := workersAvailable(&state{workers: workers{deployments: test.given}})
			if got.Status != test.status || got.Reason != test.reason {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestPhaseOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*clusterv1.Cluster)
		want   clusterv1.ClusterPhase
	}{
		"is pending at first":                  {func(*clusterv1.Cluster) {}, clusterv1.ClusterPhasePending},
		"is provisioning with infrastructure":  {func(c *clusterv1.Cluster) { c.Spec.InfrastructureRef = infraRef }, clusterv1.ClusterPhaseProvisioning},
		"is provisioning with a control plane": {func(c *clusterv1.Cluster) { c.Spec.ControlPlaneRef = planeRef }, clusterv1.ClusterPhaseProvisioning},
		"is not provisioned without an endpoint": {func(c *clusterv1.Cluster) {
			c.Spec.InfrastructureRef, c.Status.Initialization.InfrastructureProvisioned = infraRef, new(true)
		}, clusterv1.ClusterPhaseProvisioning},
		"is provisioned with an endpoint": {func(c *clusterv1.Cluster) {
			c.Spec.ControlPlaneEndpoint.Host, c.Status.Initialization.InfrastructureProvisioned = "h", new(true)
		}, clusterv1.ClusterPhaseProvisioned},
		"is deleting whatever else is true": {func(c *clusterv1.Cluster) { c.DeletionTimestamp = new(metav1.Now()) }, clusterv1.ClusterPhaseDeleting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &clusterv1.Cluster{}
			test.change(c)
			if got := phaseOf(c); got != test.want {
				t.Errorf("phase is %q, want %q", got, test.want)
			}
		})
	}
}

func TestAvailable(t *testing.T) {
	t.Parallel()
	parts := map[string]metav1.ConditionStatus{
		clusterv1.ClusterDeletingCondition: "False", clusterv1.ClusterRemoteConnectionProbeCondition: "True", clusterv1.ClusterInfrastructureReadyCondition: "True",
		clusterv1.ClusterControlPlaneAvailableCondition: "True", clusterv1.ClusterWorkersAvailableCondition: "True",
	}
	for name, test := range map[string]struct {
		kind   string
		status metav1.ConditionStatus
		want   metav1.ConditionStatus
	}{
		"is when all parts are":               {"", "", "True"},
		"is not while deleting":               {clusterv1.ClusterDeletingCondition, "True", "False"},
		"is not without a connection":         {clusterv1.ClusterRemoteConnectionProbeCondition, "False", "False"},
		"is unknown with an unknown part":     {clusterv1.ClusterWorkersAvailableCondition, "Unknown", "Unknown"},
		"is not when a gate is closed":        {"Gate", "False", "False"},
		"is unknown when a gate is not there": {"Gate", "", "Unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &clusterv1.Cluster{}
			for kind, status := range parts {
				conditions.Set(c, metav1.Condition{Type: kind, Status: status, Reason: "r"})
			}
			if test.kind == "Gate" {
				c.Spec.AvailabilityGates = []clusterv1.ClusterAvailabilityGate{{ConditionType: "Gate"}}
			}
			if test.status != "" {
				conditions.Set(c, metav1.Condition{Type: test.kind, Status: test.status, Reason: "r", Message: "m"})
			}
			if got := available(c); got.Status != test.want {
				t.Errorf("got %+v", got)
			}
		})
	}
}
