// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import (
	"context"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/managementclaim"
)

// retag writes the UID of a Cluster that moved to another management cluster into the tags. With the old UID the
// collector of orphans would not delete what a machine leaves behind. An instance runs as well with old tags, so a
// failure is retried and does not change Ready. While another management cluster acts on the Cluster, the tags have its UID.
func (r *Reconciler[M, C]) retag(ctx context.Context, s *state[M, C]) (ctrl.Result, error) {
	if s.cluster == nil || s.observed.State == driver.Terminated || s.observed.Identity.Owner.UID == s.cluster.UID ||
		managementclaim.Forbids(s.cluster) {
		return ctrl.Result{}, nil
	}
	cloud, err := r.Accounts.Driver(ctx, s.machine)
	if err != nil || cloud.Tag == nil {
		return ctrl.Result{}, err
	}
	if err := cloud.Tag(ctx, s.identity()); driver.IsBusy(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("tagging instance: %w", err)
	}
	return ctrl.Result{}, nil
}
