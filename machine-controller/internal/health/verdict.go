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

// State is what can be said about a Machine.
type State string

// The states, from the best to the worst; the last two are no judgement.
const (
	// Healthy Machines have a Node, and no condition that the check lists.
	Healthy State = "Healthy"
	// Starting Machines have no Node yet and still have time to get one.
	Starting State = "Starting"
	// Suspect Machines show a listed condition, for less than its timeout.
	Suspect State = "Suspect"
	// Unhealthy Machines have failed a rule.
	Unhealthy State = "Unhealthy"
	// Leaving Machines are being deleted.
	Leaving State = "Leaving"
	// Unjudged Machines cannot, or must not, be judged now.
	Unjudged State = "Unjudged"
)

// Input is what is known about one Machine at one moment.
type Input struct {
	Machine *clusterv1.Machine
	Cluster *clusterv1.Cluster
	// Nodes are those that may be the Machine's: none, its own, or several that claim to be.
	Nodes []*corev1.Node
	// Since is when the present connection to the workload cluster began. No timer counts
	// what was before. Zero means that there is no connection: then nothing is judged.
	Since  time.Time
	Checks clusterv1.MachineHealthCheckChecks
	Now    time.Time
}

// Finding is the verdict on one Machine.
type Finding struct {
	State State
	// Reason and Message are those of HealthCheckSucceeded when Unhealthy, and else say what
	// is awaited. The message holds no times that pass.
	Reason, Message string
	// Until is when time alone changes the finding; zero if it does not.
	Until time.Time
}

// Ordered reports whether a person asked for the replacement.
func (f Finding) Ordered() bool {
	return f.Reason == clusterv1.MachineHealthCheckHasRemediateAnnotationReason
}

// Verdict judges one Machine. The first of the rules that has something to say decides;
// otherwise the worse of what the Machine and its Node show.
func Verdict(in Input) Finding {
	for _, rule := range []func(Input) (Finding, bool){
		leaving,   // what is being deleted is beyond judgement
		unseen,    // without a connection nothing is known
		ordered,   // a person wants it replaced
		early,     // nothing can be expected before the cluster is up
		ambiguous, // several Nodes claim the machine
	} {
		if finding, decided := rule(in); decided {
			return finding
		}
	}
	return worse(machineConditions(in), node(in))
}

func leaving(in Input) (Finding, bool) {
	return Finding{State: Leaving, Message: "The Machine is being deleted"}, !in.Machine.DeletionTimestamp.IsZero()
}

func unseen(in Input) (Finding, bool) {
	return Finding{State: Unjudged, Message: "Waiting for the connection to the workload cluster"}, in.Since.IsZero()
}

func ordered(in Input) (Finding, bool) {
	_, asked := in.Machine.Annotations[clusterv1.RemediateMachineAnnotation]
	return Finding{
		State:   Unhealthy,
		Reason:  clusterv1.MachineHealthCheckHasRemediateAnnotationReason,
		Message: "The annotation " + clusterv1.RemediateMachineAnnotation + " asks for replacement",
	}, asked
}

func early(in Input) (Finding, bool) {
	if !conditions.IsTrue(in.Cluster, clusterv1.ClusterInfrastructureReadyCondition) {
		return Finding{State: Unjudged, Message: "Waiting for the Cluster's condition InfrastructureReady"}, true
	}
	_, controlPlane := in.Machine.Labels[clusterv1.MachineControlPlaneLabel]
	if !controlPlane && !conditions.IsTrue(in.Cluster, clusterv1.ClusterControlPlaneInitializedCondition) {
		return Finding{State: Unjudged, Message: "Waiting for the Cluster's condition ControlPlaneInitialized"}, true
	}
	return Finding{}, false
}

func ambiguous(in Input) (Finding, bool) {
	return Finding{State: Unjudged, Message: "Several Nodes have the Machine's providerID: delete all but the right one"}, len(in.Nodes) > 1
}

// node judges the Machine's Node, or the lack of one.
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

// startupBegan is when all that a Node needs was there: the Machine, its cluster and its
// virtual machine, and a workload cluster that can be joined.
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
	a.Until = sooner(a.Until, b.Until)
	return a
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// sooner is the earlier of two times, where zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
