// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/workload"
)

var notFound = apierrors.NewNotFound(corev1.Resource("things"), "x")

// nodeWith has the given conditions; a status may be followed by a message.
func nodeWith(reported map[corev1.NodeConditionType][2]string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n-uid"}}
	for kind, each := range reported {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionStatus(each[0]), Message: each[1]})
	}
	return n
}

func TestNodeHealthy(t *testing.T) {
	t.Parallel()
	const ready, memory, disk, pid = corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure
	type reported = map[corev1.NodeConditionType][2]string
	unreachable := [2]string{"Unknown", "Kubelet stopped posting node status."}
	for name, test := range map[string]struct {
		reported        reported
		status          metav1.ConditionStatus
		reason, message string
	}{
		"is healthy when ready and under no pressure": {
			reported{ready: {"True", "fine"}, memory: {"False"}, disk: {"False"}, pid: {"False"}, "Custom": {"False", "who cares"}},
			metav1.ConditionTrue, clusterv1.MachineNodeHealthyReason, "",
		},
		"is unhealthy when not ready": {
			reported{ready: {"False", "no network"}, memory: {"False"}, disk: {"False"}, pid: {"False"}},
			metav1.ConditionFalse, clusterv1.MachineNodeNotHealthyReason, "* Node.Ready: no network",
		},
		"is unhealthy under each pressure": {
			reported{ready: {"True"}, memory: {"True", "m"}, disk: {"True", "d"}, pid: {"True", "p"}},
			metav1.ConditionFalse, clusterv1.MachineNodeNotHealthyReason,
			"* Node.MemoryPressure: m\n* Node.DiskPressure: d\n* Node.PIDPressure: p",
		},
		"names the status where a message is missing": {
			reported{ready: {"True"}, memory: {"True"}, disk: {"False"}, pid: {"False"}},
			metav1.ConditionFalse, clusterv1.MachineNodeNotHealthyReason, "* Node.MemoryPressure: Condition is True",
		},
		"is unknown when something is unknown and nothing bad": {
			reported{ready: {"True"}, memory: {"Unknown", "unknown cause"}, disk: {"False"}, pid: {"False"}},
			metav1.ConditionUnknown, clusterv1.MachineNodeHealthUnknownReason, "* Node.MemoryPressure: unknown cause",
		},
		"is unhealthy when one is bad and another unknown": {
			reported{ready: {"Unknown", "u"}, memory: {"True", "m"}, disk: {"False"}, pid: {"False"}},
			metav1.ConditionFalse, clusterv1.MachineNodeNotHealthyReason, "* Node.Ready: u\n* Node.MemoryPressure: m",
		},
		"reports a missing condition": {
			reported{ready: {"True"}},
			metav1.ConditionUnknown, clusterv1.MachineNodeHealthUnknownReason,
			"* Node.MemoryPressure: Condition not yet reported\n* Node.DiskPressure: Condition not yet reported\n* Node.PIDPressure: Condition not yet reported",
		},
		"reports a message that every condition has once": {
			reported{ready: unreachable, memory: unreachable, disk: unreachable, pid: unreachable},
			metav1.ConditionUnknown, clusterv1.MachineNodeHealthUnknownReason, "* Node.AllConditions: Kubelet stopped posting node status.",
		},
		"does not merge when a condition is missing": {
			reported{ready: unreachable, memory: unreachable, disk: unreachable},
			metav1.ConditionUnknown, clusterv1.MachineNodeHealthUnknownReason,
			"* Node.Ready: " + unreachable[1] + "\n* Node.MemoryPressure: " + unreachable[1] + "\n* Node.DiskPressure: " + unreachable[1] +
				"\n* Node.PIDPressure: Condition not yet reported",
		},
		"shortens a long message": {
			reported{ready: {"True"}, memory: {"True", strings.Repeat("m", 40_000)}, disk: {"False"}, pid: {"False"}},
			metav1.ConditionFalse, clusterv1.MachineNodeNotHealthyReason, "* Node.MemoryPressure: " + strings.Repeat("m", 512) + "…",
		},
		"does not merge a single condition": {
			reported{ready: unreachable, memory: {"False"}, disk: {"False"}, pid: {"False"}},
			metav1.ConditionUnknown, clusterv1.MachineNodeHealthUnknownReason, "* Node.Ready: " + unreachable[1],
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := metav1.Condition{Type: clusterv1.MachineNodeHealthyCondition, Status: test.status, Reason: test.reason, Message: test.message}
			if diff := cmp.Diff(want, nodeHealthy(nodeWith(test.reported))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNodeReady(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reported        map[corev1.NodeConditionType][2]string
		status          metav1.ConditionStatus
		reason, message string
	}{
		"is unknown before it is reported":   {nil, metav1.ConditionUnknown, clusterv1.MachineNodeReadyUnknownReason, "* Node.Ready: Condition not yet reported"},
		"is true without a message":          {map[corev1.NodeConditionType][2]string{corev1.NodeReady: {"True", "kubelet is posting"}}, metav1.ConditionTrue, clusterv1.MachineNodeReadyReason, ""},
		"is false with the Node's message":   {map[corev1.NodeConditionType][2]string{corev1.NodeReady: {"False", "no CNI"}}, metav1.ConditionFalse, clusterv1.MachineNodeNotReadyReason, "* Node.Ready: no CNI"},
		"is false without a message":         {map[corev1.NodeConditionType][2]string{corev1.NodeReady: {"False"}}, metav1.ConditionFalse, clusterv1.MachineNodeNotReadyReason, ""},
		"shortens a long message":            {map[corev1.NodeConditionType][2]string{corev1.NodeReady: {"False", strings.Repeat("x", 40_000)}}, metav1.ConditionFalse, clusterv1.MachineNodeNotReadyReason, "* Node.Ready: " + strings.Repeat("x", 512) + "…"},
		"is unknown with the Node's message": {map[corev1.NodeConditionType][2]string{corev1.NodeReady: {"Unknown", "no heartbeat"}}, metav1.ConditionUnknown, clusterv1.MachineNodeReadyUnknownReason, "* Node.Ready: no heartbeat"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := metav1.Condition{Type: clusterv1.MachineNodeReadyCondition, Status: test.status, Reason: test.reason, Message: test.message}
			if diff := cmp.Diff(want, nodeReady(nodeWith(test.reported), time.Now())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNodeReadyKeepsTheTimeOfTheNode(t *testing.T) {
	t.Parallel()
	node := nodeWith(map[corev1.NodeConditionType][2]string{corev1.NodeReady: {"True"}})
	node.Status.Conditions[0].LastTransitionTime = metav1.NewTime(epoch)
	if got := nodeReady(node, epoch).LastTransitionTime; !got.Time.Equal(epoch) {
		t.Errorf("it turned at %s, want %s", got, epoch)
	}
}

func TestNodeAbsent(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for name, test := range map[string]struct {
		change func(*state)
		status metav1.ConditionStatus
		reason string
	}{
		"waits for the infrastructure to name the machine": {func(*state) {}, metav1.ConditionUnknown, clusterv1.MachineNodeInspectionFailedReason},
		"waits for a Node with the providerID": {func(s *state) {
			s.machine.Spec.ProviderID, s.node.err = "sim://1", notFound
		}, metav1.ConditionUnknown, clusterv1.MachineNodeInspectionFailedReason},
		"finds that a Node has existed": {func(s *state) {
			s.machine.Spec.ProviderID, s.machine.Status.NodeRef.Name, s.node.err = "sim://1", "n", notFound
		}, metav1.ConditionFalse, clusterv1.MachineNodeDeletedReason},
		"does not miss a Node that never was while deleting": {func(s *state) {
			s.machine.DeletionTimestamp, s.machine.Spec.ProviderID, s.node.err = &now, "sim://1", notFound
		}, metav1.ConditionUnknown, clusterv1.MachineNodeDoesNotExistReason},
		"reports two Nodes with one providerID as an error": {func(s *state) {
			s.machine.Spec.ProviderID, s.machine.Status.NodeRef.Name, s.node.err = "sim://1", "n", errDuplicateNodes
		}, metav1.ConditionUnknown, clusterv1.MachineNodeInternalErrorReason},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &state{machine: &clusterv1.Machine{}}
			test.change(s)
			got := nodeAbsent(s)
			if got.Status != test.status || got.Reason != test.reason || got.Message == "" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestHostThatDoesNotJoinExplainsItself: what the provider knows about the host is where the user looks first.
func TestHostThatDoesNotJoinExplainsItself(t *testing.T) {
	t.Parallel()
	const problem = "the bootstrap failed in the step Downloads"
	for status, want := range map[string]bool{"False": true, "Unknown": true, "True": false} {
		infra := &contract.InfraMachine{}
		infra.Unstructured = &unstructured.Unstructured{Object: map[string]any{
			"kind": "AWSMachine",
			"status": map[string]any{"conditions": []any{
				map[string]any{"type": "Ready", "status": "True"},
				map[string]any{"type": "HostJoined", "status": status, "reason": "BootstrapFailed", "message": problem},
			}},
		}}
		s := &state{machine: &clusterv1.Machine{}, infra: observed[contract.InfraMachine]{object: infra}}
		s.machine.Spec.ProviderID, s.node.err = "aws:///a/i-1", notFound
		s.machine.Status.Initialization.InfrastructureProvisioned = new(true)
		if got := nodeAbsent(s).Message; strings.HasSuffix(got, "to exist. AWSMachine: "+problem) != want {
			t.Errorf("with HostJoined %s the message is %q", status, got)
		}
	}
}

func TestDisconnectedKeepsTheConditionsForTheGracePeriod(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	const grace = 5 * time.Minute
	for name, test := range map[string]struct {
		known bool
		state workload.State
		left  time.Duration
		kept  bool
	}{
		"keeps it since the last successful probe":      {true, workload.State{LastProbeSuccess: now.Add(-time.Minute), DisconnectedSince: now}, 4 * time.Minute, true},
		"keeps it since this process began to try":      {true, workload.State{DisconnectedSince: now.Add(-2 * time.Minute)}, 3 * time.Minute, true},
		"gives it up after the grace period":            {true, workload.State{LastProbeSuccess: now.Add(-grace), Message: "refused"}, 0, false},
		"gives it up when there never was a connection": {true, workload.State{}, 0, false},
		"has nothing to keep":                           {false, workload.State{LastProbeSuccess: now, Message: "refused"}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &clusterv1.Machine{Spec: clusterv1.MachineSpec{ProviderID: "sim://1"}}
			if test.known {
				setNodeReadyAndHealthy(m, metav1.Condition{Status: metav1.ConditionTrue, Reason: clusterv1.MachineNodeHealthyReason})
			}
			r := &Reconciler{RemoteConditionsGracePeriod: grace}
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{UID: "c-uid"}}
			cluster.Status.Initialization.ControlPlaneInitialized = new(true)
			result := r.setNodeConditions(&state{machine: m, cluster: cluster, connection: test.state}, now)
			if result.RequeueAfter != test.left {
				t.Errorf("looks again after %s, want %s", result.RequeueAfter, test.left)
			}
			for _, kind := range []string{clusterv1.MachineNodeReadyCondition, clusterv1.MachineNodeHealthyCondition} {
				want := clusterv1.MachineNodeConnectionDownReason
				if test.kept {
					want = clusterv1.MachineNodeHealthyReason
				}
				if got := conditions.GetReason(m, kind); got != want {
					t.Errorf("%s has reason %q, want %q", kind, got, want)
				}
			}
		})
	}
}

func TestNothingIsReportedBeforeTheControlPlaneIsInitialized(t *testing.T) {
	t.Parallel()
	m := &clusterv1.Machine{Spec: clusterv1.MachineSpec{ProviderID: "sim://1"}}
	s := &state{machine: m, cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{UID: "c-uid"}}, connection: workload.State{Message: "refused"}}
	for _, passed := range []time.Duration{0, time.Hour} { // nor does it change with time
		result := (&Reconciler{RemoteConditionsGracePeriod: time.Minute}).setNodeConditions(s, epoch.Add(passed))
		want := condition{"Unknown", clusterv1.MachineNodeInspectionFailedReason,
			"Waiting for Cluster control plane to be initialized. Not connected to the workload cluster: refused"}
		if got := conditionOf(m, clusterv1.MachineNodeHealthyCondition); got != want || result.RequeueAfter != 0 {
			t.Errorf("got %v and %v, want %v", got, result, want)
		}
	}
}

// TestNodeOfAnotherInstanceIsNamed: the host may not register while it exists, so that it comes before what the host says.
func TestNodeOfAnotherInstanceIsNamed(t *testing.T) {
	t.Parallel()
	const waiting = "Waiting for a Node with spec.providerID sim://1 to exist"
	const taken = waiting + `. Node "m" exists with spec.providerID "sim://2", which is another instance, so the host may not register: delete that Node if it is left over`
	const address = "10.0.0.1"
	live := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for name, test := range map[string]struct {
		node, providerID, want string
		status                 corev1.NodeStatus
	}{
		"by the name of the Machine":        {node: "m", providerID: "sim://2", want: taken},
		"by a name of the host":             {node: "ip-10-0-0-1.internal", providerID: "sim://2", want: waiting + `. Node "ip-10-0-0-1.internal" exists with spec.providerID "sim://2", which is another instance, so the host may not register: delete that Node if it is left over`},
		"not one without a providerID":      {node: "m", want: waiting},
		"not one of its own":                {node: "m", providerID: "sim://1", want: waiting},
		"not one with an address as a name": {node: address, providerID: "sim://2", want: waiting},
		"by another address":                {node: "m", providerID: "sim://2", want: taken, status: corev1.NodeStatus{Conditions: live, Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.2"}}}},
		"by a kubelet that is gone":         {node: "m", providerID: "sim://2", want: taken, status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}}},
		"unless it is its own host": {node: "m", providerID: "sim://2", status: corev1.NodeStatus{Conditions: live, Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}},
			want: waiting + `. Node "m" exists with spec.providerID "sim://2", and is ready with an address of this Machine: its host has registered under another providerID. Correct what sets that, the kubelet, a cloud controller manager or a Node that was left over; then drain and delete that Node, and delete this Machine`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
			m.Spec.ProviderID, m.Status.Initialization.InfrastructureProvisioned = "sim://1", new(true)
			m.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: address}, {Type: clusterv1.MachineInternalDNS, Address: "ip-10-0-0-1.internal"}}
			s := &state{machine: m}
			s.node.err = notFound
			s.namesake = namesakeOf(m, func(name string) (*corev1.Node, bool) {
				return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: test.providerID}, Status: test.status}, name == test.node
			})
			if got := nodeAbsent(s).Message; got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
