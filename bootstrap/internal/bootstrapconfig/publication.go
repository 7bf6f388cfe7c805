// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package bootstrapconfig

import (
	"context"
	"time"

	"k8s.io/utils/ptr"
)

// publication tells the core where the data is. It comes last: no host can boot before its token exists.
type publication struct{}

func (*publication) reconcile(_ context.Context, t *target) (time.Duration, error) {
	if t.published() {
		setReady(t.config)
		return 0, nil
	}
	// After a move to another management cluster the status is empty, and the Machine may name the Secret.
	name := t.config.Name
	if known := t.machine.Spec.Bootstrap.DataSecretName; known != nil && *known != "" {
		name = *known
	}
	t.config.Status.DataSecretName = name
	t.config.Status.Initialization.DataSecretCreated = ptr.To(true)
	setReady(t.config)
	return 0, nil
}
