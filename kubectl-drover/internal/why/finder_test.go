// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/api/reason"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/kubectl-drover/internal/object/objecttest"
)

// finder reads the given objects; nil is a workload cluster that cannot be read.
func finder(t *testing.T, workload *object.Reader, objects ...client.Object) *Finder {
	t.Helper()
	return &Finder{Reader: objecttest.Reader(t, interceptor.Funcs{}, objects...), Now: noon, Workload: func(context.Context, client.ObjectKey) (*object.Reader, error) {
		if workload == nil {
			return nil, errors.New("refused")
		}
		return workload, nil
	}}
}

// cluster is connected, but for the conditions that are given.
func cluster(conditions ...metav1.Condition) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}}
	c.Status.Conditions = append(conditions, is("Other", "True", "Other", ""))
	return c
}

func key(name string) client.ObjectKey { return client.ObjectKey{Namespace: "n", Name: name} }

// deleted is a Machine whose deletion waits for something.
func deleted(reason, message string) *clusterv1.Machine {
	m := machine("m", is(clusterv1.MachineDeletingCondition, "True", reason, message))
	m.DeletionTimestamp, m.Finalizers = new(ago(time.Hour)), []string{clusterv1.MachineFinalizer}
	return m
}

var unconnected = is(clusterv1.ClusterRemoteConnectionProbeCondition, "False", clusterv1.ClusterRemoteConnectionProbeFailedReason, "")

// TestDeletionLooksAtTheInstance has a Machine that waits for its infrastructure machine.
func TestDeletionLooksAtTheInstance(t *testing.T) {
	t.Parallel()
	const waiting = clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason
	infra := func(conditions ...metav1.Condition) *infrav1.SimMachine {
		i := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "i"}}
		i.Status.Conditions = conditions
		return i
	}
	removed := func(before time.Duration) client.Object { // of a provider that does not say why it remains
		i := infra()
		i.DeletionTimestamp, i.Finalizers = new(ago(before)), []string{"infrastructure.drover.io/machine"}
		return i
	}
	says := func(before time.Duration, reason, message string) client.Object {
		i := removed(before).(*infrav1.SimMachine)
		i.Status.Conditions = []metav1.Condition{is("Ready", "False", reason, message)}
		return i
	}
	const ofRemoval = "deleting instance: x"
	config := func(before time.Duration) client.Object {
		b := &bootstrapv1.BootstrapConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "b"}}
		b.DeletionTimestamp, b.Finalizers = new(ago(before)), []string{"bootstrap.drover.io/config"}
		return b
	}
	const ofBootstrap = clusterv1.MachineDeletingWaitingForBootstrapDeletionReason
	ending := infra(is("Ready", "True", "Ready", ""))
	ending.DeletionTimestamp, ending.Finalizers = new(ago(time.Hour)), []string{"infrastructure.drover.io/machine"}
	endless := infra(is("Ready", "False", infrav1.DeletingReason, "waiting for the cloud to delete the instance: the disk remains"))
	endless.Status.Conditions[0].LastTransitionTime = ago(31 * time.Minute)
	endless.DeletionTimestamp, endless.Finalizers = new(ago(2*time.Hour)), ending.Finalizers
	goingOn := endless.DeepCopy()
	goingOn.Status.Conditions[0].LastTransitionTime = ago(29 * time.Minute)
	stopped := endless.DeepCopy()
	stopped.DeletionTimestamp, stopped.Finalizers = new(ago(time.Minute)), ending.Finalizers
	remains := stopped.DeepCopy()
	remains.DeletionTimestamp = new(ago(31 * time.Minute))
	pausedEnding := ending.DeepCopy()
	pausedEnding.Status.Conditions = append(pausedEnding.Status.Conditions, is(clusterv1.PausedCondition, "True", clusterv1.PausedReason, ""))
	for name, test := range map[string]struct {
		machine *clusterv1.Machine
		infra   client.Object
		object  string
		reason  string
		actor   reason.Actor
	}{
		"is refused by the cloud":          {deleted(waiting, ""), infra(is("Ready", "False", infrav1.UnauthorizedReason, "")), "SimMachine i", infrav1.UnauthorizedReason, reason.CloudOwner},
		"goes on":                          {deleted(waiting, ""), goingOn, "SimMachine i", infrav1.DeletingReason, reason.Drover},
		"goes on, of one that was stopped": {deleted(waiting, ""), stopped, "SimMachine i", infrav1.DeletingReason, reason.Drover},
		"does not end":                     {deleted(waiting, ""), endless, "SimMachine i", infrav1.DeletingReason, reason.CloudOwner},
		"does not end, since its request":  {deleted(waiting, ""), remains, "SimMachine i", infrav1.DeletingReason, reason.CloudOwner},
		"is paused":                        {deleted(waiting, ""), infra(is(clusterv1.PausedCondition, "True", clusterv1.PausedReason, ""), is("Ready", "False", infrav1.UnauthorizedReason, "")), "SimMachine i", clusterv1.PausedReason, reason.Operator},
		"has lost its object":              {deleted(waiting, ""), infra(), "Machine m", waiting, reason.Drover},
		"cannot read the object":           {deleted(waiting, "Waiting for SimMachine i, which cannot be read: no CRD"), infra(is("Ready", "False", infrav1.UnauthorizedReason, "")), "Machine m", waiting, reason.Installer},
		"goes on, without a condition":     {deleted(waiting, ""), removed(30 * time.Minute), "Machine m", waiting, reason.Drover},
		"has no condition for long":        {deleted(waiting, ""), removed(31 * time.Minute), "Machine m", waiting, reason.Installer},
		"fails, by rate, for long":         {deleted(waiting, ""), says(31*time.Minute, infrav1.RateLimitedReason, ofRemoval), "SimMachine i", infrav1.RateLimitedReason, reason.Drover},
		"fails, by credentials, for long":  {deleted(waiting, ""), says(31*time.Minute, infrav1.UnauthorizedReason, ofRemoval), "SimMachine i", infrav1.UnauthorizedReason, reason.CloudOwner},
		"fails, by the spec, for long":     {deleted(waiting, ""), says(31*time.Minute, infrav1.InvalidConfigurationReason, ofRemoval), "SimMachine i", infrav1.InvalidConfigurationReason, reason.Operator},
		"lacks its Cluster, for long":      {deleted(waiting, ""), says(31*time.Minute, infrav1.ClusterUnknownReason, ""), "SimMachine i", infrav1.ClusterUnknownReason, reason.Operator},
		"lacks its identity, for long":     {deleted(waiting, ""), says(31*time.Minute, infrav1.IdentityUnknownReason, ""), "SimMachine i", infrav1.IdentityUnknownReason, reason.Operator},
		"is not finished":                  {deleted(waiting, ""), says(30*time.Minute, infrav1.InstancePendingReason, ofRemoval), "SimMachine i", infrav1.InstancePendingReason, reason.Drover},
		"is not finished for long":         {deleted(waiting, ""), says(31*time.Minute, infrav1.InstancePendingReason, ofRemoval), "SimMachine i", infrav1.InstancePendingReason, reason.CloudOwner},
		"goes on, of the bootstrap object": {deleted(ofBootstrap, ""), config(30 * time.Minute), "Machine m", ofBootstrap, reason.Drover},
		"waits long for the bootstrap":     {deleted(ofBootstrap, ""), config(31 * time.Minute), "Machine m", ofBootstrap, reason.Installer},
		"is paused before it began":        {deleted(waiting, ""), pausedEnding, "SimMachine i", clusterv1.PausedReason, reason.Operator},
		"has a provider that does nothing": {deleted(waiting, ""), ending, "SimMachine i", "", reason.Installer},
		"may not be deleted":               {deleted(waiting, `Waiting for SimMachine "i" to be deleted, which the API server refuses: a policy`), infra(is("Ready", "True", "Ready", "")), "Machine m", waiting, reason.Installer},
		"waits for the bootstrap object":   {deleted(clusterv1.MachineDeletingWaitingForBootstrapDeletionReason, ""), infra(is("Ready", "False", infrav1.UnauthorizedReason, "")), "Machine m", clusterv1.MachineDeletingWaitingForBootstrapDeletionReason, reason.Drover},
		"cannot read the bootstrap object": {deleted(clusterv1.MachineDeletingWaitingForBootstrapDeletionReason, "x, which cannot be read: y"), infra(), "Machine m", clusterv1.MachineDeletingWaitingForBootstrapDeletionReason, reason.Installer},
		"finds no infrastructure machine":  {deleted(waiting, ""), &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "another"}}, "Machine m", waiting, reason.Drover},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "SimMachine", Name: "i"}
			test.machine.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: "BootstrapConfig", Name: "b"}
			found, err := finder(t, nil, test.machine, test.infra, cluster()).machine(t.Context(), test.machine)
			if err != nil || found.Object.String() != test.object || found.Condition.Reason != test.reason || found.Actor != test.actor {
				t.Errorf("got %+v, error %v", found, err)
			}
			if text := (Answer{Finding: found}).Text(noon); found.Condition.Reason == infrav1.DeletingReason && !strings.Contains(text, "the disk remains") {
				t.Errorf("text %q", text)
			}
			if found.Actor == reason.CloudOwner && strings.Contains(found.Command, "check") {
				t.Errorf("the provider runs: %s", found.Command)
			}
			if strings.Contains(found.Command, "/i ") {
				t.Errorf("the command is not about the Machine: %s", found.Command)
			}
		})
	}
}

