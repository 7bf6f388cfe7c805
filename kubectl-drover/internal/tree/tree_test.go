// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestGroupsAreFew has 5,000 Machines, each with a long message of its own, as with the identifier of a request to a cloud. What
// is kept, and printed, is bounded by the reasons, and the names of all are there.
func TestGroupsAreFew(t *testing.T) {
	t.Parallel()
	const machines, size = 5000, 10 << 10
	g := &group{}
	for i := range machines {
		m := &clusterv1.Machine{}
		m.Name, m.Status.Phase = fmt.Sprintf("m-%04d", i), "Provisioning"
		m.Status.Conditions = []metav1.Condition{{
			Type: clusterv1.MachineInfrastructureReadyCondition, Status: metav1.ConditionFalse, Reason: "CloudError",
			Message: fmt.Sprintf("request %x failed: %s", i*7919, strings.Repeat("x", size)),
		}}
		g.add(m)
	}
	names, bytes := 0, 0
	for _, item := range g.sorted() {
		names += len(item.Names)
		bytes += len(item.Problem.Message)
	}
	if len(g.items) != maxMessages+1 || names != machines || bytes > (maxMessages+1)*(size+100) {
		t.Errorf("%d groups with %d Machines and messages of %d bytes", len(g.items), names, bytes)
	}
	if message := g.sorted()[0].Problem.Message; !strings.HasPrefix(message, "different messages, as: request ") {
		t.Errorf("the largest group has the message %.60q", message)
	}
}

// TestMessagesAboutOneMachineAreOneGroup has messages that differ in names alone.
func TestMessagesAboutOneMachineAreOneGroup(t *testing.T) {
	t.Parallel()
	g := &group{}
	for i := range 20 {
		m := &clusterv1.Machine{}
		m.Name, m.Status.Phase = fmt.Sprintf("m-%d", i), "Provisioned"
		m.Status.Conditions = []metav1.Condition{{
			Type: clusterv1.MachineInfrastructureReadyCondition, Status: metav1.ConditionFalse, Reason: "CloudError", Message: "server " + m.Name + " fails",
		}}
		g.add(m)
	}
	if len(g.items) != 1 || len(g.items[0].Names) != 20 {
		t.Errorf("%d groups", len(g.items))
	}
}

// TestPhaseOfADeletionThatNobodyHasBegun has a Machine that was deleted while it is paused: its status is an old one.
func TestPhaseOfADeletionThatNobodyHasBegun(t *testing.T) {
	t.Parallel()
	for phaseOfStatus, want := range map[string]string{"Running": "Deleting", "Deleted": "Deleted"} {
		m := &clusterv1.Machine{}
		m.DeletionTimestamp, m.Status.Phase = new(metav1.Now()), phaseOfStatus
		if got := phase(m); got != want {
			t.Errorf("%s: got %s, want %s", phaseOfStatus, got, want)
		}
	}
}
