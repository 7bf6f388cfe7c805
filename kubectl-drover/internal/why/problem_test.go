// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/api/reason"
	"drover.io/kubectl-drover/internal/object"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

func is(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: ago(time.Hour)}
}

// machine has the given conditions.
func machine(name string, conditions ...metav1.Condition) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: name, CreationTimestamp: ago(time.Hour), Labels: map[string]string{clusterv1.ClusterNameLabel: "c"},
	}}
	m.Spec.ClusterName, m.Status.Conditions = "c", conditions
	return m
}

// TestTheFirstCauseOfAMachineCounts has a Machine with everything wrong, and mends what is reported, one after another.
func TestTheFirstCauseOfAMachineCounts(t *testing.T) {
	t.Parallel()
	m := machine("m",
		is(clusterv1.MachineAvailableCondition, "False", "NotAvailable", ""), is(clusterv1.MachineReadyCondition, "False", "NotReady", ""),
		is(clusterv1.MachineHealthCheckSucceededCondition, "False", "UnhealthyNode", ""), is(clusterv1.MachineNodeReadyCondition, "False", "NodeNotReady", ""),
		is(clusterv1.MachineNodeHealthyCondition, "False", "NodeNotHealthy", ""), is(clusterv1.MachineInfrastructureReadyCondition, "False", "CloudError", ""),
		is(clusterv1.MachineBootstrapConfigReadyCondition, "False", "NotReady", ""), is(clusterv1.PausedCondition, "True", "Paused", ""))
	m.DeletionTimestamp = new(ago(time.Minute))
	var got []string
	for range 20 {
		found := Problem(m)
		if found == nil {
			break
		}
		if found.unreconciled {
			m.DeletionTimestamp, got = nil, append(got, found.Meaning)
			continue
		}
		got = append(got, found.Condition.Type)
		for i := range m.Status.Conditions {
			if c := &m.Status.Conditions[i]; c.Type == found.Condition.Type {
				c.Status = map[bool]metav1.ConditionStatus{true: "False", false: "True"}[c.Type == clusterv1.PausedCondition]
			}
		}
	}
	want := []string{"Paused", "no manager has acted on its deletion yet", "BootstrapConfigReady", "InfrastructureReady", "NodeHealthy", "NodeReady", "HealthCheckSucceeded", "Ready", "Available"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
}

// TestCommandsOfAMachine has the causes whose commands depend on more than the reason.
func TestCommandsOfAMachine(t *testing.T) {
	t.Parallel()
	deleting := func(reason string, annotations ...string) *clusterv1.Machine {
		m := machine("m", is(clusterv1.MachineDeletingCondition, "True", reason, ""))
		m.DeletionTimestamp, m.Annotations = new(ago(time.Minute)), map[string]string{}
		for _, key := range annotations {
			m.Annotations[key] = "owner"
		}
		return m
	}
	ofPlane := func(m *clusterv1.Machine) *clusterv1.Machine {
		m.Labels[clusterv1.MachineControlPlaneLabel] = ""
		return m
	}
	const drain, terminate = clusterv1.PreDrainDeleteHookAnnotationPrefix + "/a", clusterv1.PreTerminateDeleteHookAnnotationPrefix + "/b"
	for name, test := range map[string]struct {
		machine *clusterv1.Machine
		want    string
	}{
		"removes the one hook before the drain": {
			deleting(clusterv1.MachineDeletingWaitingForPreDrainHookReason, drain, terminate), "kubectl annotate machine.cluster.x-k8s.io m --namespace n " + drain + "-",
		},
		"removes the one hook before the instance is deleted": {
			deleting(clusterv1.MachineDeletingWaitingForPreTerminateHookReason, drain, terminate), "kubectl annotate machine.cluster.x-k8s.io m --namespace n " + terminate + "-",
		},
		"leaves the hook of a control plane to its provider": {ofPlane(deleting(clusterv1.MachineDeletingWaitingForPreTerminateHookReason, terminate)), ""},
		"does not choose between two hooks":                  {deleting(clusterv1.MachineDeletingWaitingForPreDrainHookReason, drain, drain+"2"), ""},
		"ends a pause of its own": {
			machine("m", is(clusterv1.PausedCondition, "True", clusterv1.PausedReason, "Machine has the cluster.x-k8s.io/paused annotation")),
			"kubectl annotate machine.cluster.x-k8s.io m --namespace n cluster.x-k8s.io/paused-",
		},
		"ends a pause of its Cluster": {
			machine("m", is(clusterv1.PausedCondition, "True", clusterv1.PausedReason, "Cluster spec.paused is set to true")),
			`kubectl patch cluster.cluster.x-k8s.io c --namespace n --type=merge -p '{"spec":{"paused":false}}'`,
		},
		"has none without its Cluster": {machine("m", is(clusterv1.MachineReadyCondition, "False", "NotReady", `Cluster "c" does not exist`)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if found := Problem(test.machine); found == nil || found.Command != test.want {
				t.Errorf("got %+v", found)
			}
		})
	}
}

// TestDeletionIsNoAdvice for a Machine whose instance runs and whose credentials are wrong, or that is being deleted already.
func TestDeletionIsNoAdvice(t *testing.T) {
	t.Parallel()
	const deletes = "kubectl delete machine.cluster.x-k8s.io m --namespace n"
	for name, test := range map[string]struct {
		reason                string
		provisioned, deleting bool
		want                  string
	}{
		"but for one that cannot be created":         {infrav1.InvalidConfigurationReason, false, false, deletes},
		"for one that ran":                           {infrav1.InvalidConfigurationReason, true, false, ""},
		"but for one that ran, and is gone":          {infrav1.InstanceMissingReason, true, false, deletes},
		"for one whose deletion cannot be continued": {infrav1.InvalidConfigurationReason, true, true, ""},
		"for one that is being deleted":              {infrav1.InstanceNotOwnedReason, false, true, ""},
		"for one that may be started":                {infrav1.InstanceStoppedReason, true, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := machine("m", is(clusterv1.MachineInfrastructureReadyCondition, "False", test.reason, "region: two of that name"))
			m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "SimMachine", Name: "i"}
			i := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "i", OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m", Controller: new(true),
			}}}}
			i.Status.Conditions = []metav1.Condition{is(clusterv1.ReadyCondition, "False", test.reason, "region: two of that name")}
			m.Status.Initialization.InfrastructureProvisioned, i.Status.Initialization.Provisioned = &test.provisioned, &test.provisioned
			if test.deleting {
				waits := deleted(clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason, "")
				m.DeletionTimestamp, m.Finalizers = waits.DeletionTimestamp, waits.Finalizers
				m.Status.Conditions = append(m.Status.Conditions, waits.Status.Conditions...)
				i.DeletionTimestamp, i.Finalizers = waits.DeletionTimestamp, []string{"infrastructure.drover.io/machine"}
				i.Status.Conditions[0].Message = "deleting instance: region: two of that name"
			}
			f := finder(t, nil, m, i, cluster())
			for name, kind := range map[string]object.Kind{"m": object.Machine, "i": {GroupVersionKind: infrav1.GroupVersion.WithKind("SimMachine"), Resource: "simmachines"}} {
				answer, err := f.Answer(t.Context(), kind, key(name))
				if err != nil || answer.Finding == nil || answer.Finding.Condition.Reason != test.reason || answer.Finding.Command != test.want {
					t.Errorf("%s: got %+v, error %v", kind.Kind, answer.Finding, err)
				}
			}
		})
	}
}