// TestCauseInTheCluster has a Machine whose reason has its cause in the Cluster, and one whose reason has not.
func TestCauseInTheCluster(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		clusterv1.MachineNodeConnectionDownReason: "Cluster c", clusterv1.MachineNodeInspectionFailedReason: "Cluster c", clusterv1.MachineNodeNotReadyReason: "Machine m",
	} {
		m := machine("m", is(clusterv1.MachineNodeReadyCondition, "Unknown", reason, ""))
		found, err := finder(t, nil, m, cluster(unconnected)).machine(t.Context(), m)
		if err != nil || found.Object.String() != want {
			t.Errorf("%s: got %+v, error %v", reason, found, err)
		}
		if alone, err := finder(t, nil, m).machine(t.Context(), m); err != nil || alone.Object.String() != "Machine m" {
			t.Errorf("%s without a Cluster: got %+v, error %v", reason, alone, err)
		}
	}
}

// deployment is overdue, or has other conditions.
func deployment(conditions ...metav1.Condition) *clusterv1.MachineDeployment {
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "md", CreationTimestamp: ago(time.Hour)}}
	md.Spec.ClusterName, md.Spec.Replicas, md.Status.Conditions = "c", new(int32(3)), conditions
	return md
}

func ofDeployment(m *clusterv1.Machine) *clusterv1.Machine {
	m.Labels[clusterv1.MachineDeploymentNameLabel] = "md"
	return m
}

