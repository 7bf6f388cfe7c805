// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// bootstrapStep deletes the BootstrapConfig, after the instance that was booted with it.
type bootstrapStep struct {
	client    client.Client
	requested *Requested
}

func (d bootstrapStep) run(ctx context.Context, s *State) (Progress, error) {
	ref := s.Machine.Spec.Bootstrap.ConfigRef
	if !ref.IsDefined() {
		return done, nil
	}
	waiting := Progress{Reason: clusterv1.MachineDeletingWaitingForBootstrapDeletionReason, Message: waitingFor(ref, s.Bootstrap.Err)}
	return objectDeleter(d).run(ctx, s.Machine, s.Bootstrap, waiting)
}