// TestMachineWithoutItsCluster has conditions that come later, too.
func TestMachineWithoutItsCluster(t *testing.T) {
	t.Parallel()
	m := machine("m", is(clusterv1.MachineBootstrapConfigReadyCondition, "False", "NotReady", ""), is(clusterv1.MachineReadyCondition, "Unknown", "InternalError", `Cluster "c" does not exist; create it`))
	if found := Problem(m); found == nil || found.Meaning != "its Cluster does not exist" || found.Help != "create the Cluster, or delete the Machine" {
		t.Errorf("got %+v", found)
	}
	m.Spec.ClusterName = "d"
	if found := Problem(m); found == nil || found.Condition.Type != clusterv1.MachineBootstrapConfigReadyCondition {
		t.Errorf("of another Cluster: %+v", found)
	}
}

// TestRemediationIsNamed has a Node that is not healthy, and what a MachineHealthCheck does about it.
func TestRemediationIsNamed(t *testing.T) {
	t.Parallel()
	unhealthy := is(clusterv1.MachineNodeHealthyCondition, "False", clusterv1.MachineNodeNotHealthyReason, "Node.Ready: x")
	checked := is(clusterv1.MachineHealthCheckSucceededCondition, "False", clusterv1.MachineHealthCheckUnhealthyNodeReason, "not ready for 5m")
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		facts      []string
		actor      reason.Actor
	}{
		"is not there without a MachineHealthCheck": {[]metav1.Condition{unhealthy}, nil, reason.WorkloadAdmin},
		"was found, and is not decided yet":         {[]metav1.Condition{unhealthy, checked}, []string{"A MachineHealthCheck found it unhealthy: not ready for 5m"}, reason.WorkloadAdmin},
		"replaces the Machine": {
			[]metav1.Condition{unhealthy, checked, is(clusterv1.MachineOwnerRemediatedCondition, "False", clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, "")},
			[]string{"A MachineHealthCheck found it unhealthy: the Machine is marked for replacement by its owner"}, reason.Drover,
		},
		"is left to another program": {
			[]metav1.Condition{checked, is(clusterv1.MachineExternallyRemediatedCondition, "False", clusterv1.MachineExternallyRemediatedRemediationTemplateNotFoundReason, "T x\nis gone")},
			[]string{"A MachineHealthCheck found it unhealthy: the template of the external remediation does not exist: T x; is gone"}, reason.Operator,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := Problem(machine("m", test.conditions...))
			if found == nil || found.Actor != test.actor {
				t.Fatalf("got %+v", found)
			}
			if diff := cmp.Diff(test.facts, found.Facts); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheFirstCauseOfAClusterCounts has what its workers wait for with it, before what they do not.
func TestTheFirstCauseOfAClusterCounts(t *testing.T) {
	t.Parallel()
	infra := is(clusterv1.ClusterInfrastructureReadyCondition, "False", clusterv1.NotReadyReason, "")
	elsewhere := is(droverpolicyv1.ManagementClaimedCondition, "False", droverpolicyv1.ClaimedElsewhereReason, "")
	notYet := is(droverpolicyv1.ManagementClaimedCondition, "Unknown", droverpolicyv1.NotClaimedYetReason, "")
	probe := is(clusterv1.ClusterRemoteConnectionProbeCondition, "False", clusterv1.ClusterRemoteConnectionProbeFailedReason, "")
	plane := is(clusterv1.ClusterControlPlaneAvailableCondition, "False", clusterv1.ClusterControlPlaneNotAvailableReason, "")
	annotation := is(droverpolicyv1.AnnotationsValidCondition, "False", "AnnotationsInvalid", "")
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		want       string
	}{
		"is that nothing was written":                     {nil, ""},
		"is a pause":                                      {[]metav1.Condition{infra, is(clusterv1.PausedCondition, "True", clusterv1.PausedReason, "")}, clusterv1.PausedCondition},
		"is the claim of another":                         {[]metav1.Condition{annotation, plane, probe, infra, elsewhere}, elsewhere.Type},
		"is the infrastructure":                           {[]metav1.Condition{annotation, plane, probe, notYet, infra}, infra.Type},
		"is the connection, without which there is claim": {[]metav1.Condition{annotation, plane, probe, notYet}, probe.Type},
		"is a claim that is awaited":                      {[]metav1.Condition{annotation, plane, notYet}, notYet.Type},
		"is the control plane":                            {[]metav1.Condition{annotation, plane}, plane.Type},
		"is an annotation":                                {[]metav1.Condition{annotation}, annotation.Type},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &clusterv1.Cluster{}
			c.Status.Conditions = test.conditions
			if found := ClusterProblem(c); found == nil || found.Condition.Type != test.want {
				t.Errorf("got %+v", found)
			}
		})
	}
}