// TestFailedRollbackIsNotAdvisedAgain has a rollout without progress whose rollback was refused.
func TestFailedRollbackIsNotAdvisedAgain(t *testing.T) {
	t.Parallel()
	md := deployment(
		is(droverpolicyv1.ProgressingCondition, "False", "ProgressDeadlineExceeded", ""),
		is(clusterv1.MachineDeploymentRollingOutCondition, "True", clusterv1.MachineDeploymentRollingOutReason, ""),
		is(droverpolicyv1.RolledBackCondition, "False", droverpolicyv1.RollbackRefusedReason, "a policy refuses it"),
	)
	answer, err := finder(t, nil, md, ofDeployment(failingIn("md", "a", infrav1.InvalidConfigurationReason)), cluster()).Answer(t.Context(), object.MachineDeployment, key("md"))
	found := answer.Finding
	if err != nil || found == nil || strings.Contains(found.Command, "undo") || !strings.Contains(strings.Join(found.Facts, "|"), "a policy refuses it") {
		t.Errorf("got %+v, error %v", found, err)
	}
}

// TestOverdueDeploymentNamesAMachine has a rollout without progress, for what most of its Machines wait for.
func TestOverdueDeploymentNamesAMachine(t *testing.T) {
	t.Parallel()
	overdue := []metav1.Condition{
		is(droverpolicyv1.ProgressingCondition, "False", "ProgressDeadlineExceeded", "No progress for 10m"),
		is(clusterv1.MachineDeploymentRollingOutCondition, "True", clusterv1.MachineDeploymentRollingOutReason, ""),
	}
	failing := func(name string) *clusterv1.Machine {
		return ofDeployment(machine(name, is(clusterv1.MachineInfrastructureReadyCondition, "False", "CloudError", "503.")))
	}
	for name, test := range map[string]struct {
		machines []client.Object
		want     string
		others   int
	}{
		"with its condition":       {[]client.Object{failing("a"), failing("b"), ofDeployment(machine("new"))}, "The condition InfrastructureReady of Machine a is False (CloudError): 503.", 2},
		"that nothing was done to": {[]client.Object{ofDeployment(machine("new"))}, "Machine new: no manager has reconciled it yet", 0},
		"but none of another":      {[]client.Object{machine("new")}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := finder(t, nil, append(test.machines, cluster(), deployment(overdue...))...).Answer(t.Context(), object.MachineDeployment, key("md"))
			found := answer.Finding
			if err != nil || found == nil || found.Condition.Type != droverpolicyv1.ProgressingCondition || found.Others != test.others {
				t.Fatalf("got %+v, error %v", found, err)
			}
			if diff := cmp.Diff(test.want, strings.Join(found.Facts, "")); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
			if text := answer.Text(noon); strings.Contains(text, "..") || strings.Contains(text, "()") {
				t.Errorf("text %q", text)
			}
		})
	}
}

// TestUndoIsOfferedWhereItHelps has a rollout without progress: of a new template, of one that was restored already, and of a restart,
// where the only other revision is older than all Machines.
func TestUndoIsOfferedWhereItHelps(t *testing.T) {
	t.Parallel()
	md := deployment(
		is(droverpolicyv1.ProgressingCondition, "False", "ProgressDeadlineExceeded", "No progress for 10m"),
		is(clusterv1.MachineDeploymentRollingOutCondition, "True", clusterv1.MachineDeploymentRollingOutReason, ""),
	)
	md.UID, md.Annotations, md.Spec.Template.Spec.Version = "uid", map[string]string{clusterv1.RevisionAnnotation: "3"}, "v1.36.2"
	set := func(revision, version string, replicas int32, earlier string) *clusterv1.MachineSet {
		s := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: "md-" + revision, Annotations: map[string]string{clusterv1.RevisionAnnotation: revision},
			OwnerReferences: []metav1.OwnerReference{{Kind: "MachineDeployment", Name: "md", UID: "uid", Controller: new(true)}},
		}}
		if earlier != "" {
			s.Annotations["machinedeployment.clusters.x-k8s.io/revision-history"] = earlier
		}
		s.Spec.Template.Spec.Version, s.Status.Replicas = version, &replicas
		return s
	}
	const undo, describe = "kubectl drover rollout undo machinedeployment/md --namespace n", "kubectl drover describe machinedeployment/md --namespace n"
	const deletes = "kubectl delete machine.cluster.x-k8s.io a --namespace n"
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "machinesets"}, "", errors.New("no rule"))
	for name, test := range map[string]struct {
		sets    []client.Object
		refused error
		want    string // without a Machine
		failing string // with one that fails
	}{
		"for a new template":                     {[]client.Object{set("3", "v1.36.2", 1, ""), set("2", "v1.36.1", 2, "")}, nil, undo, undo},
		"not for one that was restored":          {[]client.Object{set("3", "v1.36.2", 2, "1"), set("2", "v1.36.3", 1, "")}, nil, describe, deletes},
		"not for a restart":                      {[]client.Object{set("3", "v1.36.2", 1, ""), set("2", "v1.36.2", 2, ""), set("1", "v1.35.0", 0, "")}, nil, describe, deletes},
		"not to whom may not read the revisions": {nil, forbidden, describe, deletes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, with := range []struct {
				machines []client.Object
				want     string
			}{{nil, test.want}, {[]client.Object{failingIn("md", "a", infrav1.InvalidConfigurationReason)}, test.failing}} {
				f := finder(t, nil)
				f.Reader = objecttest.Reader(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					if _, sets := list.(*clusterv1.MachineSetList); sets && test.refused != nil {
						return test.refused
					}
					return c.List(ctx, list, options...)
				}}, slices.Concat(test.sets, with.machines, []client.Object{md.DeepCopy(), cluster()})...)
				for _, asked := range []struct {
					kind object.Kind
					name string
				}{{object.MachineDeployment, "md"}, {object.Cluster, "c"}} {
					answer, err := f.Answer(t.Context(), asked.kind, key(asked.name))
					if err != nil || answer.Finding == nil || answer.Finding.Command != with.want {
						t.Errorf("%s with %d Machines: got %+v, error %v", asked.kind.Kind, len(with.machines), answer.Finding, err)
					}
				}
			}
		})
	}
}

