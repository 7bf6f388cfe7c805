// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"strings"
	"testing"
	"time"

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

// TestUnhealthyNodeThatIsNotReplaced is promised no replacement while its MachineHealthCheck declines it.
func TestUnhealthyNodeThatIsNotReplaced(t *testing.T) {
	t.Parallel()
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h"}}
	check.Spec.ClusterName, check.Spec.Selector.MatchLabels = "c", map[string]string{"app": "web"}
	allowing := check.DeepCopy()
	check.Status.Conditions = []metav1.Condition{is(droverpolicyv1.FailureDomainsHealthyCondition, "False", droverpolicyv1.FailureDomainDownReason, "")}
	for _, kind := range []string{clusterv1.MachineNodeHealthyCondition, clusterv1.MachineNodeReadyCondition} {
		m := machine("m", is(kind, "False", map[string]string{
			clusterv1.MachineNodeHealthyCondition: clusterv1.MachineNodeNotHealthyReason, clusterv1.MachineNodeReadyCondition: clusterv1.MachineNodeNotReadyReason,
		}[kind], ""), is(clusterv1.MachineHealthCheckSucceededCondition, "False", clusterv1.MachineHealthCheckUnhealthyNodeReason, "it is not replaced now"))
		m.Labels["app"] = "web"
		for want, check := range map[string]*clusterv1.MachineHealthCheck{"MachineHealthCheck h does not replace the Machine now": check, reason.HealthCheckReplaces: allowing} {
			found, err := finder(t, nil, m, cluster(), check).machine(t.Context(), m)
			if err != nil || found.Condition.Type != kind || !strings.HasSuffix(found.Help, want) {
				t.Errorf("%s: got %+v, error %v", kind, found, err)
			}
		}
	}
}

// TestHostThatAHealthCheckHasGivenUp needs action before the time of a creation has passed, unless it is replaced.
func TestHostThatAHealthCheckHasGivenUp(t *testing.T) {
	t.Parallel()
	booting := is(clusterv1.MachineNodeHealthyCondition, "Unknown", clusterv1.MachineNodeInspectionFailedReason, "")
	booting.LastTransitionTime = ago(20 * time.Minute)
	timedOut := is(clusterv1.MachineHealthCheckSucceededCondition, "False", clusterv1.MachineHealthCheckNodeStartupTimeoutReason, "it is not replaced now")
	requested := is(clusterv1.MachineOwnerRemediatedCondition, "False", clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, "")
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		want       reason.Actor
	}{
		"boots":           {[]metav1.Condition{booting}, reason.Drover},
		"is given up":     {[]metav1.Condition{booting, timedOut}, reason.Operator},
		"is replaced now": {[]metav1.Condition{booting, timedOut, requested}, reason.Drover},
	} {
		m := machine("m", test.conditions...)
		if found, err := finder(t, nil, m, cluster()).machine(t.Context(), m); err != nil || found.Actor != test.want {
			t.Errorf("%s: got %+v, error %v", name, found, err)
		}
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

// TestHealthChecksOfAClusterThatIsNotReady evaluate no Machine, so that none is replaced, although nothing else waits for the Cluster.
func TestHealthChecksOfAClusterThatIsNotReady(t *testing.T) {
	t.Parallel()
	provisioned := cluster(is(clusterv1.ClusterInfrastructureReadyCondition, "False", "LoadBalancerFailed", "no backend"))
	provisioned.Status.Initialization.InfrastructureProvisioned = new(true)
	silent := is(clusterv1.MachineNodeHealthyCondition, "Unknown", clusterv1.MachineNodeHealthUnknownReason, "")
	notReady := is(clusterv1.MachineNodeReadyCondition, "False", clusterv1.MachineNodeNotReadyReason, "")
	unhealthy := is(clusterv1.MachineHealthCheckSucceededCondition, "False", clusterv1.MachineHealthCheckUnhealthyMachineReason, "")
	marked := is(clusterv1.MachineOwnerRemediatedCondition, "False", clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, "")
	const fact = "No MachineHealthCheck evaluates Machines while the condition InfrastructureReady of Cluster c is False (LoadBalancerFailed): no backend"
	annotated := map[string]string{clusterv1.RemediateMachineAnnotation: ""}
	for name, test := range map[string]struct {
		cluster     *clusterv1.Cluster
		conditions  []metav1.Condition
		annotations map[string]string
		named       bool
		promised    bool
		actor       reason.Actor
	}{
		"with a Node that does not report":        {provisioned, []metav1.Condition{silent}, nil, true, false, reason.CloudOwner},
		"with a Node that is not ready":           {provisioned, []metav1.Condition{notReady}, nil, true, false, reason.WorkloadAdmin},
		"with a Machine that was found unhealthy": {provisioned, []metav1.Condition{unhealthy}, nil, true, false, reason.Operator},
		"but for one that is being replaced":      {provisioned, []metav1.Condition{silent, marked}, nil, false, false, reason.Drover},
		"but for one that a user wants replaced":  {provisioned, []metav1.Condition{unhealthy}, annotated, false, true, reason.Drover},
		"unless the Cluster is ready":             {cluster(), []metav1.Condition{silent}, nil, false, true, reason.CloudOwner},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := ofDeployment(machine("m", test.conditions...))
			m.Annotations = test.annotations
			f := finder(t, nil, m, deployment(is("Other", "True", "Other", "")), test.cluster)
			for name, kind := range map[string]object.Kind{"m": object.Machine, "md": object.MachineDeployment} {
				answer, err := f.Answer(t.Context(), kind, key(name))
				found := answer.Finding
				if err != nil || found == nil || found.Object.String() != "Machine m" || found.Actor != test.actor || slices.Contains(found.Facts, fact) != test.named {
					t.Fatalf("%s: got %+v, error %v", name, found, err)
				}
				promised := strings.Contains(found.Help, reason.HealthCheckReplaces) || strings.Contains(found.Help, "has it replaced")
				if promised != test.promised {
					t.Errorf("%s: help %q", name, found.Help)
				}
			}
		})
	}
}

