// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/rollout/revision"
	"drover.io/runtime/results"
)

// rollBack restores an earlier revision if an annotation requests it. A revision that does not exist, or that the API
// server refuses, is reported; the annotation is removed in either case.
func (r *Reconciler) rollBack(ctx context.Context, s *state) error {
	md := s.deployment
	if _, requested := md.Annotations[revision.RollbackAnnotation]; !requested {
		return nil
	}
	wanted, previous := md.DeepCopy(), revision.Of(md)
	set, failure := revision.Restore(wanted, s.sets)
	reason := RevisionNotKeptReason
	if failure == nil {
		err := patch.Main(ctx, r.Client, md, wanted)
		if err == nil {
			*md = *wanted
			ctrl.LoggerFrom(ctx).Info("rolled back MachineDeployment", "MachineSet", klog.KObj(set), "revision", revision.Of(set), "previousRevision", previous)
			rolledBack(r.Events, md, set)
			return nil
		}
		if !results.IsRefused(err) {
			return fmt.Errorf("rolling MachineDeployment back: %w", err)
		}
		failure, reason = fmt.Errorf("the API server refuses the template of that revision: %w", err), RollbackRefusedReason
	}
	return r.reportRollbackFailed(ctx, md, reason, failure)
}

// reportRollbackFailed writes the condition before it removes the annotation: a crash in between repeats the attempt
// rather than losing the result.
func (r *Reconciler) reportRollbackFailed(ctx context.Context, md *clusterv1.MachineDeployment, reason string, failure error) error {
	before := md.DeepCopy()
	setNotRolledBack(md, reason, failure)
	if err := patch.Status(ctx, r.Client, before, md); err != nil {
		return fmt.Errorf("patching the status of MachineDeployment: %w", err)
	}
	before = md.DeepCopy()
	delete(md.Annotations, revision.RollbackAnnotation)
	if err := patch.Main(ctx, r.Client, before, md); err != nil {
		return fmt.Errorf("patching MachineDeployment: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("rejected rollback of MachineDeployment", "reason", reason, "message", failure.Error())
	notRolledBack(r.Events, md, failure)
	return nil
}