// TestUndoOfAMachine has a rollout whose Machine fails, or whose old Machine cannot be drained. A rollback helps the first, where
// its deletion would create another that fails, and not the second.
func TestUndoOfAMachine(t *testing.T) {
	t.Parallel()
	const undo, deletes = "kubectl drover rollout undo machinedeployment/md --namespace n", "kubectl delete machine.cluster.x-k8s.io a --namespace n"
	const describe = "kubectl drover describe machinedeployment/md --namespace n"
	overdue := is(droverpolicyv1.ProgressingCondition, "False", "ProgressDeadlineExceeded", "No progress for 10m")
	current, old := is(clusterv1.MachineUpToDateCondition, "True", clusterv1.MachineUpToDateReason, ""), is(clusterv1.MachineUpToDateCondition, "False", clusterv1.MachineNotUpToDateReason, "")
	failing := func(reason string, more ...metav1.Condition) *clusterv1.Machine {
		return ofDeployment(machine("a", append(more, is(clusterv1.MachineInfrastructureReadyCondition, "False", reason, ""))...))
	}
	draining := func(reason string) *clusterv1.Machine {
		m := ofDeployment(deleted(reason, "Pod shop/db: cannot be evicted"))
		m.Name = "a"
		return m
	}
	unready := func(name string, more ...metav1.Condition) *clusterv1.Machine {
		return ofDeployment(machine(name, append(more, is(clusterv1.MachineNodeHealthyCondition, "False", clusterv1.MachineNodeNotHealthyReason, ""))...))
	}
	refused := ofDeployment(machine("a", current, is(clusterv1.MachineBootstrapConfigReadyCondition, "False", bootstrapv1.RequestRefusedReason, "secrets is forbidden: exceeded quota: q")))
	completing := draining(clusterv1.MachineDeletingDrainingNodeReason)
	completing.Status.Conditions[0].Message = "Draining:\n* Pod a/b: waiting for completion"
	available := func(m *clusterv1.Machine) *clusterv1.Machine {
		m.Annotations = map[string]string{"others": "available"}
		return m
	}
	provisioned := func(m *clusterv1.Machine) *clusterv1.Machine {
		m.Status.Initialization.InfrastructureProvisioned = new(true)
		return m
	}
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		machine    *clusterv1.Machine
		command    string
		actor      reason.Actor
		onDelete   bool
	}{
		"helps one of the new template":                    {nil, failing(infrav1.InvalidConfigurationReason, current), undo, reason.Operator, false},
		"does not help one of many":                        {nil, available(failing(infrav1.InvalidConfigurationReason, current)), deletes, reason.Operator, false},
		"does not help one of many, for long":              {[]metav1.Condition{overdue}, available(failing(infrav1.InvalidConfigurationReason, current)), deletes, reason.Operator, false},
		"nor one Node of many":                             {[]metav1.Condition{overdue}, available(unready("a", current)), describe, reason.WorkloadAdmin, false},
		"does not help one of the old":                     {nil, failing(infrav1.InvalidConfigurationReason, old), deletes, reason.Operator, false},
		"does not help against a missing one":              {nil, failing(infrav1.InstanceMissingReason, current), deletes, reason.Operator, false},
		"does not help against a missing one, for long":    {[]metav1.Condition{overdue}, provisioned(failing(infrav1.InstanceMissingReason, current)), deletes, reason.Operator, false},
		"helps where an instance ended at its start":       {[]metav1.Condition{overdue}, failing(infrav1.InstanceMissingReason, current), undo, reason.Operator, false},
		"does not bring an InfraMachine back":              {[]metav1.Condition{overdue}, failing(clusterv1.ObjectDeletedReason, current), deletes, reason.Operator, false},
		"does not help against an eviction":                {[]metav1.Condition{overdue}, failing(infrav1.EvictionRequestedReason, current), deletes, reason.Operator, false},
		"does not start an instance":                       {[]metav1.Condition{overdue}, provisioned(failing(infrav1.InstanceStoppedReason, current)), describe, reason.CloudOwner, false},
		"helps where an instance never started":            {[]metav1.Condition{overdue}, failing(infrav1.InstanceStoppedReason, current), undo, reason.Operator, false},
		"does not help a Node that was deleted":            {[]metav1.Condition{overdue}, ofDeployment(machine("a", current, is(clusterv1.MachineNodeHealthyCondition, "False", clusterv1.MachineNodeDeletedReason, ""))), deletes, reason.Operator, false},
		"does not end an error of the cloud":               {[]metav1.Condition{overdue}, failing(infrav1.CloudErrorReason, current), describe, reason.CloudOwner, false},
		"helps against a template that is not valid":       {[]metav1.Condition{overdue}, failing(infrav1.InvalidConfigurationReason, current), undo, reason.Operator, false},
		"helps a Node that is never ready":                 {[]metav1.Condition{overdue}, unready("a", current), undo, reason.Operator, false},
		"does not help an old Node":                        {[]metav1.Condition{overdue}, unready("a", old), describe, reason.WorkloadAdmin, false},
		"does not renew credentials":                       {[]metav1.Condition{overdue}, failing(infrav1.UnauthorizedReason, current), describe, reason.CloudOwner, false},
		"does not raise the quota of the cloud":            {[]metav1.Condition{overdue}, failing(infrav1.QuotaExceededReason, current), describe, reason.CloudOwner, false},
		"makes no capacity":                                {[]metav1.Condition{overdue}, failing(infrav1.InsufficientCapacityReason, current), describe, reason.CloudOwner, false},
		"does not help against a rate":                     {[]metav1.Condition{overdue}, failing(infrav1.RateLimitedReason, current), describe, reason.Operator, false},
		"does not raise a ResourceQuota":                   {[]metav1.Condition{overdue}, refused, "kubectl get resourcequota --namespace n", reason.Installer, false},
		"does not end a drain":                             {[]metav1.Condition{overdue}, draining(clusterv1.MachineDeletingWaitingForPreDrainHookReason), describe, reason.HookOwner, false},
		"is not needed while a deletion continues":         {[]metav1.Condition{overdue}, draining(clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason), "kubectl drover check", reason.Drover, false},
		"is not needed while a drain continues":            {[]metav1.Condition{overdue}, completing, "kubectl drover drain --dry-run machine/a --namespace n", reason.Drover, false},
		"is no advice where Machines are replaced by hand": {[]metav1.Condition{overdue}, ofDeployment(machine("a", old, is(clusterv1.MachineNodeHealthyCondition, "False", clusterv1.MachineNodeNotHealthyReason, ""))), "", reason.WorkloadAdmin, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := deployment(append(test.conditions, is(clusterv1.MachineDeploymentRollingOutCondition, "True", clusterv1.MachineDeploymentRollingOutReason, ""))...)
			md.UID, md.Annotations, md.Spec.Template.Spec.Version = "uid", map[string]string{clusterv1.RevisionAnnotation: "2"}, "v1.36.2"
			if test.onDelete {
				md.Spec.Rollout.Strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
			}
			set := func(revision, version string) *clusterv1.MachineSet {
				s := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{
					Namespace: "n", Name: "md-" + revision, Annotations: map[string]string{clusterv1.RevisionAnnotation: revision},
					OwnerReferences: []metav1.OwnerReference{{Kind: "MachineDeployment", Name: "md", UID: "uid", Controller: new(true)}},
				}}
				s.Spec.Template.Spec.Version, s.Status.Replicas = version, new(int32(1))
				if test.machine.Annotations["others"] != "" {
					s.Status.AvailableReplicas = new(int32(1))
				}
				return s
			}
			answer, err := finder(t, nil, md, set("1", "v1.36.1"), set("2", "v1.36.2"), test.machine, cluster()).Answer(t.Context(), object.MachineDeployment, key("md"))
			if err != nil || answer.Finding == nil || answer.Finding.Command != test.command || answer.Finding.Actor != test.actor {
				t.Errorf("got %+v, error %v", answer.Finding, err)
			}
		})
	}
}

