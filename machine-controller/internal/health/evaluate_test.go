// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// noon is when every test takes place; ago is a while before.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

// joined is the input for a Machine of an hour whose Node is fine. The check requires
// no Node NotReady or Unknown for five minutes, and no Machine Broken for one.
func joined() Input {
	yes := func(kind string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, LastTransitionTime: ago(2 * time.Hour)}
	}
	cluster := &clusterv1.Cluster{}
	cluster.Status.Conditions = []metav1.Condition{yes(clusterv1.ClusterInfrastructureReadyCondition), yes(clusterv1.ClusterControlPlaneInitializedCondition)}
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", CreationTimestamp: ago(time.Hour)}}
	m.Status.NodeRef.Name = "n"
	return Input{
		Machine: m,
		Cluster: cluster,
		Nodes: []*corev1.Node{{
			ObjectMeta: metav1.ObjectMeta{Name: "n", CreationTimestamp: ago(50 * time.Minute)},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: ago(40 * time.Minute)}}},
		}},
		Since: noon.Add(-3 * time.Hour),
		Checks: clusterv1.MachineHealthCheckChecks{
			UnhealthyNodeConditions: []clusterv1.UnhealthyNodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionFalse, TimeoutSeconds: new(int32(300))},
				{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: new(int32(300))},
			},
			UnhealthyMachineConditions: []clusterv1.UnhealthyMachineCondition{
				{Type: "Broken", Status: metav1.ConditionTrue, TimeoutSeconds: new(int32(60))},
			},
		},
		Now: noon,
	}
}

func (in *Input) ready(status corev1.ConditionStatus, since time.Duration) {
	in.Nodes[0].Status.Conditions[0].Status, in.Nodes[0].Status.Conditions[0].LastTransitionTime = status, ago(since)
}

func (in *Input) condition(kind string, status metav1.ConditionStatus, since time.Duration) {
	in.Machine.Status.Conditions = append(in.Machine.Status.Conditions, metav1.Condition{Type: kind, Status: status, LastTransitionTime: ago(since)})
}

func (in *Input) unjoin(age time.Duration) {
	in.Nodes, in.Machine.Status.NodeRef, in.Machine.CreationTimestamp = nil, clusterv1.MachineNodeReference{}, ago(age)
}

