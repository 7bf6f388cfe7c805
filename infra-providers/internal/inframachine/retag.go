// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/infra-providers/driver"
)

// retag follows a Cluster that moved to another management cluster and has another UID here. Without it the
// collector of orphans would take what a machine leaves behind for somebody else's. An instance runs no
// worse under old tags, so a failure is retried and says nothing about Ready.
func (r *Reconciler[M, C]) retag(ctx context.Context, job *job[M, C]) (ctrl.Result, error) {
	if job.cluster == nil || job.observed.State == driver.Terminated || job.observed.Identity.Owner.UID == job.cluster.UID {
		return ctrl.Result{}, nil
	}
	cloud, err := r.Accounts.Driver(ctx, job.machine)
	if err != nil || cloud.Tag == nil {
		return ctrl.Result{}, err
	}
	if err := cloud.Tag(ctx, job.identity()); err != nil {
		return ctrl.Result{}, fmt.Errorf("tagging instance: %w", err)
	}
	return ctrl.Result{}, nil
}