// TestRemovalWithAConditionOfBefore has a SimMachine whose deletion was requested for long, and which says nothing about that: its
// provider does not run.
func TestRemovalWithAConditionOfBefore(t *testing.T) {
	t.Parallel()
	simMachine := object.Kind{GroupVersionKind: infrav1.GroupVersion.WithKind("SimMachine"), Resource: "simmachines"}
	for _, before := range []metav1.Condition{
		is("Ready", "False", infrav1.WaitingForBootstrapReason, ""),
		is("Ready", "False", infrav1.InstancePendingReason, "waiting for the cloud to start the instance"),
		is("Ready", "False", infrav1.InstanceMissingReason, ""),
		is("Ready", "False", infrav1.InstanceStoppedReason, ""),
		is("Ready", "False", infrav1.EvictionRequestedReason, ""),
		is("Ready", "False", infrav1.ProviderIDNotStoredReason, ""),
		is("Ready", "False", infrav1.QuotaExceededReason, `no quota for "x" in "y"`),
		is("Ready", "False", infrav1.InsufficientCapacityReason, ""),
		is("Ready", "False", infrav1.UnauthorizedReason, "reading instance: x"),
	} {
		t.Run(before.Reason, func(t *testing.T) {
			t.Parallel()
			infra := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{
				Namespace: "n", Name: "i", DeletionTimestamp: new(ago(31 * time.Minute)), Finalizers: []string{infrav1.MachineFinalizer},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m", Controller: new(true)}},
			}}
			infra.Status.Conditions = []metav1.Condition{is(infrav1.HostJoinedCondition, "False", infrav1.HostFailedReason, ""), before}
			m := deleted(clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason, "")
			alive := machine("m", is(clusterv1.MachineInfrastructureReadyCondition, "False", before.Reason, before.Message))
			for _, m := range []*clusterv1.Machine{m, alive} {
				m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "SimMachine", Name: "i"}
			}
			for asked, test := range map[string]struct {
				machine *clusterv1.Machine
				kind    object.Kind
				name    string
			}{
				"of a Machine in deletion": {m, object.Machine, "m"},
				"of a Machine that is not": {alive, object.Machine, "m"},
				"itself":                   {m, simMachine, "i"},
			} {
				answer, err := finder(t, nil, test.machine, infra, cluster()).Answer(t.Context(), test.kind, key(test.name))
				found := answer.Finding
				if err != nil || found == nil || found.Condition.Reason != before.Reason || found.Actor != reason.Installer ||
					found.Help != "see whether the provider of the object runs" || found.Command != "kubectl drover check" {
					t.Errorf("%s: got %+v, error %v", asked, found, err)
				}
			}
		})
	}
}

