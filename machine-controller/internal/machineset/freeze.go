// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drover.io/machine-controller/internal/machineowner"
	"drover.io/machine-controller/internal/safety"
	"drover.io/runtime/results"
)

// freezer freezes a set without a MachineDeployment that has too many Machines. The machinedeployment controller freezes
// the others.
type freezer struct{ machineowner.Freezer }

func (f *freezer) run(ctx context.Context, s *state) (reconcile.Result, error) {
	if metav1.GetControllerOfNoCopy(s.set) != nil {
		return reconcile.Result{}, nil
	}
	var err error
	s.freeze, err = f.Run(ctx, s.set.DeepCopy(), s.set, safety.OwnerOfSet(s.set), s.machines)
	return reconcile.Result{RequeueAfter: s.freeze.RequeueAfter}, results.IgnoreNotFoundOrConflict(err)
}
