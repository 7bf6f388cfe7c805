// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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
		"reports a status that does not exist":        {reporting(map[string]any{"status": "Maybe"}), nil, true, summary{"Unknown", clusterv1.InvalidConditionReportedReason, `I reports a Ready condition with status "Maybe"`}},
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
			got := mirrored(test.object, test.err, infraRef, test.done, "status.initialization.provisioned")
			if diff := cmp.Diff(test.want, summaryOf(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
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

// deploymentWith has one condition.
func deploymentWith(name, kind string, status metav1.ConditionStatus, message string) *clusterv1.MachineDeployment {
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
	conditions.Set(md, metav1.Condition{Type: kind, Status: status, Reason: "r", Message: message})
	return md
}

func TestSums(t *testing.T) {
	t.Parallel()
	const up, ready = clusterv1.MachineDeploymentScalingUpCondition, clusterv1.MachineDeploymentMachinesReadyCondition
	for name, test := range map[string]struct {
		target string
		given  []*clusterv1.MachineDeployment
		want   summary
	}{
		"is well without workers": {clusterv1.ClusterWorkerMachinesReadyCondition, nil, summary{"True", clusterv1.ClusterWorkerMachinesReadyReason, ""}},
		"is not well when one is not": {clusterv1.ClusterWorkerMachinesReadyCondition, []*clusterv1.MachineDeployment{
			deploymentWith("a", ready, "True", ""), deploymentWith("b", ready, "False", "no node"),
		}, summary{"False", clusterv1.ClusterWorkerMachinesNotReadyReason, "MachineDeployment b: no node"}},
		"is well when all are": {clusterv1.ClusterWorkerMachinesReadyCondition, []*clusterv1.MachineDeployment{
			deploymentWith("a", ready, "True", ""),
		}, summary{"True", clusterv1.ClusterWorkerMachinesReadyReason, ""}},
		"does not scale when none does": {clusterv1.ClusterScalingUpCondition, []*clusterv1.MachineDeployment{
			deploymentWith("a", up, "False", ""),
		}, summary{"False", clusterv1.ClusterNotScalingUpReason, ""}},
		"scales when one does": {clusterv1.ClusterScalingUpCondition, []*clusterv1.MachineDeployment{
			deploymentWith("a", up, "False", ""), deploymentWith("b", up, "True", "from 1 to 2"),
		}, summary{"True", clusterv1.ClusterScalingUpReason, "MachineDeployment b: from 1 to 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, each := range sums {
				if each.target == test.target {
					if diff := cmp.Diff(test.want, summaryOf(each.of(workers{deployments: test.given}))); diff != "" {
						t.Error(diff)
					}
				}
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

// TestWorkersThatStandAloneCount has a healthy MachineDeployment beside a MachineSet and a Machine that are not.
func TestWorkersThatStandAloneCount(t *testing.T) {
	t.Parallel()
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
	for _, kind := range []string{clusterv1.MachineSetScalingUpCondition, clusterv1.MachineSetScalingDownCondition, clusterv1.MachineSetRemediatingCondition} {
		conditions.Set(set, metav1.Condition{Type: kind, Status: "True", Reason: "r", Message: "why"})
	}
	for _, kind := range []string{clusterv1.MachineSetMachinesReadyCondition, clusterv1.MachineSetMachinesUpToDateCondition} {
		conditions.Set(set, metav1.Condition{Type: kind, Status: "False", Reason: "r", Message: "why"})
	}
	conditions.Set(m, metav1.Condition{Type: clusterv1.MachineReadyCondition, Status: "False", Reason: "r", Message: "lost"})
	got := map[string]string{}
	for name, w := range map[string]workers{"set": {sets: []*clusterv1.MachineSet{set}}, "machine": {machines: []*clusterv1.Machine{m}}} {
		for _, each := range sums {
			if condition := each.of(w); (condition.Status == metav1.ConditionTrue) != each.good {
				got[name+" "+each.target] = condition.Message
			}
		}
	}
	want := map[string]string{"machine " + clusterv1.ClusterWorkerMachinesReadyCondition: "Machine m: lost"}
	for _, kind := range []string{
		clusterv1.ClusterWorkerMachinesReadyCondition, clusterv1.ClusterWorkerMachinesUpToDateCondition,
		clusterv1.ClusterScalingUpCondition, clusterv1.ClusterScalingDownCondition, clusterv1.ClusterRemediatingCondition,
	} {
		want["set "+kind] = "MachineSet s: why"
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions that are not good (-want +got):\n%s", diff)
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

// TestSumsDoNotDependOnTheOrderOfWorkers: an index returns them in any order, and a message that changes with it would be
// written after every reconcile, for ever.
func TestSumsDoNotDependOnTheOrderOfWorkers(t *testing.T) {
	t.Parallel()
	var w, reversed workers
	for _, name := range []string{"a", "b", "c"} {
		md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, each := range sums {
			conditions.Set(md, metav1.Condition{Type: each.source, Status: map[bool]metav1.ConditionStatus{true: "False", false: "True"}[each.good], Reason: "r", Message: "of " + name})
		}
		conditions.Set(md, metav1.Condition{Type: clusterv1.MachineDeploymentAvailableCondition, Status: "False", Reason: "r", Message: "of " + name})
		w.deployments = append(w.deployments, md)
	}
	reversed.deployments = slices.Clone(w.deployments)
	slices.Reverse(reversed.deployments)
	for _, each := range sums {
		if diff := cmp.Diff(each.of(w), each.of(reversed)); diff != "" {
			t.Errorf("%s:\n%s", each.target, diff)
		}
	}
	ignoreTime := cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")
	if diff := cmp.Diff(workersAvailable(&state{workers: w}), workersAvailable(&state{workers: reversed}), ignoreTime); diff != "" {
		t.Error(diff)
	}
}
