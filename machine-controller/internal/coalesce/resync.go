// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package coalesce

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drover.io/runtime/expiring"
)

// ResyncPeriod is how long, for each of its Machines, an object is not reconciled again. A reconcile costs some 5 µs for
// each, so that an object with any number of Machines costs 1 % of a core at most while they change; up to 400 Machines
// Window is longer.
const ResyncPeriod = 500 * time.Microsecond

// ResyncLimiter spaces out the reconciles of objects with many Machines. Only its Clock has to be set.
type ResyncLimiter struct{ expiring.Limiter[types.UID] }

// MarkReconciled notes that an object with so many Machines was reconciled.
func (l *ResyncLimiter) MarkReconciled(uid types.UID, machines int) {
	if period := time.Duration(machines)*ResyncPeriod - Window; period > 0 {
		l.MarkFor(uid, period)
	}
}
