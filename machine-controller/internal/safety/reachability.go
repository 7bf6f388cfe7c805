// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"fmt"
	"time"

	"drover.io/machine-controller/internal/workload"
)

// Reachability is whether an API server can be reached, as its probes tell. The zero value has not
// been probed yet and counts as unreachable.
type Reachability struct {
	// Since is when the present stretch of answers began; zero while unreachable. What was
	// seen of Machines and Nodes before it says nothing about how long they have been unwell.
	Since time.Time
	// failingSince is since when no probe has succeeded; zero after one has.
	failingSince time.Time
}

// Probed returns the reach after a probe that ended at the time. A silence shorter than the
// timeout does not count, and leaves no trace once it is over.
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

// Reachable reports whether decisions may rest on what is known.
func (r Reachability) Reachable() bool { return !r.Since.IsZero() }

// Answering reports whether the latest probe was answered. Between one that was not and the
// timeout nobody knows whether this is a blip: what is known still stands, but what cannot be
// taken back waits.
func (r Reachability) Answering() bool { return r.Reachable() && r.failingSince.IsZero() }

// managementUnreachable refuses everything while the management cluster does not answer.
func managementUnreachable(r Reachability) *Refusal {
	if r.Answering() {
		return nil
	}
	return &Refusal{ReasonUnreachable, "The API server of the management cluster does not answer: nothing is created or replaced until it does"}
}

// workloadUnreachable refuses everything while a workload cluster that was connected once is not,
// and from the first probe on that it leaves unanswered.
func workloadUnreachable(initialized bool, state workload.State) *Refusal {
	if !initialized || (state.Connected && state.ConsecutiveFailures == 0) {
		return nil
	}
	why := "not connected yet"
	if state.Message != "" {
		why = state.Message
	}
	return &Refusal{ReasonUnreachable, fmt.Sprintf("The workload cluster cannot be reached, so nothing is created or replaced until it can: %s", why)}
}

// notClaimed refuses everything in a workload cluster that another management cluster acts on, or that this one has
// not claimed yet. A Cluster that was never connected has no workload cluster to claim.
func notClaimed(initialized bool, state workload.State) *Refusal {
	switch {
	case state.Claim.Status == workload.ClaimHeld, state.Claim.Status == workload.ClaimUnknown && !initialized && !state.Connected:
		return nil
	case state.Claim.Status == workload.ClaimUnknown:
		return &Refusal{ReasonNotClaimed, "The workload cluster has not been claimed since machine-controller started, so nothing is created, replaced or scaled down until it is: see the condition ManagementClaimed of the Cluster"}
	default:
		return &Refusal{ReasonNotClaimed, "Nothing is created, replaced or scaled down: " + state.Claim.Message}
	}
}
