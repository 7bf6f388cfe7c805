// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/contract"
	"drover.io/machine-controller/internal/machineset/creation"
)

// repairer creates the children that a crash between two writes, or a person, left a Machine without, as long as the
// Machine waits for them.
type repairer struct{ creator *creation.Creator }

func (r *repairer) run(ctx context.Context, s *state) (reconcile.Result, error) {
	var lacking []*clusterv1.Machine
	for _, m := range s.machines {
		if m.DeletionTimestamp.IsZero() && creation.LacksChildren(s.set, m) {
			lacking = append(lacking, m)
		}
	}
	if len(lacking) == 0 {
		return reconcile.Result{}, nil
	}
	from, err := r.creator.ReadTemplates(ctx, s.set)
	if err != nil {
		s.blocked = err
		return reconcile.Result{}, ignoreMisconfigured(err)
	}
	var errs []error
	for _, m := range lacking {
		errs = append(errs, r.creator.CreateChildren(ctx, s.set, m, from.Lacking(s.set, m)))
	}
	s.blocked = kerrors.NewAggregate(errs)
	return reconcile.Result{}, s.blocked
}

// ignoreMisconfigured drops the errors that only a change by a user resolves, once they are in a condition.
func ignoreMisconfigured(err error) error {
	if apierrors.IsNotFound(err) || contract.IsMisconfigured(err) {
		return nil
	}
	return err
}
