// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// State is the state of health of a Machine.
type State string

// The states, from the best to the worst; the last two are no evaluation.
const (
	// Healthy Machines have a Node, and no condition that the check lists.
	Healthy State = "Healthy"
	// Starting Machines have no Node yet and still have time to get one.
	Starting State = "Starting"
	// Suspect Machines show a listed condition, for less than its timeout.
	Suspect State = "Suspect"
	// Unhealthy Machines have failed a rule.
	Unhealthy State = "Unhealthy"
	// Deleting Machines are being deleted.
	Deleting State = "Deleting"
	// Unevaluated Machines cannot, or must not, be evaluated now.
	Unevaluated State = "Unevaluated"
)

// Input is what was observed about one Machine.
type Input struct {
	Machine *clusterv1.Machine
	Cluster *clusterv1.Cluster
	// Nodes are those that may be the Machine's: none, one, or several with its providerID.
	Nodes []*corev1.Node
	// Since is when the present connection to the workload cluster began. No timeout counts from
	// before. Zero means that there is no connection: then nothing is evaluated.
	Since  time.Time
	Checks clusterv1.MachineHealthCheckChecks
	Now    time.Time
}

// Finding is the result of the evaluation of one Machine.
type Finding struct {
	State State
	// Reason and Message are those of HealthCheckSucceeded when Unhealthy, and otherwise what is
	// awaited. The message has no times that pass.
	Reason, Message string
	// Until is when time alone changes the finding; zero if it does not.
	Until time.Time
}

// Requested reports whether a person requested the replacement.
func (f Finding) Requested() bool {
	return f.Reason == clusterv1.MachineHealthCheckHasRemediateAnnotationReason
}

// Evaluate evaluates one Machine. The first rule that applies decides; otherwise the worse of what the
// conditions of the Machine and its Node show.
func Evaluate(in Input) Finding {
	for _, rule := range []func(Input) (Finding, bool){
		deleting,      // what is being deleted is not evaluated
		disconnected,  // without a connection there are no observations
		requested,     // a user requested its replacement
		beforeCluster, // no Node can join before the cluster is up
		ambiguous,     // several Nodes have its providerID
	} {
		if finding, decided := rule(in); decided {
			return finding
		}
	}
	return worse(machineConditions(in), node(in))
}

func deleting(in Input) (Finding, bool) {
	return Finding{State: Deleting, Message: "The Machine is being deleted"}, !in.Machine.DeletionTimestamp.IsZero()
}

func disconnected(in Input) (Finding, bool) {
	return Finding{State: Unevaluated, Message: "Waiting for the connection to the workload cluster"}, in.Since.IsZero()
}

func requested(in Input) (Finding, bool) {
	_, annotated := in.Machine.Annotations[clusterv1.RemediateMachineAnnotation]
	return Finding{
		State:   Unhealthy,
		Reason:  clusterv1.MachineHealthCheckHasRemediateAnnotationReason,
		Message: "The annotation " + clusterv1.RemediateMachineAnnotation + " requests replacement",
	}, annotated
}

func beforeCluster(in Input) (Finding, bool) {
	if !conditions.IsTrue(in.Cluster, clusterv1.ClusterInfrastructureReadyCondition) {
		return Finding{State: Unevaluated, Message: "Waiting for the Cluster's condition InfrastructureReady"}, true
	}
	_, controlPlane := in.Machine.Labels[clusterv1.MachineControlPlaneLabel]
	if !controlPlane && !conditions.IsTrue(in.Cluster, clusterv1.ClusterControlPlaneInitializedCondition) {
		return Finding{State: Unevaluated, Message: "Waiting for the Cluster's condition ControlPlaneInitialized"}, true
	}
	return Finding{}, false
}

func ambiguous(in Input) (Finding, bool) {
	return Finding{State: Unevaluated, Message: "Several Nodes have the Machine's providerID: delete all but the right one"}, len(in.Nodes) > 1
}

// node evaluates the Machine's Node, or the lack of one.
func node(in Input) Finding {
	if len(in.Nodes) == 1 {
		return nodeConditions(in, in.Nodes[0])
	}
	if in.Machine.Status.NodeRef.IsDefined() {
		return Finding{
			State:   Unhealthy,
			Reason:  clusterv1.MachineHealthCheckNodeDeletedReason,
			Message: "Node " + in.Machine.Status.NodeRef.Name + " has been deleted",
		}
	}
	timeout := startupTimeout(in.Checks)
	if timeout == 0 {
		return Finding{State: Starting, Message: "Waiting for a Node"}
	}
	end := startupBegan(in).Add(timeout)
	if in.Now.Before(end) {
		return Finding{State: Starting, Message: "Waiting for a Node", Until: end}
	}
	return Finding{
		State:   Unhealthy,
		Reason:  clusterv1.MachineHealthCheckNodeStartupTimeoutReason,
		Message: "No Node has joined within " + timeout.String(),
	}
}

func startupTimeout(checks clusterv1.MachineHealthCheckChecks) time.Duration {
	seconds := clusterv1.DefaultNodeStartupTimeoutSeconds
	if checks.NodeStartupTimeoutSeconds != nil {
		seconds = *checks.NodeStartupTimeoutSeconds
	}
	return time.Duration(seconds) * time.Second
}

// startupBegan is when everything that a Node needs existed: the Machine, its instance, and a workload
// cluster that can be joined.
func startupBegan(in Input) time.Time {
	began := later(in.Machine.CreationTimestamp.Time, in.Since)
	for _, each := range []struct {
		object conditions.Getter
		kind   string
	}{
		{in.Cluster, clusterv1.ClusterControlPlaneInitializedCondition},
		{in.Cluster, clusterv1.ClusterInfrastructureReadyCondition},
		{in.Machine, clusterv1.MachineInfrastructureReadyCondition},
	} {
		if condition := conditions.Get(each.object, each.kind); condition != nil && condition.Status == "True" {
			began = later(began, condition.LastTransitionTime.Time)
		}
	}
	return began
}

// worse merges two findings: the worse state, and the earlier time at which either changes.
func worse(a, b Finding) Finding {
	rank := map[State]int{Healthy: 0, Starting: 1, Suspect: 2, Unhealthy: 3}
	if cmp.Less(rank[a.State], rank[b.State]) {
		a, b = b, a
	}
	if a.State == Unhealthy {
		return a
	}
	a.Until = earlier(a.Until, b.Until)
	return a
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// earlier is the earlier of two times, where zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
