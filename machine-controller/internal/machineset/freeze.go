// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drover.io/machine-controller/internal/outcome"
	"drover.io/machine-controller/internal/patch"
	"drover.io/machine-controller/internal/safety"
)

// freeze decides whether a set that stands alone has so many Machines that no more may be
// made. For the others their MachineDeployment decides.
func (r *Reconciler) freeze(ctx context.Context, f *family) error {
	if metav1.GetControllerOfNoCopy(f.set) != nil {
		return nil
	}
	before := f.set.DeepCopy()
	frost, turned, err := r.Guard.Freeze(ctx, f.set, safety.FleetOfSet(f.set), f.machines)
	if err != nil {
		return err
	}
	f.frost = frost
	if err := patch.Main(ctx, r.Client, before, f.set); err != nil {
		return outcome.Settled(fmt.Errorf("patching MachineSet: %w", err))
	}
	if turned && frost.Label {
		frozen(r.Events, f.set, frost.Message)
	} else if turned {
		thawed(r.Events, f.set)
	}
	return nil
}
