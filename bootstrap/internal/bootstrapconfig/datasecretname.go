// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"context"
	"time"
)

// dataSecretStatus sets in the status where the data is. It is the last phase: no host can boot before its token exists.
type dataSecretStatus struct{}

func (*dataSecretStatus) reconcile(_ context.Context, s *state) (time.Duration, error) {
	if s.published() {
		setReady(s.config)
		return 0, nil
	}
	// After a move to another management cluster the status is empty, and the Machine may name the Secret.
	name := s.config.Name
	if known := s.machine.Spec.Bootstrap.DataSecretName; known != nil && *known != "" {
		name = *known
	}
	s.config.Status.DataSecretName = name
	s.config.Status.Initialization.DataSecretCreated = new(true)
	setReady(s.config)
	return 0, nil
}
