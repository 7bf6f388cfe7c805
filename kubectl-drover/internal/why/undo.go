// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "drover.io/api/bootstrap/v1alpha1"
	infrav1 "drover.io/api/infrastructure/v1alpha1"
	droverpolicyv1 "drover.io/api/policy/v1alpha1"
	"drover.io/api/reason"
	"drover.io/kubectl-drover/internal/object"
	"drover.io/kubectl-drover/internal/rollout"
)

// withoutUndo is for a rollout without progress that a rollback does not help.
func (o owner) withoutUndo(found *Finding) {
	found.Help = "see what is awaited, and correct it"
	found.Command = command("kubectl drover describe machinedeployment/{name} --namespace {namespace}", o.ref)
}

// adviseBy gives a finding about a lack of progress that no rollback helps the advice of its Machine, if that needs action.
func (f *Finding) adviseBy(machine *Finding) {
	if strings.HasPrefix(f.Command, "kubectl drover describe ") && machine.needsAction() {
		f.Actor, f.Help, f.Command = machine.Actor, machine.Help, cmp.Or(machine.Command, f.Command)
	}
}

// adviseOverdue gives a finding about a lack of progress the advice that fits its Machine: a rollback where the template is the likeliest
// cause, else that of the Machine, which mentions a rollback where the template may be the cause.
func (f *Finder) adviseOverdue(ctx context.Context, o owner, found, machine *Finding) error {
	may, likelier := machine.mayComeOfTemplate(), machine.hasLikelierCause()
	if may && !likelier {
		if err := f.reviewUndo(ctx, o, found); err != nil {
			return err
		}
	} else {
		o.withoutUndo(found)
	}
	found.adviseBy(machine)
	if may && likelier {
		return f.mentionUndo(ctx, o, found)
	}
	return nil
}

// notOfTemplate are the reasons that need action and that no template has: the credentials, quota and capacity of the account, what
// others did to one object or Node, the connection to the workload cluster, and what that refuses of labels, annotations and taints,
// which belong to no revision.
var notOfTemplate = map[string]bool{
	infrav1.UnauthorizedReason: true, infrav1.AccountMismatchReason: true, infrav1.QuotaExceededReason: true, infrav1.InsufficientCapacityReason: true,
	infrav1.EvictionRequestedReason: true, clusterv1.ObjectDeletedReason: true, clusterv1.MachineNodeDeletedReason: true,
	bootstrapv1.ClusterForbiddenReason: true, droverpolicyv1.NodeInitializationRefusedReason: true, droverpolicyv1.NodeSyncRefusedReason: true,
	clusterv1.PausedReason: true,
}

// mayComeOfTemplate reports whether a rollback may help the Machine of a rollout without progress: it has the newest template, is
// not being deleted, and waits for what may come of that template. What the administrator of the management cluster must see to, as
// a ResourceQuota or a provider that does not run, and what Drover continues, does not.
func (f *Finding) mayComeOfTemplate() bool {
	return f.machine.DeletionTimestamp.IsZero() && !outdated(f.machine) && f.needsAction() && f.Actor != reason.Installer &&
		f.Object.Kind != object.Cluster.Kind && !notOfTemplate[f.Condition.Reason] && !reasonsCausedByCluster[f.Condition.Reason]
}

// hasLikelierCause reports whether what may come of a template rather comes of the cloud or the workload cluster. The providers call
// what they do not know an error of the cloud. An instance that ran was ended by others; one that never did, by the cloud that could not
// start it as the template wants. A Node lacks a providerID, or has another, rarely because the template configures its kubelet so.
func (f *Finding) hasLikelierCause() bool {
	switch f.Condition.Reason {
	case infrav1.CloudErrorReason:
		return true
	case infrav1.InstanceMissingReason, infrav1.InstanceStoppedReason:
		ran := f.machine.Status.Initialization.InfrastructureProvisioned
		return ran != nil && *ran
	}
	return f.external
}

// outdated reports whether a Machine has an older template than its MachineDeployment.
func outdated(m *clusterv1.Machine) bool {
	upToDate := condition(m, clusterv1.MachineUpToDateCondition)
	return upToDate != nil && upToDate.Status == metav1.ConditionFalse
}

// causedByTemplate are the reasons of Machines that a wrong template may have.
var causedByTemplate = map[string]bool{infrav1.HostFailedReason: true, infrav1.BootstrapFailedReason: true, infrav1.InvalidConfigurationReason: true}

// offerUndo puts a rollback before the deletion of a Machine that fails with the new template: the next would fail too.
func (f *Finder) offerUndo(ctx context.Context, o owner, found *Finding) error {
	upToDate := condition(found.machine, clusterv1.MachineUpToDateCondition)
	if failed := o.rollbackFailed(); failed != nil && found.deletes() {
		found.Facts = append(found.Facts, failed.condition("The condition "+failed.Condition.Type+" of "+o.ref.String()))
		return nil
	}
	if o.deployment == nil || o.with(clusterv1.MachineDeploymentRollingOutCondition, metav1.ConditionTrue) == nil ||
		upToDate == nil || upToDate.Status != metav1.ConditionTrue || !causedByTemplate[found.Condition.Reason] || !found.deletes() {
		return nil
	}
	helps, err := f.undoHelps(ctx, o)
	if helps {
		found.Help = "roll back if the new template is the cause, else " + found.Help
		found.Command = command("kubectl drover rollout undo machinedeployment/{name} --namespace {namespace}", o.ref)
	}
	return err
}

// mentionUndo adds a rollback to the advice for a Machine of a rollout without progress.
func (f *Finder) mentionUndo(ctx context.Context, o owner, found *Finding) error {
	if o.deployment == nil || o.rollbackFailed() != nil {
		return nil
	}
	helps, err := f.undoHelps(ctx, o)
	if helps {
		found.Help += ", or roll back if the new template is the cause"
	}
	return err
}

// undoHelps reports whether a rollback withdraws a template of which no Machine is available: one that gave an available Machine is
// not what stops the rollout. A user who may not read the revisions cannot roll back with the command.
func (f *Finder) undoHelps(ctx context.Context, o owner) (bool, error) {
	history, err := rollout.History(ctx, f.Reader, o.deployment)
	if object.IsForbidden(err) {
		return false, nil
	}
	return err == nil && history.WithdrawsTemplate() && history.Available() == 0, err
}

// rollbackFailed is why the last rollback failed; nil if there was none since the spec changed.
func (o owner) rollbackFailed() *Finding {
	return o.with(droverpolicyv1.RolledBackCondition, metav1.ConditionFalse)
}

// reviewUndo takes the rollback out of a finding about a rollout without progress if it has failed, or unless it helps.
func (f *Finder) reviewUndo(ctx context.Context, o owner, found *Finding) error {
	if found == nil || o.deployment == nil || found.Condition.Type != droverpolicyv1.ProgressingCondition {
		return nil
	}
	if failed := o.rollbackFailed(); failed != nil {
		found.Facts = append(found.Facts, failed.condition("Its condition "+failed.Condition.Type))
		found.Help, found.Command = failed.Help, failed.Command
		return nil
	}
	helps, err := f.undoHelps(ctx, o)
	if !helps && err == nil {
		o.withoutUndo(found)
	}
	return err
}
