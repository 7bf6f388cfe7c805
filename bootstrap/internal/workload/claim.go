// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drover.io/runtime/claim"
)

// claimCheck is the check of who acts on the workload cluster, and claimPeriod is how often it is made: as often as
// machine-controller renews its claim.
const claimCheck, claimPeriod = "claim", time.Minute

// ClaimedElsewhere reports whether another management cluster acts on the workload cluster, and its holder of the claim.
// While none does, that is read once in a while. Without a reader none does.
func (c *Connection) ClaimedElsewhere(ctx context.Context, claims *claim.Reader, cluster types.NamespacedName) (holder string, elsewhere bool, err error) {
	if claims == nil || !c.CheckDue(claimCheck) {
		return "", false, nil
	}
	if holder, elsewhere, err = claims.Elsewhere(ctx, c.Coordination, cluster); err == nil && !elsewhere {
		c.MarkChecked(claimCheck, claimPeriod)
	}
	return holder, elsewhere, err
}