// TestProblemOfADeployment has what concerns it as a whole, in order, and what its numbers are.
func TestProblemOfADeployment(t *testing.T) {
	t.Parallel()
	rolling := is(clusterv1.MachineDeploymentRollingOutCondition, "True", clusterv1.MachineDeploymentRollingOutReason, "")
	overdue := is(droverpolicyv1.ProgressingCondition, "False", "ProgressDeadlineExceeded", "")
	scaling := func(reason, message string) metav1.Condition {
		return is(clusterv1.ScalingUpCondition, "True", reason, message)
	}
	unavailable := is(clusterv1.AvailableCondition, "False", clusterv1.MachineDeploymentNotAvailableReason, "")
	frozen := is(droverpolicyv1.FrozenCondition, "True", "FrozenByAnnotation", "")
	invalid := is(droverpolicyv1.AnnotationsValidCondition, "False", "InvalidValue", "")
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		onDelete   bool
		want       string
		command    string
	}{
		"is a freeze before a refused rollback": {[]metav1.Condition{is(droverpolicyv1.RolledBackCondition, "False", "RevisionNotFound", ""), frozen, rolling}, false, droverpolicyv1.FrozenCondition, "?"},
		"is a refused rollback before a rollout": {
			[]metav1.Condition{rolling, is(droverpolicyv1.RolledBackCondition, "False", "RevisionNotFound", "")}, false, droverpolicyv1.RolledBackCondition, "?",
		},
		"is a quota": {
			[]metav1.Condition{rolling, scaling(droverpolicyv1.BlockedReason, "Scaling up is blocked: exceeded quota: machines")}, false, clusterv1.ScalingUpCondition, "kubectl describe resourcequota --namespace n",
		},
		"is not that Machines are pending":               {[]metav1.Condition{rolling, scaling(clusterv1.ScalingUpReason, "blocked by pending Machines")}, false, clusterv1.MachineDeploymentRollingOutCondition, "?"},
		"is that Machines are to be deleted by hand":     {[]metav1.Condition{rolling, overdue}, true, clusterv1.MachineDeploymentRollingOutCondition, "kubectl get machine.cluster.x-k8s.io --namespace n -l cluster.x-k8s.io/deployment-name=md"},
		"is that the last one is not replaced yet":       {[]metav1.Condition{rolling, scaling(clusterv1.ScalingUpReason, "")}, true, clusterv1.ScalingUpCondition, ""},
		"is a rollout without progress":                  {[]metav1.Condition{rolling, overdue}, false, droverpolicyv1.ProgressingCondition, "?"},
		"is no rollback where no rollout is under way":   {[]metav1.Condition{overdue}, false, droverpolicyv1.ProgressingCondition, "kubectl drover describe machinedeployment/md --namespace n"},
		"is an annotation before a rollout that goes on": {[]metav1.Condition{rolling, invalid}, false, droverpolicyv1.AnnotationsValidCondition, "?"},
		"is an annotation before a rollout by hand":      {[]metav1.Condition{rolling, invalid}, true, droverpolicyv1.AnnotationsValidCondition, "?"},
		"is a rollout without progress before that":      {[]metav1.Condition{rolling, overdue, invalid}, false, droverpolicyv1.ProgressingCondition, "?"},
		"is that too few are available":                  {[]metav1.Condition{unavailable}, false, clusterv1.AvailableCondition, "?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "md"}}
			md.Status.Conditions = test.conditions
			if test.onDelete {
				md.Spec.Rollout.Strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
			}
			found := DeploymentProblem(md)
			if found == nil || found.Condition.Type != test.want || test.command != "?" && found.Command != test.command {
				t.Errorf("got %+v", found)
			}
		})
	}
}

