// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/ownership"
)

// with sets the name and one condition of an object.
func with[T interface {
	client.Object
	conditions.Setter
}](object T, name, kind string, status metav1.ConditionStatus, message string) T {
	object.SetName(name)
	conditions.Set(object, metav1.Condition{Type: kind, Status: status, Reason: "r", Message: message})
	return object
}

// deploymentWith has Machines, and one condition.
func deploymentWith(name, kind string, status metav1.ConditionStatus, message string) *clusterv1.MachineDeployment {
	md := with(&clusterv1.MachineDeployment{}, name, kind, status, message)
	md.Status.Replicas = new(int32(1))
	return md
}

// sumOf is the condition of the type that a Cluster with the state has.
func sumOf(t *testing.T, target string, s *state) summary {
	t.Helper()
	at := slices.IndexFunc(sums, func(u sum) bool { return u.target == target })
	if at < 0 {
		t.Fatalf("no condition %s", target)
	}
	got := sums[at].of(s)
	if got.Type != target {
		t.Errorf("the type is %q", got.Type)
	}
	return summaryOf(got)
}

func TestSumsOfWorkers(t *testing.T) {
	t.Parallel()
	const up, ready, upToDate = clusterv1.ScalingUpCondition, clusterv1.MachinesReadyCondition, clusterv1.MachinesUpToDateCondition
	const workersReady, workersUpToDate = clusterv1.ClusterWorkerMachinesReadyCondition, clusterv1.ClusterWorkerMachinesUpToDateCondition
	empty := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "empty"}}
	fresh := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "fresh"}}
	fresh.Status.Replicas = new(int32(1))
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	set.Status.Replicas = new(int32(1))
	conditions.Set(set, metav1.Condition{Type: upToDate, Status: metav1.ConditionTrue, Reason: clusterv1.NoReplicasReason})
	alone := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
	for name, test := range map[string]struct {
		target string
		given  workers
		want   summary
	}{
		"is well without Machines": {workersReady, workers{deployments: []*clusterv1.MachineDeployment{empty}}, summary{"True", clusterv1.ClusterWorkerMachinesReadyNoReplicasReason, ""}},
		"is up to date without Machines": {
			workersUpToDate, workers{deployments: []*clusterv1.MachineDeployment{empty}}, summary{"True", clusterv1.ClusterWorkerMachinesUpToDateNoReplicasReason, ""},
		},
		"is not well when one is not": {workersReady, workers{deployments: []*clusterv1.MachineDeployment{
			deploymentWith("a", ready, "True", ""), deploymentWith("b", ready, "False", "no node"), fresh,
		}}, summary{"False", clusterv1.ClusterWorkerMachinesNotReadyReason, "MachineDeployment b: no node"}},
		"is well when all are": {workersReady, workers{deployments: []*clusterv1.MachineDeployment{
			deploymentWith("a", ready, "True", "fine"), empty,
		}}, summary{"True", clusterv1.ClusterWorkerMachinesReadyReason, ""}},
		"is unknown when one is": {workersReady, workers{deployments: []*clusterv1.MachineDeployment{
			deploymentWith("a", ready, "True", ""), deploymentWith("b", ready, "Unknown", "no connection"),
		}}, summary{"Unknown", clusterv1.ClusterWorkerMachinesReadyUnknownReason, "MachineDeployment b: no connection"}},
		"is unknown before one reports": {workersReady, workers{deployments: []*clusterv1.MachineDeployment{
			deploymentWith("a", ready, "True", ""), fresh,
		}}, summary{"Unknown", clusterv1.ClusterWorkerMachinesReadyUnknownReason, "MachineDeployment fresh: Condition MachinesReady not yet reported"}},
		"is unknown for a Machine without conditions": {workersReady, workers{machines: []*clusterv1.Machine{alone}},
			summary{"Unknown", clusterv1.ClusterWorkerMachinesReadyUnknownReason, "Machine m: Condition Ready not yet reported"}},
		"is not known to be up to date for a Machine that is not compared": {workersUpToDate, workers{machines: []*clusterv1.Machine{alone}},
			summary{"Unknown", clusterv1.ClusterWorkerMachinesUpToDateUnknownReason, "Machine m: Condition UpToDate not yet reported"}},
		"is not known to be up to date for a set of them": {workersUpToDate, workers{sets: []*clusterv1.MachineSet{set}},
			summary{"Unknown", clusterv1.ClusterWorkerMachinesUpToDateUnknownReason, "MachineSet s: Condition UpToDate not yet reported"}},
		"does not scale when none does": {clusterv1.ClusterScalingUpCondition, workers{deployments: []*clusterv1.MachineDeployment{
			deploymentWith("a", up, "False", ""), fresh,
		}}, summary{"False", clusterv1.ClusterNotScalingUpReason, ""}},
		"scales when one does": {clusterv1.ClusterScalingUpCondition, workers{deployments: []*clusterv1.MachineDeployment{
			deploymentWith("a", up, "False", ""), deploymentWith("b", up, "True", "from 1 to 2"),
		}}, summary{"True", clusterv1.ClusterScalingUpReason, "MachineDeployment b: from 1 to 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, sumOf(t, test.target, &state{workers: test.given})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSumsOfTheMachinesOfAControlPlane(t *testing.T) {
	t.Parallel()
	machines := func(kind string, statuses ...metav1.ConditionStatus) workers {
		var w workers
		for i, status := range statuses {
			m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: string(rune('a' + i))}}
			if status != "" {
				with(m, m.Name, kind, status, "as it is")
			}
			w.controlPlane = append(w.controlPlane, m)
		}
		return w
	}
	for _, of := range []struct{ source, target, yes, no, unknown string }{
		{clusterv1.MachineReadyCondition, clusterv1.ClusterControlPlaneMachinesReadyCondition, "Ready", "NotReady", "ReadyUnknown"},
		{clusterv1.MachineUpToDateCondition, clusterv1.ClusterControlPlaneMachinesUpToDateCondition, "UpToDate", "NotUpToDate", "UpToDateUnknown"},
	} {
		for name, test := range map[string]struct {
			statuses []metav1.ConditionStatus
			want     summary
		}{
			"is well without Machines":    {nil, summary{"True", clusterv1.NoReplicasReason, ""}},
			"is well when all are":        {[]metav1.ConditionStatus{"True", "True", "True"}, summary{"True", of.yes, ""}},
			"is not when one is not":      {[]metav1.ConditionStatus{"True", "Unknown", "False"}, summary{"False", of.no, "Machine c: as it is"}},
			"is unknown before it is set": {[]metav1.ConditionStatus{"True", ""}, summary{"Unknown", of.unknown, "Machine b: Condition " + of.source + " not yet reported"}},
		} {
			t.Run(of.target+" "+name, func(t *testing.T) {
				t.Parallel()
				if diff := cmp.Diff(test.want, sumOf(t, of.target, &state{workers: machines(of.source, test.statuses...)})); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// TestTheControlPlaneCountsForTheCluster has a control plane object that reports what MachineDeployments do, beside one that
// does nothing.
func TestTheControlPlaneCountsForTheCluster(t *testing.T) {
	t.Parallel()
	for _, of := range []struct{ source, yes, no, unknown string }{
		{clusterv1.RollingOutCondition, clusterv1.ClusterRollingOutReason, clusterv1.ClusterNotRollingOutReason, clusterv1.ClusterRollingOutUnknownReason},
		{clusterv1.ScalingUpCondition, clusterv1.ClusterScalingUpReason, clusterv1.ClusterNotScalingUpReason, clusterv1.ClusterScalingUpUnknownReason},
		{clusterv1.ScalingDownCondition, clusterv1.ClusterScalingDownReason, clusterv1.ClusterNotScalingDownReason, clusterv1.ClusterScalingDownUnknownReason},
	} {
		reported := func(status string) []any {
			return []any{map[string]any{"type": of.source, "status": status, "reason": "r", "message": "as it is"}}
		}
		for name, test := range map[string]struct {
			conditions []any
			err        error
			workers    metav1.ConditionStatus
			want       summary
		}{
			"is true when it reports that":               {reported("True"), nil, "False", summary{"True", of.yes, "P p: as it is"}},
			"is false when it does not":                  {reported("False"), nil, "False", summary{"False", of.no, ""}},
			"is unknown when it does not know":           {reported("Unknown"), nil, "False", summary{"Unknown", of.unknown, "P p: as it is"}},
			"is true for a worker then":                  {reported("Unknown"), nil, "True", summary{"True", of.yes, "MachineDeployment md: from 1 to 2"}},
			"is false when it does not report it":        {[]any{}, nil, "False", summary{"False", of.no, ""}},
			"is unknown when it cannot be read":          {nil, errors.New("boom"), "False", summary{"Unknown", of.unknown, "P p: boom"}},
			"is false when it does not exist":            {nil, notFound, "False", summary{"False", of.no, ""}},
			"is false when it belongs to something else": {nil, &ownership.ForeignError{}, "False", summary{"False", of.no, ""}},
		} {
			t.Run(of.source+" "+name, func(t *testing.T) {
				t.Parallel()
				s := &state{cluster: &clusterv1.Cluster{}, controlPlaneErr: test.err}
				s.cluster.Spec.ControlPlaneRef = planeRef
				s.workers.deployments = []*clusterv1.MachineDeployment{deploymentWith("md", of.source, test.workers, "from 1 to 2")}
				if test.conditions != nil {
					s.controlPlane = plane(map[string]any{"conditions": test.conditions})
				}
				if diff := cmp.Diff(test.want, sumOf(t, of.source, s)); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// TestRemediationOfMachinesWithoutAMachineSet has Machines of a control plane and one that stands alone.
func TestRemediationOfMachinesWithoutAMachineSet(t *testing.T) {
	t.Parallel()
	unhealthy := with(&clusterv1.Machine{}, "m", clusterv1.MachineHealthCheckSucceededCondition, "False", "")
	remediated := with(unhealthy.DeepCopy(), "m", clusterv1.MachineOwnerRemediatedCondition, "False", "waits for quorum")
	done := with(unhealthy.DeepCopy(), "m", clusterv1.MachineOwnerRemediatedCondition, "True", "")
	recovered := with(remediated.DeepCopy(), "m", clusterv1.MachineHealthCheckSucceededCondition, "True", "")
	remediating := summary{"True", clusterv1.ClusterRemediatingReason, "Machine m: waits for quorum"}
	not := summary{"False", clusterv1.ClusterNotRemediatingReason, ""}
	for name, test := range map[string]struct {
		machine *clusterv1.Machine
		want    summary
	}{
		"is remediating while its owner is to remediate it": {remediated, remediating},
		"is not when its owner is not to":                   {unhealthy, not},
		"is not when its owner has":                         {done, not},
		"is not when it is healthy again":                   {recovered, not},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, w := range []workers{{controlPlane: []*clusterv1.Machine{test.machine}}, {machines: []*clusterv1.Machine{test.machine}}} {
				if diff := cmp.Diff(test.want, sumOf(t, clusterv1.ClusterRemediatingCondition, &state{workers: w})); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// TestWorkersThatStandAloneCount has a MachineSet and a Machine that are not well.
func TestWorkersThatStandAloneCount(t *testing.T) {
	t.Parallel()
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	set.Status.Replicas = new(int32(1))
	m := with(&clusterv1.Machine{}, "m", clusterv1.MachineReadyCondition, "False", "lost")
	for _, kind := range []string{clusterv1.MachineSetScalingUpCondition, clusterv1.MachineSetScalingDownCondition, clusterv1.MachineSetRemediatingCondition} {
		with(set, "s", kind, "True", "why")
	}
	for _, kind := range []string{clusterv1.MachineSetMachinesReadyCondition, clusterv1.MachineSetMachinesUpToDateCondition} {
		with(set, "s", kind, "False", "why")
	}
	got := map[string]string{}
	for name, w := range map[string]workers{"set": {sets: []*clusterv1.MachineSet{set}}, "machine": {machines: []*clusterv1.Machine{m}}} {
		for _, each := range sums {
			if condition := each.of(&state{workers: w}); (condition.Status == metav1.ConditionTrue) != each.good {
				got[name+" "+each.target] = condition.Message
			}
		}
	}
	want := map[string]string{
		"machine " + clusterv1.ClusterWorkerMachinesReadyCondition:    "Machine m: lost",
		"machine " + clusterv1.ClusterWorkerMachinesUpToDateCondition: "Machine m: Condition UpToDate not yet reported",
	}
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

// TestSumsDoNotDependOnTheOrderOfWorkers: an index returns them in any order, and a message that changes with it would be
// written after every reconcile, for ever.
func TestSumsDoNotDependOnTheOrderOfWorkers(t *testing.T) {
	t.Parallel()
	var w, reversed workers
	for _, name := range []string{"a", "b", "c"} {
		md := deploymentWith(name, clusterv1.MachineDeploymentAvailableCondition, "False", "of "+name)
		for _, kind := range []string{clusterv1.MachinesReadyCondition, clusterv1.MachinesUpToDateCondition} {
			with(md, name, kind, "False", "of "+name)
		}
		for _, kind := range []string{clusterv1.RollingOutCondition, clusterv1.ScalingUpCondition, clusterv1.ScalingDownCondition, clusterv1.RemediatingCondition} {
			with(md, name, kind, "True", "of "+name)
		}
		w.deployments = append(w.deployments, md)
		m := with(&clusterv1.Machine{}, name, clusterv1.MachineReadyCondition, "False", "of "+name)
		w.controlPlane = append(w.controlPlane, with(m, name, clusterv1.MachineUpToDateCondition, "False", "of "+name))
	}
	reversed.deployments, reversed.controlPlane = slices.Clone(w.deployments), slices.Clone(w.controlPlane)
	slices.Reverse(reversed.deployments)
	slices.Reverse(reversed.controlPlane)
	for _, each := range sums {
		got := each.of(&state{workers: w})
		if diff := cmp.Diff(got, each.of(&state{workers: reversed})); diff != "" || got.Message == "" {
			t.Errorf("%s, with the message %q:\n%s", each.target, got.Message, diff)
		}
	}
	ignoreTime := cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")
	if diff := cmp.Diff(workersAvailable(&state{workers: w}), workersAvailable(&state{workers: reversed}), ignoreTime); diff != "" {
		t.Error(diff)
	}
}