// TestRemovalAskedDirectly counts from its request, as that of a Machine.
func TestRemovalAskedDirectly(t *testing.T) {
	t.Parallel()
	simMachine := object.Kind{GroupVersionKind: infrav1.GroupVersion.WithKind("SimMachine"), Resource: "simmachines"}
	infra := func(before time.Duration, reason, message string) client.Object {
		i := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "i", DeletionTimestamp: new(ago(before)), Finalizers: []string{infrav1.MachineFinalizer}}}
		i.Status.Conditions = []metav1.Condition{is("Ready", "False", reason, message)}
		return i
	}
	config := func(before time.Duration) client.Object {
		b := &bootstrapv1.BootstrapConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "i", DeletionTimestamp: new(ago(before)), Finalizers: []string{"bootstrap.drover.io/config"}}}
		b.Status.Conditions = []metav1.Condition{is("Ready", "False", bootstrapv1.WaitingForProfileReason, "")}
		return b
	}
	for name, test := range map[string]struct {
		kind  object.Kind
		o     client.Object
		actor reason.Actor
	}{
		"goes on":                           {simMachine, infra(30*time.Minute, infrav1.DeletingReason, ""), reason.Drover},
		"does not end":                      {simMachine, infra(31*time.Minute, infrav1.DeletingReason, ""), reason.CloudOwner},
		"is not finished":                   {simMachine, infra(31*time.Minute, infrav1.InstancePendingReason, "deleting instance: x"), reason.CloudOwner},
		"fails by rate":                     {simMachine, infra(31*time.Minute, infrav1.RateLimitedReason, "deleting instance: x"), reason.Drover},
		"of a bootstrap object goes on":     {object.BootstrapConfig, config(30 * time.Minute), reason.Operator},
		"of a bootstrap object is not seen": {object.BootstrapConfig, config(31 * time.Minute), reason.Installer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := finder(t, nil, test.o, cluster()).Answer(t.Context(), test.kind, key("i"))
			if err != nil || answer.Finding == nil || answer.Finding.Actor != test.actor {
				t.Errorf("got %+v, error %v", answer.Finding, err)
			}
		})
	}
}

// TestNothingIsDoneWhileTheClusterIsNotWell has a MachineDeployment that would wait for its Machines.
func TestNothingIsDoneWhileTheClusterIsNotWell(t *testing.T) {
	t.Parallel()
	m := ofDeployment(machine("m", is(clusterv1.MachineInfrastructureReadyCondition, "False", "CloudError", "")))
	md := deployment(is("Available", "False", "NotAvailable", ""))
	unprovisioned := cluster(is(clusterv1.ClusterInfrastructureReadyCondition, "False", clusterv1.NotReadyReason, ""))
	provisioned := unprovisioned.DeepCopy()
	provisioned.Status.Initialization.InfrastructureProvisioned = new(true)
	uninitialized := cluster(is(clusterv1.ClusterControlPlaneAvailableCondition, "False", clusterv1.ClusterControlPlaneNotAvailableReason, ""))
	initialized := uninitialized.DeepCopy()
	initialized.Status.Initialization.ControlPlaneInitialized = new(true)
	for name, test := range map[string]struct {
		cluster *clusterv1.Cluster
		want    string
	}{
		"is well":                            {cluster(), "Machine m"},
		"is not connected":                   {cluster(unconnected), "Cluster c"},
		"has no infrastructure yet":          {unprovisioned, "Cluster c"},
		"has infrastructure that was ready":  {provisioned, "Machine m"},
		"has no control plane yet":           {uninitialized, "Cluster c"},
		"has a control plane that was there": {initialized, "Machine m"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := finder(t, nil, m, md, test.cluster).Answer(t.Context(), object.MachineDeployment, key("md"))
			if err != nil || answer.Finding == nil || answer.Finding.Object.String() != test.want || answer.State != "0 of 3 replicas ready" {
				t.Errorf("got %+v, error %v", answer.Finding, err)
			}
		})
	}
}

// TestHostThatDoesNotJoinNamesTheInfrastructureOfItsCluster besides: a load balancer that fails may be the cause, and need not.
func TestHostThatDoesNotJoinNamesTheInfrastructureOfItsCluster(t *testing.T) {
	t.Parallel()
	c := cluster(is(clusterv1.ClusterInfrastructureReadyCondition, "False", "LoadBalancerFailed", "no backend"))
	c.Status.Initialization.InfrastructureProvisioned = new(true)
	m := machine("m", is(clusterv1.MachineNodeReadyCondition, "Unknown", clusterv1.MachineNodeInspectionFailedReason, ""))
	found, err := finder(t, nil, m, c).machine(t.Context(), m)
	want := "Besides, the condition InfrastructureReady of Cluster c is False (LoadBalancerFailed): no backend"
	if err != nil || found.Object.String() != "Machine m" || !slices.Contains(found.Facts, want) {
		t.Errorf("got %+v, error %v", found, err)
	}
}

// TestMachineSetCountsItsOwnMachines has a Machine of another set with the same labels.
func TestMachineSetCountsItsOwnMachines(t *testing.T) {
	t.Parallel()
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s", UID: "s"}}
	set.Spec.ClusterName, set.Status.Conditions = "c", []metav1.Condition{is("ScalingUp", "False", "NotScalingUp", "")}
	owned := func(name, uid string) *clusterv1.Machine {
		m := machine(name, is(clusterv1.MachineInfrastructureReadyCondition, "False", "CloudError", ""))
		m.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineSet", Name: uid, UID: types.UID(uid), Controller: new(true)}}
		return m
	}
	answer, err := finder(t, nil, set, cluster(), owned("other", "other")).Answer(t.Context(), object.MachineSet, key("s"))
	if err != nil || !answer.Well {
		t.Errorf("of another: %+v, error %v", answer.Finding, err)
	}
	answer, err = finder(t, nil, set, cluster(), owned("other", "other"), owned("own", "s")).Answer(t.Context(), object.MachineSet, key("s"))
	if err != nil || answer.Well || answer.Finding.Object.Name != "own" || answer.Finding.Others != 0 {
		t.Errorf("its own: %+v, error %v", answer.Finding, err)
	}
}