// TestHealthCheckOfAClusterThatIsNotReady waits for the Cluster, unless that is being deleted.
func TestHealthCheckOfAClusterThatIsNotReady(t *testing.T) {
	t.Parallel()
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h"}}
	check.Spec.ClusterName = "c"
	check.Status.Conditions = []metav1.Condition{is(clusterv1.MachineHealthCheckRemediationAllowedCondition, "True", clusterv1.MachineHealthCheckRemediationAllowedReason, "")}
	notReady := is(clusterv1.ClusterInfrastructureReadyCondition, "False", "LoadBalancerFailed", "")
	gone := cluster(notReady)
	gone.DeletionTimestamp, gone.Finalizers = new(ago(time.Hour)), []string{clusterv1.ClusterFinalizer}
	for name, test := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"waits for its infrastructure":           {[]client.Object{cluster(notReady)}, notReady.Type},
		"waits for its connection":               {[]client.Object{cluster(unconnected)}, unconnected.Type},
		"does not wait for its control plane":    {[]client.Object{cluster(is(clusterv1.ClusterControlPlaneAvailableCondition, "False", "X", ""))}, ""},
		"does not wait for one that is deleted":  {[]client.Object{gone}, ""},
		"does not wait for one that is ready":    {[]client.Object{cluster()}, ""},
		"does not wait for one that is not read": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := finder(t, nil, append(test.objects, check)...).Answer(t.Context(), object.MachineHealthCheck, key("h"))
			got := ""
			if answer.Finding != nil {
				got = answer.Finding.Condition.Type
			}
			if err != nil || got != test.want || got != "" && !slices.Equal(answer.Finding.Facts, []string{"Until then, no MachineHealthCheck evaluates its Machines"}) {
				t.Errorf("got %+v, error %v", answer.Finding, err)
			}
		})
	}
}
