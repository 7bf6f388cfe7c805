// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "drover.io/api/infrastructure/v1alpha1"
	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/api/reason"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/kubectl-drover/internal/object/objecttest"
)

// TestOverdueScaleUpKeepsTheAdvice of its Machine, as before it was overdue: nothing is there to roll back to.
func TestOverdueScaleUpKeepsTheAdvice(t *testing.T) {
	t.Parallel()
	const describe = "kubectl drover describe machinedeployment/md --namespace n"
	booting := failingIn("md", "a", infrav1.InstancePendingReason)
	booting.Status.Conditions[0].LastTransitionTime = ago(11 * time.Minute)
	failing := ofDeployment(machine("b", is(clusterv1.MachineNodeHealthyCondition, "False", clusterv1.MachineNodeNotHealthyReason, "")))
	failing.Status.NodeRef.Name = "b"
	for name, test := range map[string]struct {
		machine *clusterv1.Machine
		actor   reason.Actor
		help    string
		command string
		beside  []client.Object
	}{
		"of one without quota":          {failingIn("md", "a", infrav1.QuotaExceededReason), reason.CloudOwner, "raise the quota, or scale down", describe, nil},
		"of one whose instance is gone": {failingIn("md", "a", infrav1.InstanceMissingReason), reason.Operator, "delete the Machine", "kubectl delete machine.cluster.x-k8s.io a --namespace n", nil},
		"of a Node without providerID":  {ofDeployment(joining()), reason.Operator, "install the cloud controller manager", "kubectl annotate cluster.cluster.x-k8s.io c --namespace n drover.io/assign-provider-ids=true", nil},
		"beside a Node that fails":      {ofDeployment(joining()), reason.Operator, "install the cloud controller manager", "kubectl annotate cluster.cluster.x-k8s.io c --namespace n drover.io/assign-provider-ids=true", []client.Object{failing}},
		"but not where Drover goes on":  {booting, reason.Operator, "see what is awaited, and correct it", describe, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := deployment(is(droverpolicyv1.ProgressingCondition, "False", droverpolicyv1.ProgressDeadlineExceededReason, "No progress for 10m"),
				is(clusterv1.MachineDeploymentRollingOutCondition, "False", clusterv1.MachineDeploymentNotRollingOutReason, ""))
			f := finder(t, objecttest.Reader(t, interceptor.Funcs{}, nodeNamed("m", "")), append([]client.Object{md, test.machine, host(infrav1.KubeletNotJoinedReason), cluster()}, test.beside...)...)
			for kind, name := range map[*object.Kind]string{&object.MachineDeployment: "md", &object.Cluster: "c"} {
				answer, err := f.Answer(t.Context(), *kind, key(name))
				found := answer.Finding
				if err != nil || found == nil || found.Condition.Type != droverpolicyv1.ProgressingCondition || found.Actor != test.actor ||
					!strings.HasPrefix(found.Help, test.help) || found.Command != test.command {
					t.Errorf("%s: got %+v, error %v", kind.Kind, found, err)
				}
			}
		})
	}
}

// TestUndoOfADeletionBesideAHost is not offered: it ends neither.
func TestUndoOfADeletionBesideAHost(t *testing.T) {
	t.Parallel()
	md := deployment(is(droverpolicyv1.ProgressingCondition, "False", droverpolicyv1.ProgressDeadlineExceededReason, ""),
		is(clusterv1.MachineDeploymentRollingOutCondition, "True", clusterv1.MachineDeploymentRollingOutReason, ""))
	booting := failingIn("md", "b", infrav1.InstancePendingReason)
	booting.Status.Conditions[0].LastTransitionTime = ago(11 * time.Minute)
	ends := deletedIn("md", "a", clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason, "")
	answer, err := finder(t, nil, md, ends, booting, cluster()).Answer(t.Context(), object.MachineDeployment, key("md"))
	if err != nil || answer.Finding == nil || answer.Finding.Command != "kubectl drover describe machinedeployment/md --namespace n" {
		t.Errorf("got %+v, error %v", answer.Finding, err)
	}
}