// TestDeletedCluster waits for its Machines, of whatever owner, and then for what its condition has.
func TestDeletedCluster(t *testing.T) {
	t.Parallel()
	deleting := is(clusterv1.ClusterDeletingCondition, "True", clusterv1.ClusterDeletingWaitingForWorkersDeletionReason, "")
	stuck := deleted(clusterv1.MachineDeletingWaitingForPreDrainHookReason, "")
	inDeletion := func(c *clusterv1.Cluster) *clusterv1.Cluster {
		c.DeletionTimestamp, c.Finalizers = new(ago(time.Hour)), []string{clusterv1.ClusterFinalizer}
		return c
	}
	annotation := is(droverpolicyv1.AnnotationsValidCondition, "False", "AnnotationsInvalid", "")
	rolling := poolNamed("a", is(clusterv1.MachineDeploymentRollingOutCondition, "True", clusterv1.MachineDeploymentRollingOutReason, ""))
	paused := is(clusterv1.PausedCondition, "True", clusterv1.PausedReason, "Cluster spec.paused is set to true")
	for name, test := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"waits for a Machine":                     {[]client.Object{inDeletion(cluster(deleting)), stuck}, "Machine m Deleting"},
		"waits for what is not a Machine":         {[]client.Object{inDeletion(cluster(deleting))}, "Cluster c Deleting"},
		"is paused":                               {[]client.Object{inDeletion(cluster(deleting, paused)), stuck}, "Cluster c Paused"},
		"does not report a connection that ended": {[]client.Object{inDeletion(cluster(deleting, unconnected)), stuck}, "Machine m Deleting"},
		"has no manager that acts on it":          {[]client.Object{inDeletion(cluster(unconnected, annotation)), rolling}, "Cluster c "},
		"is paused before it began":               {[]client.Object{inDeletion(cluster(paused)), rolling}, "Cluster c Paused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := finder(t, nil, test.objects...).Answer(t.Context(), object.Cluster, key("c"))
			if err != nil || answer.Finding == nil || fmt.Sprint(answer.Finding.Object, " ", answer.Finding.Condition.Type) != test.want {
				t.Errorf("got %+v, error %v", answer.Finding, err)
			}
		})
	}
}

// TestClusterThatIsNotAvailable by a gate of its own is not well, although nothing of Drover waits.
func TestClusterThatIsNotAvailable(t *testing.T) {
	t.Parallel()
	for status, reasonOf := range map[metav1.ConditionStatus]string{"False": clusterv1.ClusterNotAvailableReason, "Unknown": clusterv1.ClusterAvailableUnknownReason, "True": ""} {
		c := cluster(is(clusterv1.ClusterAvailableCondition, status, reasonOf, "* Backup: none"))
		answer, err := finder(t, nil, c).Answer(t.Context(), object.Cluster, key("c"))
		if err != nil || answer.Well != (reasonOf == "") || !answer.Well && answer.Finding.Condition.Reason != reasonOf {
			t.Errorf("%s: got %+v, error %v", status, answer.Finding, err)
		}
	}
}

// TestGateOfAClusterIsNotHiddenByProgress, unlike workers that are not available while they are rolled out.
func TestGateOfAClusterIsNotHiddenByProgress(t *testing.T) {
	t.Parallel()
	rolling := poolNamed("a", is(clusterv1.MachineDeploymentRollingOutCondition, "True", clusterv1.MachineDeploymentRollingOutReason, ""))
	unavailable := is(clusterv1.ClusterAvailableCondition, "False", clusterv1.ClusterNotAvailableReason, "")
	annotation := is(droverpolicyv1.AnnotationsValidCondition, "False", droverpolicyv1.InvalidValueReason, "")
	positive, negative := clusterv1.ClusterAvailabilityGate{ConditionType: "Gate"}, clusterv1.ClusterAvailabilityGate{ConditionType: "Gate", Polarity: clusterv1.NegativePolarityCondition}
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		gate       clusterv1.ClusterAvailabilityGate
		pool       *clusterv1.MachineDeployment
		want       string
	}{
		"is closed":                        {[]metav1.Condition{unavailable, is("Gate", "False", "X", "")}, positive, rolling, "Cluster c Available 1"},
		"is not reported":                  {[]metav1.Condition{unavailable}, positive, rolling, "Cluster c Available 1"},
		"is closed by True":                {[]metav1.Condition{unavailable, is("Gate", "True", "X", "")}, negative, rolling, "Cluster c Available 1"},
		"is open":                          {[]metav1.Condition{unavailable, is("Gate", "True", "X", "")}, positive, rolling, "MachineDeployment a RollingOut 0"},
		"is open by False":                 {[]metav1.Condition{unavailable, is("Gate", "False", "X", "")}, negative, rolling, "MachineDeployment a RollingOut 0"},
		"is closed beside a freeze":        {[]metav1.Condition{unavailable}, positive, poolNamed("a", is(droverpolicyv1.FrozenCondition, "True", droverpolicyv1.OvershootReason, "")), "MachineDeployment a Frozen 0"},
		"is open, and an annotation wrong": {[]metav1.Condition{annotation, is("Gate", "True", "X", "")}, positive, rolling, "Cluster c AnnotationsValid 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cluster(test.conditions...)
			c.Spec.AvailabilityGates = []clusterv1.ClusterAvailabilityGate{test.gate}
			answer, err := finder(t, nil, c, test.pool).Answer(t.Context(), object.Cluster, key("c"))
			if found := answer.Finding; err != nil || found == nil || fmt.Sprint(found.Object, " ", found.Condition.Type, " ", found.Others) != test.want {
				t.Errorf("got %+v, error %v", found, err)
			}
		})
	}
}