func TestEvaluate(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) time.Time { return noon.Add(d) }
	tests := map[string]struct {
		change func(*Input)
		state  State
		reason string
		until  time.Time
	}{
		"finds a Machine with a good Node healthy": {state: Healthy},
		"leaves alone what is being deleted": {
			change: func(in *Input) {
				in.Machine.DeletionTimestamp = new(ago(0))
				in.ready(corev1.ConditionFalse, time.Hour)
			}, state: Deleting,
		},
		"evaluates nothing without a connection, not even a request": {
			change: func(in *Input) {
				in.Since = time.Time{}
				in.Machine.Annotations = map[string]string{clusterv1.RemediateMachineAnnotation: ""}
			}, state: Unevaluated,
		},
		"follows the annotation, also before the cluster is up": {
			change: func(in *Input) {
				in.Cluster.Status.Conditions = nil
				in.Machine.Annotations = map[string]string{clusterv1.RemediateMachineAnnotation: ""}
			}, state: Unhealthy, reason: clusterv1.MachineHealthCheckHasRemediateAnnotationReason,
		},
		"waits for the infrastructure of the cluster": {
			change: func(in *Input) { in.Cluster.Status.Conditions = in.Cluster.Status.Conditions[1:]; in.unjoin(time.Hour) }, state: Unevaluated,
		},
		"waits for the control plane": {
			change: func(in *Input) { in.Cluster.Status.Conditions = in.Cluster.Status.Conditions[:1]; in.unjoin(time.Hour) }, state: Unevaluated,
		},
		"does not make the control plane wait for itself": {
			change: func(in *Input) {
				in.Cluster.Status.Conditions = in.Cluster.Status.Conditions[:1]
				in.Machine.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
				in.unjoin(time.Hour)
			}, state: Unhealthy, reason: clusterv1.MachineHealthCheckNodeStartupTimeoutReason,
		},
		"does not choose between two Nodes": {
			change: func(in *Input) { in.Nodes = append(in.Nodes, in.Nodes[0]) }, state: Unevaluated,
		},
		"misses a Node that was there": {
			change: func(in *Input) { in.Nodes = nil }, state: Unhealthy, reason: clusterv1.MachineHealthCheckNodeDeletedReason,
		},
		"gives a Node ten minutes to come": {
			change: func(in *Input) { in.unjoin(4 * time.Minute) }, state: Starting, until: at(6 * time.Minute),
		},
		"gives up on a Node after ten minutes": {
			change: func(in *Input) { in.unjoin(10 * time.Minute) }, state: Unhealthy, reason: clusterv1.MachineHealthCheckNodeStartupTimeoutReason,
		},
		"takes another startup timeout": {
			change: func(in *Input) { in.unjoin(10 * time.Minute); in.Checks.NodeStartupTimeoutSeconds = new(int32(1200)) },
			state:  Starting, until: at(10 * time.Minute),
		},
		"waits for ever when the startup timeout is 0": {
			change: func(in *Input) { in.unjoin(1000 * time.Hour); in.Checks.NodeStartupTimeoutSeconds = new(int32(0)) }, state: Starting,
		},
		"counts the startup from the virtual machine": {
			change: func(in *Input) {
				in.unjoin(time.Hour)
				in.condition(clusterv1.MachineInfrastructureReadyCondition, metav1.ConditionTrue, 3*time.Minute)
			}, state: Starting, until: at(7 * time.Minute),
		},
		"does not count it from a virtual machine that failed": {
			change: func(in *Input) {
				in.unjoin(time.Hour)
				in.condition(clusterv1.MachineInfrastructureReadyCondition, metav1.ConditionFalse, 3*time.Minute)
			}, state: Unhealthy, reason: clusterv1.MachineHealthCheckNodeStartupTimeoutReason,
		},
		"counts the startup from the control plane": {
			change: func(in *Input) {
				in.unjoin(time.Hour)
				in.Cluster.Status.Conditions[1].LastTransitionTime = ago(2 * time.Minute)
			}, state: Starting, until: at(8 * time.Minute),
		},
		"counts the startup from the infrastructure of the cluster": {
			change: func(in *Input) {
				in.unjoin(time.Hour)
				in.Cluster.Status.Conditions[0].LastTransitionTime = ago(time.Minute)
			}, state: Starting, until: at(9 * time.Minute),
		},
		"counts the startup from the connection": {
			change: func(in *Input) { in.unjoin(time.Hour); in.Since = noon.Add(-time.Minute) }, state: Starting, until: at(9 * time.Minute),
		},
		"suspects a bad Node until its timeout": {
			change: func(in *Input) { in.ready(corev1.ConditionUnknown, 2*time.Minute) }, state: Suspect, until: at(3 * time.Minute),
		},
		"condemns a bad Node at its timeout": {
			change: func(in *Input) { in.ready(corev1.ConditionUnknown, 5*time.Minute) }, state: Unhealthy, reason: clusterv1.MachineHealthCheckUnhealthyNodeReason,
		},
		"starts the timer anew with the connection": {
			change: func(in *Input) {
				in.ready(corev1.ConditionFalse, time.Hour)
				in.Since = noon.Add(-time.Minute)
			}, state: Suspect, until: at(4 * time.Minute),
		},
		"takes an absent condition for Unknown, from the Node's creation": {
			change: func(in *Input) {
				in.Nodes[0].Status.Conditions, in.Nodes[0].CreationTimestamp = nil, ago(2*time.Minute)
			}, state: Suspect, until: at(3 * time.Minute),
		},
		"condemns a Node that never reported": {
			change: func(in *Input) { in.Nodes[0].Status.Conditions = nil }, state: Unhealthy, reason: clusterv1.MachineHealthCheckUnhealthyNodeReason,
		},
		"accepts an absent condition where Unknown is not listed": {
			change: func(in *Input) {
				in.Nodes[0].Status.Conditions = nil
				in.Checks.UnhealthyNodeConditions = in.Checks.UnhealthyNodeConditions[:1]
			}, state: Healthy,
		},
		"suspects a bad Machine": {
			change: func(in *Input) { in.condition("Broken", metav1.ConditionTrue, 20*time.Second) }, state: Suspect, until: at(40 * time.Second),
		},
		"condemns a bad Machine": {
			change: func(in *Input) { in.condition("Broken", metav1.ConditionTrue, time.Minute) }, state: Unhealthy, reason: clusterv1.MachineHealthCheckUnhealthyMachineReason,
		},
		"condemns a bad Machine that has no Node yet": {
			change: func(in *Input) { in.unjoin(2 * time.Minute); in.condition("Broken", metav1.ConditionTrue, time.Minute) },
			state:  Unhealthy, reason: clusterv1.MachineHealthCheckUnhealthyMachineReason,
		},
		"awaits the earlier of two deadlines": {
			change: func(in *Input) {
				in.ready(corev1.ConditionFalse, 2*time.Minute)
				in.condition("Broken", metav1.ConditionTrue, 10*time.Second)
			}, state: Suspect, until: at(50 * time.Second),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := joined()
			if test.change != nil {
				test.change(&in)
			}
			got := Evaluate(in)
			if (got.Message == "") != (test.state == Healthy) {
				t.Errorf("message of %s: %q", got.State, got.Message)
			}
			got.Message = ""
			if diff := cmp.Diff(Finding{State: test.state, Reason: test.reason, Until: test.until}, got); diff != "" {
				t.Errorf("finding (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEvaluateAtTheTimeout checks that a finding is valid until the time it names, and no longer.
func TestEvaluateAtTheTimeout(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Input){
		"of a startup":           func(in *Input) { in.unjoin(4 * time.Minute) },
		"of a Node's condition":  func(in *Input) { in.ready(corev1.ConditionFalse, time.Minute) },
		"of an absent condition": func(in *Input) { in.Nodes[0].Status.Conditions, in.Nodes[0].CreationTimestamp = nil, ago(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := joined()
			change(&in)
			until := Evaluate(in).Until
			in.Now = until.Add(-time.Nanosecond)
			if got := Evaluate(in).State; got == Unhealthy {
				t.Errorf("unhealthy before %s", until)
			}
			in.Now = until
			if got := Evaluate(in).State; got != Unhealthy {
				t.Errorf("%s at %s", got, until)
			}
		})
	}
}
