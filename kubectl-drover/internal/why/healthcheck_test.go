// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/api/reason"
	"drover.io/kubectl-drover/internal/object"
)

// TestAnUnhealthyMachineThatIsNotReplaced asks about a Machine that a MachineHealthCheck finds unhealthy by a condition that
// Drover does not report.
func TestAnUnhealthyMachineThatIsNotReplaced(t *testing.T) {
	t.Parallel()
	check := func(name, cluster, app string, conditions ...metav1.Condition) *clusterv1.MachineHealthCheck {
		c := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}}
		c.Spec.ClusterName, c.Spec.Selector.MatchLabels, c.Status.Conditions = cluster, map[string]string{"app": app}, conditions
		return c
	}
	tooMany := is(clusterv1.MachineHealthCheckRemediationAllowedCondition, "False", clusterv1.MachineHealthCheckTooManyUnhealthyReason, "2 of 4 Machines are unhealthy")
	allowed := is(clusterv1.MachineHealthCheckRemediationAllowedCondition, "True", clusterv1.MachineHealthCheckRemediationAllowedReason, "")
	domainDown := is(droverpolicyv1.FailureDomainsHealthyCondition, "False", droverpolicyv1.FailureDomainDownReason, "No Machine in failure domain a is healthy")
	unhealthy := is(clusterv1.MachineHealthCheckSucceededCondition, "False", clusterv1.MachineHealthCheckUnhealthyNodeReason, "Node condition Broken is True")
	requested := is(clusterv1.MachineOwnerRemediatedCondition, "False", clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, "")
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		checks     []client.Object
		want       string
		actor      reason.Actor
	}{
		"waits for the check that has the limit":  {[]metav1.Condition{unhealthy}, []client.Object{check("a", "c", "web", tooMany)}, "MachineHealthCheck a", reason.Operator},
		"waits for its failure domain":            {[]metav1.Condition{unhealthy}, []client.Object{check("a", "c", "web", allowed, domainDown)}, "MachineHealthCheck a", reason.CloudOwner},
		"does not wait for a check of others":     {[]metav1.Condition{unhealthy}, []client.Object{check("a", "c", "db", tooMany), check("b", "d", "web", tooMany)}, "Machine m", reason.Drover},
		"is replaced by a check that permits it":  {[]metav1.Condition{unhealthy}, []client.Object{check("a", "c", "web", allowed)}, "Machine m", reason.Drover},
		"is being replaced in spite of the limit": {[]metav1.Condition{unhealthy, requested}, []client.Object{check("a", "c", "web", tooMany)}, "Machine m", reason.Drover},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := machine("m", test.conditions...)
			m.Labels["app"] = "web"
			answer, err := finder(t, nil, append(test.checks, m, cluster())...).Answer(t.Context(), object.Machine, key("m"))
			if err != nil || answer.Finding == nil || answer.Finding.Object.String() != test.want || answer.Finding.Actor != test.actor {
				t.Errorf("got %+v, error %v", answer.Finding, err)
			}
			if text := answer.Text(noon); strings.Count(text, unhealthy.Message) > 1 {
				t.Errorf("the same is written twice: %s", text)
			}
		})
	}
}

// TestHealthCheckWhoseReplacementsAreDeferred answers with what they wait for, and not that they continue.
func TestHealthCheckWhoseReplacementsAreDeferred(t *testing.T) {
	t.Parallel()
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h"}}
	check.Spec.ClusterName, check.Spec.Selector.MatchLabels = "c", map[string]string{"app": "web"}
	check.Status.Conditions = []metav1.Condition{is(clusterv1.MachineHealthCheckRemediationAllowedCondition, "False", droverpolicyv1.BudgetUsedReason, "1 of MachineDeployment md")}
	marked := func(app, reason string) *clusterv1.Machine {
		m := machine("m", is(clusterv1.MachineHealthCheckSucceededCondition, "False", clusterv1.MachineHealthCheckUnhealthyNodeReason, ""),
			is(clusterv1.MachineOwnerRemediatedCondition, "False", reason, "4 of 5 Machines are unhealthy"))
		m.Labels["app"] = app
		return m
	}
	const deferred = clusterv1.MachineSetMachineRemediationDeferredReason
	for name, test := range map[string]struct {
		machine *clusterv1.Machine
		want    string
		actor   reason.Actor
	}{
		"by too many unhealthy ones":       {marked("web", deferred), "Machine m", reason.Operator},
		"but not those that are under way": {marked("web", clusterv1.MachineOwnerRemediatedWaitingForRemediationReason), "MachineHealthCheck h", reason.Drover},
		"but not those of another check":   {marked("db", deferred), "MachineHealthCheck h", reason.Drover},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := finder(t, nil, check, test.machine, cluster()).Answer(t.Context(), object.MachineHealthCheck, key("h"))
			if err != nil || answer.Finding == nil || answer.Finding.Object.String() != test.want || answer.Finding.Actor != test.actor {
				t.Errorf("got %+v, error %v", answer.Finding, err)
			}
		})
	}
}