// TestMachineOfAClusterWithoutADeployment counts, as one of a control plane does, and an annotation comes after it.
func TestMachineOfAClusterWithoutADeployment(t *testing.T) {
	t.Parallel()
	annotation := is(droverpolicyv1.AnnotationsValidCondition, "False", "AnnotationsInvalid", "")
	m := machine("m", is(clusterv1.MachineInfrastructureReadyCondition, "False", "CloudError", ""))
	answer, err := finder(t, nil, cluster(annotation), m).Answer(t.Context(), object.Cluster, key("c"))
	if err != nil || answer.Well || answer.Finding.Object.Name != "m" {
		t.Errorf("got %+v, error %v", answer.Finding, err)
	}
	answer, err = finder(t, nil, cluster(annotation)).Answer(t.Context(), object.Cluster, key("c"))
	if err != nil || answer.Well || answer.Finding.Condition.Type != annotation.Type {
		t.Errorf("without a Machine: %+v, error %v", answer.Finding, err)
	}
}

// TestCommandOfAnInfrastructureMachine: the Machine that is deleted has another name. One of the name may be another one.
func TestCommandOfAnInfrastructureMachine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		owners []metav1.OwnerReference
		reason string
		want   string
	}{
		"names its Machine":                     {[]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m", Controller: new(true)}}, infrav1.InstanceMissingReason, "kubectl delete machine.cluster.x-k8s.io m --namespace n"},
		"names no Machine of another project":   {[]metav1.OwnerReference{{APIVersion: "machine.openshift.io/v1beta1", Kind: "Machine", Name: "m", Controller: new(true)}}, infrav1.InstanceMissingReason, ""},
		"names none where there is none":        {nil, infrav1.InstanceMissingReason, ""},
		"needs no Machine for what it is about": {nil, infrav1.WaitingForManagementClaimReason, "kubectl drover why cluster/c --namespace n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			infra := &infrav1.SimMachine{ObjectMeta: metav1.ObjectMeta{
				Namespace: "n", Name: "other", Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}, OwnerReferences: test.owners,
			}}
			infra.Status.Conditions = []metav1.Condition{is(clusterv1.ReadyCondition, "False", test.reason, "")}
			kind := object.Kind{GroupVersionKind: infrav1.GroupVersion.WithKind("SimMachine"), Resource: "simmachines"}
			answer, err := finder(t, nil, infra).Answer(t.Context(), kind, key("other"))
			if err != nil || answer.Finding == nil || answer.Finding.Command != test.want {
				t.Errorf("got %+v, error %v, want the command %q", answer.Finding, err, test.want)
			}
		})
	}
}

// TestKindsWithoutConditions has objects about which no manager reports anything, and one that will be reported about.
func TestKindsWithoutConditions(t *testing.T) {
	t.Parallel()
	meta := metav1.ObjectMeta{Namespace: "n", Name: "x", CreationTimestamp: ago(time.Hour)}
	f := finder(t, nil, &bootstrapv1.BootstrapConfigTemplate{ObjectMeta: meta}, &clusterv1.MachineDrainRule{ObjectMeta: meta}, &infrav1.SimMachineTemplate{ObjectMeta: meta})
	for _, test := range []struct {
		kind object.Kind
		want string
	}{
		{object.Kind{GroupVersionKind: bootstrapv1.GroupVersion.WithKind("BootstrapConfigTemplate")}, "BootstrapConfigTemplate has no conditions: ask about an object that uses it, as a machinedeployment or a machine"},
		{object.MachineDrainRule, "MachineDrainRule has no conditions: ask about an object that uses it, as a machinedeployment or a machine"},
	} {
		if _, err := f.Answer(t.Context(), test.kind, key("x")); err == nil || err.Error() != test.want {
			t.Errorf("%s: error %v", test.kind.Kind, err)
		}
	}
	answer, err := f.Answer(t.Context(), object.Kind{GroupVersionKind: infrav1.GroupVersion.WithKind("SimMachineTemplate")}, key("x"))
	if err != nil || answer.Well {
		t.Errorf("a template that a manager checks: %+v, error %v", answer, err)
	}
}

// TestObjectOfAProvider is answered by its conditions alone.
func TestObjectOfAProvider(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		created    time.Duration
		want       string
		actor      reason.Actor
	}{
		"is well":                             {[]metav1.Condition{is("Ready", "True", "Ready", ""), is("OfAnotherProject", "False", "X", "")}, time.Hour, "", ""},
		"is not ready":                        {[]metav1.Condition{is("OfAnotherProject", "False", "X", ""), is("Ready", "False", bootstrapv1.ClusterUnreachableReason, "")}, time.Hour, "Ready", ""},
		"is not ready, for an unknown reason": {[]metav1.Condition{is("Ready", "False", "X", "")}, time.Hour, "Ready", reason.Operator},
		"is paused":                           {[]metav1.Condition{is("Ready", "False", "X", ""), is("Paused", "True", "Paused", "")}, time.Hour, "Paused", reason.Operator},
		"was created just now":                {nil, 59 * time.Second, "", reason.Drover},
		"was created, and nobody took it up":  {nil, time.Minute, "", reason.Installer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := &bootstrapv1.BootstrapConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "b", CreationTimestamp: ago(test.created)}}
			config.Status.Conditions = test.conditions
			answer, err := finder(t, nil, config).Answer(t.Context(), object.BootstrapConfig, key("b"))
			if err != nil {
				t.Fatal(err)
			}
			if found := answer.Finding; name == "is well" != (found == nil) || found != nil && (found.Condition.Type != test.want || test.actor != "" && found.Actor != test.actor) {
				t.Errorf("got %+v", found)
			}
		})
	}
}
