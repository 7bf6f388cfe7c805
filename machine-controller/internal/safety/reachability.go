// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"fmt"
	"time"

	"drover.io/machine-controller/internal/safety/budget"
	"drover.io/machine-controller/internal/workload"
)

// Reachability is whether an API server is reachable, by its probes. The zero value has not been probed yet and counts as
// unreachable.
type Reachability struct {
	// Since is since when probes succeed; zero while unreachable. How long a Machine or Node has been unhealthy is not
	// counted from before it.
	Since time.Time
	// failingSince is since when no probe has succeeded; zero after one has.
	failingSince time.Time
}

// Probed returns the reachability after a probe that ended at the time. Failures that last shorter than the timeout do not
// count, and leave no trace once a probe succeeds.
func (r Reachability) Probed(answered bool, at time.Time, timeout time.Duration) Reachability {
	if answered {
		if r.Since.IsZero() {
			r.Since = at
		}
		r.failingSince = time.Time{}
		return r
	}
	if r.failingSince.IsZero() {
		r.failingSince = at
	}
	if at.Sub(r.failingSince) >= timeout {
		r.Since = time.Time{}
	}
	return r
}

// Reachable reports whether the last observations may be used for decisions.
func (r Reachability) Reachable() bool { return !r.Since.IsZero() }

// Answering reports whether the latest probe succeeded, too. Between the first failed probe and the timeout the last
// observations still hold, but what cannot be reverted waits.
func (r Reachability) Answering() bool { return r.Reachable() && r.failingSince.IsZero() }

// managementUnreachable refuses everything while the management cluster does not answer.
func managementUnreachable(r Reachability) *budget.Refusal {
	if r.Answering() {
		return nil
	}
	return &budget.Refusal{Reason: budget.ReasonUnreachable, Message: "The API server of the management cluster does not answer: nothing is created or replaced until it does"}
}

// workloadUnreachable refuses everything while a workload cluster that was connected once is not connected, and from the
// first failed probe on.
func workloadUnreachable(initialized bool, state workload.State) *budget.Refusal {
	if !initialized || (state.Connected && state.ConsecutiveFailures == 0) {
		return nil
	}
	why := "not connected yet"
	if state.Message != "" {
		why = state.Message
	}
	return &budget.Refusal{Reason: budget.ReasonUnreachable, Message: fmt.Sprintf("The workload cluster cannot be reached, so nothing is created or replaced until it can: %s", why)}
}

// notClaimed refuses everything in a workload cluster that another management cluster acts on, or that this one has
// not claimed yet. A Cluster that was never connected has no workload cluster to claim.
func notClaimed(initialized bool, state workload.State) *budget.Refusal {
	switch {
	case state.Claim.Status == workload.ClaimHeld, state.Claim.Status == workload.ClaimUnknown && !initialized && !state.Connected:
		return nil
	case state.Claim.Status == workload.ClaimUnknown:
		return &budget.Refusal{Reason: budget.ReasonNotClaimed, Message: "The workload cluster has not been claimed since machine-controller started, so nothing is created, replaced or scaled down until it is: see the condition ManagementClaimed of the Cluster"}
	default:
		return &budget.Refusal{Reason: budget.ReasonNotClaimed, Message: "Nothing is created, replaced or scaled down: " + state.Claim.Message}
	}
}
