// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package inframachine

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"drover.io/infra-providers/driver"
	"drover.io/infra-providers/internal/account"
)

// correctIdentity looks for the machine's instance under the UID of the object, where the identity annotation has another
// one and leads to no instance. After a move to another management cluster the annotation is right. But core controllers
// copy annotations from the template of a MachineDeployment to existing objects, so that a mistake there would make all
// machines lose their instances. It reports whether it found the instance and corrected the annotation.
func (r *Reconciler[M, C]) correctIdentity(ctx context.Context, s *state[M, C], cloud account.Account[C]) (bool, error) {
	id := s.identity()
	if id.UID == "" || id.UID == s.machine.GetUID() {
		return false, nil
	}
	id.UID = s.machine.GetUID()
	found, err := cloud.Get(ctx, id)
	switch {
	case isGone(found, err), driver.IsNotOwned(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading the instance under the UID of the object: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("corrected the identity annotation", "previousIdentity", s.identity().UID, "identity", id.UID)
	setIdentity(s.machine, id.UID)
	return true, nil
}

// correctBeforeRelease is correctIdentity for a machine whose finalizer would be removed now.
func (r *Reconciler[M, C]) correctBeforeRelease(ctx context.Context, s *state[M, C]) (bool, error) {
	if !claimed(s.machine) || s.identity().UID == s.machine.GetUID() {
		return false, nil
	}
	cloud, err := r.Accounts.Driver(ctx, s.machine)
	if err != nil {
		return false, err
	}
	return r.correctIdentity(ctx, s, cloud)
}