// TestUndoBesideOtherMachines has a rollout to a new template without progress, and several Machines that are not well.
func TestUndoBesideOtherMachines(t *testing.T) {
	t.Parallel()
	const undo, describe = "kubectl drover rollout undo machinedeployment/md --namespace n", "kubectl drover describe machinedeployment/md --namespace n"
	current, old := is(clusterv1.MachineUpToDateCondition, "True", clusterv1.MachineUpToDateReason, ""), is(clusterv1.MachineUpToDateCondition, "False", clusterv1.MachineNotUpToDateReason, "")
	unready := func(name string, template metav1.Condition) *clusterv1.Machine {
		return ofDeployment(machine(name, template, is(clusterv1.MachineNodeHealthyCondition, "False", clusterv1.MachineNodeNotHealthyReason, "")))
	}
	booting := func(name string) *clusterv1.Machine {
		m := failingIn("md", name, infrav1.InstancePendingReason)
		m.Status.Conditions[0].LastTransitionTime = ago(11 * time.Minute)
		return m
	}
	draining := func(name string) *clusterv1.Machine {
		return deletedIn("md", name, clusterv1.MachineDeletingDrainingNodeReason, "Draining:\n* Pod a/b: waiting for completion")
	}
	toJoin := func(conditions ...metav1.Condition) *clusterv1.Machine {
		m := ofDeployment(joining())
		m.Status.Conditions = append(m.Status.Conditions, append(conditions, current)...)
		return m
	}
	unsynced := func(reason string) *clusterv1.Machine {
		return ofDeployment(machine("a", current, is(droverpolicyv1.NodeSyncedCondition, "False", reason, "")))
	}
	uncreated := ofDeployment(machine("n", current, is(clusterv1.MachineInfrastructureReadyCondition, "False", clusterv1.ObjectDoesNotExistReason, "")))
	uncreated.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "SimMachine", Name: "n"}
	uncreated.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "md-2", Controller: new(true)}}
	for name, test := range map[string]struct {
		machines []client.Object
		command  string
		actor    reason.Actor
		about    string
		nodes    []client.Object
	}{
		"is no help to an old one beside a drain":    {[]client.Object{draining("a"), unready("b", old)}, describe, reason.WorkloadAdmin, "Machine b", nil},
		"helps a new one before several old ones":    {[]client.Object{unready("a", old), unready("b", old), unready("c", current)}, undo, reason.Operator, "Machine c", nil},
		"is no help to a host that boots":            {[]client.Object{draining("a"), booting("b")}, describe, reason.Operator, "Machine b", nil},
		"is no help to a host that boots, in order":  {[]client.Object{booting("a"), draining("b")}, describe, reason.Operator, "Machine a", nil},
		"helps a new host before an old one":         {[]client.Object{unready("a", old), toJoin(), host(infrav1.BootstrapFailedReason)}, undo, reason.Operator, "SimMachine i", nil},
		"is no help to an old one beside a new host": {[]client.Object{unready("a", old), toJoin(), host(infrav1.JoinedReason)}, describe, reason.WorkloadAdmin, "Machine a", nil},
		"does not initialize a Node": {[]client.Object{toJoin(), host(infrav1.KubeletNotJoinedReason)},
			"kubectl annotate cluster.cluster.x-k8s.io c --namespace n drover.io/assign-provider-ids=true", reason.Operator, "Machine m", []client.Object{nodeNamed("m", "")}},
		"does not permit the first labels of a Node":            {[]client.Object{unsynced(droverpolicyv1.NodeInitializationRefusedReason)}, describe, reason.WorkloadAdmin, "Machine a", nil},
		"does not permit later labels of a Node":                {[]client.Object{unsynced(droverpolicyv1.NodeSyncRefusedReason)}, describe, reason.WorkloadAdmin, "Machine a", nil},
		"does not free the name of a Node":                      {[]client.Object{toJoin(), host(infrav1.KubeletNotJoinedReason)}, describe, reason.Operator, "Machine m", []client.Object{nodeNamed("m", "sim://other")}},
		"helps a host that registered under another providerID": {[]client.Object{toJoin(), host(infrav1.KubeletNotJoinedReason)}, undo, reason.Operator, "Machine m", []client.Object{registeredElsewhere()}},
		"does not raise a ResourceQuota of instances":           {[]client.Object{uncreated}, "kubectl describe resourcequota --namespace n", reason.Installer, "MachineSet md-2", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := finder(t, objecttest.Reader(t, interceptor.Funcs{}, test.nodes...), append(overdueRollout(), test.machines...)...).Answer(t.Context(), object.MachineDeployment, key("md"))
			found := answer.Finding
			if err != nil || found == nil || found.Command != test.command || found.Actor != test.actor || !strings.Contains(strings.Join(found.Facts, "|"), "of "+test.about+" is") {
				t.Errorf("got %+v, error %v", found, err)
			}
		})
	}
}

