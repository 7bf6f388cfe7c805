// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"drover.io/machine-controller/internal/health"
	"drover.io/machine-controller/internal/testenv"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	type summary struct{ allowed, zones, exclusive string }
	decided := func(d health.Decision) func(*state) {
		return func(s *state) { s.decision, s.decided = d, true }
	}
	for name, test := range map[string]struct {
		change func(*state)
		want   summary
		parts  []string // of the message of RemediationAllowed
		// healthy and remediations are 9 before.
		healthy, remediations int32
	}{
		"allows remediation": {decided(health.Decision{Healthy: 2, Allowed: 1}),
			summary{"True RemediationAllowed", "True FailureDomainsHealthy", "True TargetsExclusive"}, nil, 2, 1},
		"reports an invalid spec": {func(s *state) { s.specError, s.overlapping = errors.New("spec.selector: it is empty"), nil },
			summary{"False InvalidSpec", "", ""}, []string{"spec.selector"}, 9, 0},
		"reports a missing connection": {func(s *state) { s.disconnected = "Not connected to the workload cluster yet" },
			summary{"False NotConnected", "", "True TargetsExclusive"}, []string{"Not connected to the workload cluster yet"}, 9, 0},
		"keeps all while the cache is stale": {func(s *state) { s.stale, s.overlapping = true, nil }, summary{}, nil, 9, 9},
		"reports the trigger": {func(s *state) {
			s.check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = new(intstr.FromString("40%"))
			decided(health.Decision{Restricted: true, Unhealthy: 2, Expected: 2})(s)
		}, summary{"False TooManyUnhealthy", "True FailureDomainsHealthy", "True TargetsExclusive"},
			[]string{"2 of 2", "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo 40%", clusterv1.MachineSkipRemediationAnnotation}, 0, 0},
		"reports the budget": {func(s *state) {
			s.groups = map[string]*group{"MachineDeployment d": {limit: 3}}
			decided(health.Decision{Full: []string{"MachineDeployment d"}})(s)
		}, summary{"False ReplacementBudgetUsed", "True FailureDomainsHealthy", "True TargetsExclusive"}, []string{"3 of MachineDeployment d"}, 0, 0},
		"reports failure domains that are down": {decided(health.Decision{Zones: []string{"a", "b"}}),
			summary{"True RemediationAllowed", "False FailureDomainDown", "True TargetsExclusive"}, nil, 0, 0},
		"reports overlapping checks": {func(s *state) {
			s.overlapping = map[string][]string{"z": {"m-0"}, "a": {"m-1", "m-2"}}
			decided(health.Decision{})(s)
		}, summary{"True RemediationAllowed", "True FailureDomainsHealthy", "False TargetsOverlap"}, nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &state{check: newCheck("ns", "check"), cluster: &clusterv1.Cluster{}, overlapping: map[string][]string{}}
			s.check.Status.CurrentHealthy, s.check.Status.RemediationsAllowed = new(int32(9)), new(int32(9))
			for _, name := range []string{"m-0", "m-1"} {
				s.targets = append(s.targets, testenv.Machine("ns", name))
			}
			test.change(s)
			setStatus(s)
			of := func(kind string) string {
				if c := conditions.Get(s.check, kind); c != nil {
					return string(c.Status) + " " + c.Reason
				}
				return ""
			}
			got := summary{of(clusterv1.MachineHealthCheckRemediationAllowedCondition), of(FailureDomainsHealthyCondition), of(TargetsExclusiveCondition)}
			if got != test.want {
				t.Errorf("conditions %+v, want %+v", got, test.want)
			}
			for _, part := range test.parts {
				if message := conditions.GetMessage(s.check, clusterv1.MachineHealthCheckRemediationAllowedCondition); !strings.Contains(message, part) {
					t.Errorf("message %q does not contain %q", message, part)
				}
			}
			if status := s.check.Status; *status.CurrentHealthy != test.healthy || *status.RemediationsAllowed != test.remediations {
				t.Errorf("%d are healthy and %d remediations allowed", *status.CurrentHealthy, *status.RemediationsAllowed)
			}
			if targets := s.check.Status.Targets; s.specError == nil && cmp.Diff([]string{"m-0", "m-1"}, targets) != "" {
				t.Errorf("targets %v", targets)
			}
		})
	}
}

func TestMessageOfOverlappingChecksIsSorted(t *testing.T) {
	t.Parallel()
	s := &state{check: newCheck("ns", "check"), overlapping: map[string][]string{"z": {"m-0"}, "a": {"m-1", "m-2"}}}
	setTargetsExclusive(s)
	if message := conditions.GetMessage(s.check, TargetsExclusiveCondition); !strings.Contains(message, "2 by a, 1 by z") {
		t.Errorf("message %q", message)
	}
}

func TestTargetsInStatusAreLimited(t *testing.T) {
	t.Parallel()
	s := &state{check: newCheck("ns", "check"), cluster: &clusterv1.Cluster{}}
	for n := range maxTargets + 1 {
		s.targets = append(s.targets, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("m-", n)}})
	}
	setStatus(s)
	if len(s.check.Status.Targets) != maxTargets || *s.check.Status.ExpectedMachines != maxTargets+1 {
		t.Errorf("%d targets of %d", len(s.check.Status.Targets), *s.check.Status.ExpectedMachines)
	}
}

func TestNewlyExternal(t *testing.T) {
	t.Parallel()
	machine := func(name string, owner types.UID) *clusterv1.Machine {
		m := testenv.Machine("ns", name)
		if owner != "" {
			m.OwnerReferences = []metav1.OwnerReference{{UID: owner, Controller: new(true)}}
		}
		return m
	}
	handedOver := machine("handed-over", "a")
	setWaitingForExternal(handedOver)
	s := &state{targets: []*clusterv1.Machine{machine("m-0", "b"), machine("m-1", "a"), machine("m-2", "b"), machine("m-3", ""), machine("healthy", "a"), handedOver}}
	s.decision.Remediate = map[string]bool{"m-0": true, "m-1": true, "m-2": true, "m-3": true, "handed-over": true}
	owners, chosen := s.newlyExternal()
	if diff := cmp.Diff([]types.UID{"b", "a", ""}, owners); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	got := map[types.UID]int{}
	for owner, machines := range chosen {
		got[owner] = len(machines)
	}
	if diff := cmp.Diff(map[types.UID]int{"a": 1, "b": 2, "": 1}, got); diff != "" {
		t.Errorf("Machines (-want +got):\n%s", diff)
	}
}
