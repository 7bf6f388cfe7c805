// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/safety"
	"drover.io/runtime/results"
)

// freeze decides whether a set that stands alone has so many Machines that no more may be
// made. For the others their MachineDeployment decides.
func (r *Reconciler) freeze(ctx context.Context, s *state) error {
	if metav1.GetControllerOfNoCopy(s.set) != nil {
		return nil
	}
	before := s.set.DeepCopy()
	freeze, turned, err := r.Guard.Freeze(ctx, s.set, safety.OwnerOfSet(s.set), s.machines)
	if err != nil {
		return err
	}
	s.freeze = freeze
	if err := patch.Main(ctx, r.Client, before, s.set); err != nil {
		return results.IgnoreNotFoundOrConflict(fmt.Errorf("patching MachineSet: %w", err))
	}
	if turned && freeze.Label {
		freezeBegan(r.Events, s.set, freeze.Message)
	} else if turned {
		freezeEnded(r.Events, s.set)
	}
	return nil
}