// TestPausedRolloutWaitsForTheOperator, with each strategy: nobody continues.
func TestPausedRolloutWaitsForTheOperator(t *testing.T) {
	t.Parallel()
	for _, strategy := range []clusterv1.MachineDeploymentRolloutStrategyType{clusterv1.RollingUpdateMachineDeploymentStrategyType, clusterv1.OnDeleteMachineDeploymentStrategyType} {
		md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "md"}}
		md.Spec.Paused, md.Spec.Rollout.Strategy.Type = new(true), strategy
		md.Status.Conditions = []metav1.Condition{is(clusterv1.MachineDeploymentRollingOutCondition, "True", clusterv1.MachineDeploymentRollingOutReason, "")}
		found := DeploymentProblem(md)
		if found == nil || found.Actor != reason.Operator || found.Command != "kubectl drover rollout resume machinedeployment/md --namespace n" {
			t.Errorf("%s: got %+v", strategy, found)
		}
		md.Status.Conditions = []metav1.Condition{is(clusterv1.MachineDeploymentRollingOutCondition, "False", clusterv1.MachineDeploymentNotRollingOutReason, "")}
		if found := DeploymentProblem(md); found != nil {
			t.Errorf("%s, without a rollout: got %+v", strategy, found)
		}
	}
}

// TestTextOfHostileConditions has a kind of another project, whose conditions may have any text in each field.
func TestTextOfHostileConditions(t *testing.T) {
	t.Parallel()
	const forged = "x)\n\n  kubectl delete namespace --all\x1b[2J"
	subject := Reference{"Thing", "n", "t", "'; rm -rf /"}
	found := byTable(subject, []metav1.Condition{{Type: "Ready", Status: "False\n\nx", Reason: forged, Message: strings.Repeat("long ", 200_000) + forged}})
	found.Facts, found.Others = []string{"fact\n\n  " + forged}, 1
	text := Answer{Object: subject, Finding: found, Notes: []string{forged}}.Text(noon)
	if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") || strings.Contains(text, "\x1b") {
		t.Errorf("%d lines: %.200q", strings.Count(text, "\n"), text)
	}
	if !strings.Contains(text, "One more object waits.") {
		t.Errorf("the others are not counted")
	}
}

// TestEveryReasonOfTheTableHasAText asks for the answer to each, and for a command without a blank.
func TestEveryReasonOfTheTableHasAText(t *testing.T) {
	t.Parallel()
	for _, entry := range reason.All() {
		ref := Reference{entry.Kind, "n", "x", "c"}
		found := of(ref, is(entry.Condition, entry.Statuses[0], entry.Reason, "message."))
		text := Answer{Object: ref, Finding: found}.Text(noon)
		if strings.ContainsAny(text, "{}") && !strings.Contains(text, `'{"`) ||
			strings.Contains(text, "..") && !strings.Contains(entry.Help+entry.Meaning, "..") || strings.Contains(text, "must act: .") {
			t.Errorf("%s %s %s: %s", entry.Kind, entry.Condition, entry.Reason, text)
		}
	}
}