// overdueRollout is a MachineDeployment without progress between two MachineSets with a Machine each, and its Cluster.
func overdueRollout() []client.Object {
	md := deployment(is(droverpolicyv1.ProgressingCondition, "False", droverpolicyv1.ProgressDeadlineExceededReason, ""),
		is(clusterv1.MachineDeploymentRollingOutCondition, "True", clusterv1.MachineDeploymentRollingOutReason, ""))
	md.UID, md.Annotations, md.Spec.Template.Spec.Version = "uid", map[string]string{clusterv1.RevisionAnnotation: "2"}, "v1.36.2"
	objects := []client.Object{md, cluster()}
	for revision, version := range map[string]string{"1": "v1.36.1", "2": "v1.36.2"} {
		s := setNamed("md-"+revision, is(clusterv1.ScalingUpCondition, "True", clusterv1.ScalingUpReason, `creating SimMachine "n": simmachines is forbidden: exceeded quota: q`))
		s.Annotations = map[string]string{clusterv1.RevisionAnnotation: revision}
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineDeployment", Name: "md", UID: "uid", Controller: new(true)}}
		s.Spec.Template.Spec.Version, s.Status.Replicas = version, new(int32(1))
		objects = append(objects, s)
	}
	return objects
}

// TestUndoIsMentioned where the cause may be the new template, but is more likely of the cloud or the workload cluster.
func TestUndoIsMentioned(t *testing.T) {
	t.Parallel()
	const mention = ", or roll back if the new template is the cause"
	failing := func(reason string, changes ...func(*clusterv1.Machine)) []client.Object {
		m := failingIn("md", "a", reason)
		for _, change := range changes {
			change(m)
		}
		return []client.Object{m}
	}
	ran := func(m *clusterv1.Machine) { m.Status.Initialization.InfrastructureProvisioned = new(true) }
	old := func(m *clusterv1.Machine) {
		m.Status.Conditions = append(m.Status.Conditions, is(clusterv1.MachineUpToDateCondition, "False", clusterv1.MachineNotUpToDateReason, ""))
	}
	inDeletion := func(m *clusterv1.Machine) {
		m.DeletionTimestamp, m.Finalizers = new(ago(time.Minute)), []string{clusterv1.MachineFinalizer}
	}
	withoutNode := []client.Object{ofDeployment(joining()), host(infrav1.KubeletNotJoinedReason)}
	available := func(_ *clusterv1.MachineDeployment, newest *clusterv1.MachineSet) {
		newest.Status.AvailableReplicas = new(int32(1))
	}
	rollbackFailed := func(md *clusterv1.MachineDeployment, _ *clusterv1.MachineSet) {
		md.Status.Conditions = append(md.Status.Conditions, is(droverpolicyv1.RolledBackCondition, "False", droverpolicyv1.RevisionNotKeptReason, ""))
	}
	for name, test := range map[string]struct {
		machines []client.Object
		nodes    []client.Object
		change   func(md *clusterv1.MachineDeployment, newest *clusterv1.MachineSet)
		want     bool
	}{
		"beside an error of the cloud":             {failing(infrav1.CloudErrorReason), nil, nil, true},
		"beside an instance that others stopped":   {failing(infrav1.InstanceStoppedReason, ran), nil, nil, true},
		"beside an instance that others deleted":   {failing(infrav1.InstanceMissingReason, ran), nil, nil, true},
		"beside a Node without a providerID":       {withoutNode, []client.Object{nodeNamed("m", "")}, nil, true},
		"beside a Node with another providerID":    {withoutNode, []client.Object{nodeNamed("m", "sim://other")}, nil, true},
		"not where a new Machine is available":     {failing(infrav1.CloudErrorReason), nil, available, false},
		"not where the last rollback failed":       {failing(infrav1.CloudErrorReason), nil, rollbackFailed, false},
		"not for an old Machine":                   {failing(infrav1.CloudErrorReason, old), nil, nil, false},
		"not for a Machine in deletion":            {failing(infrav1.CloudErrorReason, inDeletion), nil, nil, false},
		"not beside an instance that is evicted":   {failing(infrav1.EvictionRequestedReason), nil, nil, false},
		"not beside an InfraMachine that is gone":  {failing(clusterv1.ObjectDeletedReason), nil, nil, false},
		"not beside credentials that were refused": {failing(infrav1.UnauthorizedReason), nil, nil, false},
	} {
		all := overdueRollout()
		md := all[0].(*clusterv1.MachineDeployment)
		for _, o := range all {
			if set, ok := o.(*clusterv1.MachineSet); ok && test.change != nil && set.Annotations[clusterv1.RevisionAnnotation] == "2" {
				test.change(md, set)
			}
		}
		f := finder(t, objecttest.Reader(t, interceptor.Funcs{}, test.nodes...), append(all, test.machines...)...)
		answer, err := f.Answer(t.Context(), object.MachineDeployment, key("md"))
		if err != nil || answer.Finding == nil || strings.Contains(answer.Finding.Help, mention) != test.want {
			t.Errorf("%s: got %+v, error %v", name, answer.Finding, err)
		}
	}
}
