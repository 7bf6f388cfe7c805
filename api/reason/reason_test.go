// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package reason

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestEveryEntryIsComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, e := range All() {
		key := fmt.Sprintf("%s %s %s", e.Kind, e.Condition, e.Reason)
		if seen[key] {
			t.Errorf("%s is there twice", key)
		}
		seen[key] = true
		if e.Meaning == "" || e.Actor == "" || len(e.Statuses) == 0 {
			t.Errorf("%s lacks its meaning, actor or status: %+v", key, e)
		}
		for _, status := range e.Statuses {
			if !slices.Contains([]metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}, status) {
				t.Errorf("%s has the status %q", key, status)
			}
		}
		if !e.Fine() && e.Actor != Drover && e.Help == "" {
			t.Errorf("%s says that %s must act, and not how", key, e.Actor)
		}
		for _, text := range []string{e.Meaning, e.Help} {
			if strings.ContainsAny(text, "|\n") || strings.HasSuffix(text, ".") {
				t.Errorf("%s has the text %q, which does not fit into a cell of a table", key, text)
			}
		}
		if deletion := regexp.MustCompile(`^kubectl delete|delete \w+ Machine\b`); !strings.Contains(e.Help, DeleteMachine) && deletion.MatchString(e.Command+"\n"+e.Help) {
			t.Errorf("%s has Machines deleted in other words than %q", key, DeleteMachine)
		}
		if e.Command != "" && !strings.HasPrefix(e.Command, "kubectl ") {
			t.Errorf("%s has the command %q", key, e.Command)
		}
	}
}

// TestLogsAreOfHostsWithoutANode: once a host has joined, its console is not read any more.
func TestLogsAreOfHostsWithoutANode(t *testing.T) {
	t.Parallel()
	for _, e := range All() {
		node := e.Condition == clusterv1.MachineNodeReadyCondition || e.Condition == clusterv1.MachineNodeHealthyCondition
		if node && e.Reason != clusterv1.MachineNodeInspectionFailedReason && strings.HasPrefix(e.Command, "kubectl drover logs ") {
			t.Errorf("%s %s has the command %q", e.Condition, e.Reason, e.Command)
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind, condition, reason string
		want                    string
	}{
		"finds the reason of a kind":                             {"Cluster", "ManagementClaimed", "ClaimedElsewhere", "Cluster"},
		"finds the machine of a cloud":                           {"AWSMachine", "Ready", "QuotaExceeded", InfraMachine},
		"finds the machine template of a cloud":                  {"SimMachineTemplate", "Ready", "Valid", InfraMachineTemplate},
		"finds what a Machine mirrors from its BootstrapConfig":  {"Machine", "BootstrapConfigReady", "WaitingForProfile", "BootstrapConfig"},
		"finds what a Machine mirrors from its InfraMachine":     {"Machine", "InfrastructureReady", "QuotaExceeded", InfraMachine},
		"prefers the Machine's own reason over one it mirrors":   {"Machine", "InfrastructureReady", "ObjectDeleted", "Machine"},
		"does not take the Machine of Cluster API for a cloud's": {"Machine", "Ready", "InstanceMissing", ""},
		"does not find what another condition has":               {"Machine", "NodeReady", "DrainingNode", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entry, found := Find(test.kind, test.condition, test.reason)
			if entry.Kind != test.want || found != (test.want != "") {
				t.Errorf("got the entry of %q, found %t", entry.Kind, found)
			}
		})
	}
}
