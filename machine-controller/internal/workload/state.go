// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reason is why a workload cluster cannot be reached, in one word.
type Reason string

// The reasons. Each is about the latest attempt to connect or to probe.
const (
	// ReasonConnecting means that no attempt has ended yet.
	ReasonConnecting Reason = "Connecting"
	// ReasonKubeconfigMissing means that the Secret <cluster>-kubeconfig does not exist.
	ReasonKubeconfigMissing Reason = "KubeconfigMissing"
	// ReasonKubeconfigUnreadable means that the management cluster did not permit to read the Secret.
	ReasonKubeconfigUnreadable Reason = "KubeconfigUnreadable"
	// ReasonKubeconfigInvalid means that the Secret holds no kubeconfig that may be used.
	ReasonKubeconfigInvalid Reason = "KubeconfigInvalid"
	// ReasonUnreachable means that the API server did not answer, or not as itself.
	ReasonUnreachable Reason = "Unreachable"
	// ReasonUnauthorized means that the API server refuses the kubeconfig's credentials.
	ReasonUnauthorized Reason = "Unauthorized"
	// ReasonForbidden means that the kubeconfig's user may not list and watch Nodes.
	ReasonForbidden Reason = "Forbidden"
	// ReasonNodesTooLarge means that there is no room for the cluster's Nodes in memory.
	ReasonNodesTooLarge Reason = "NodesTooLarge"
	// ReasonTooManyNodeEvents means that the Nodes of the namespace's clusters change faster than is read.
	ReasonTooManyNodeEvents Reason = "TooManyNodeEvents"
)

// State is the state of the connection to one workload cluster. Attempts to
// connect count as probes while there is no connection.
type State struct {
	// Connected is true while Get returns a Connection. It stays true while
	// fewer than FailureThreshold probes failed in a row.
	Connected bool

	// ConnectedSince is when the present connection began; a rotated kubeconfig
	// does not interrupt it. Zero if not connected.
	ConnectedSince time.Time

	// DisconnectedSince is when the last connection was given up, or when we
	// first heard of the Cluster. Zero if connected.
	DisconnectedSince time.Time

	// LastProbe is when the latest probe ended, whatever came out of it.
	LastProbe time.Time

	// LastProbeSuccess is when a probe last succeeded. Zero if never.
	LastProbeSuccess time.Time

	// ConsecutiveFailures is the number of probes that failed since then.
	ConsecutiveFailures int

	// Reason and Message are what is wrong; both are empty if nothing is. The
	// message holds no times and no port numbers of ours: it only changes when
	// the trouble does. They may be set while Connected: after a failed probe,
	// or when a new kubeconfig does not work and the old one still does.
	Reason  Reason
	Message string

	// Claim is whether this management cluster may act on the workload
	// cluster, as far as that is known. It outlives the connection.
	Claim Claim
}

// Claim is whether this management cluster may act on a workload cluster. The
// zero value is not known yet, and permits nothing.
type Claim struct {
	Status ClaimStatus
	// Message is why not, and what to do about it. It never changes while the
	// cause stays the same.
	Message string
}

// ClaimStatus is what came out of the latest attempt to claim a workload cluster.
type ClaimStatus string

const (
	// ClaimUnknown means that no attempt has succeeded yet.
	ClaimUnknown ClaimStatus = ""
	// ClaimHeld means that this management cluster acts on the workload cluster.
	ClaimHeld ClaimStatus = "Held"
	// ClaimForeign means that another management cluster does.
	ClaimForeign ClaimStatus = "Foreign"
	// ClaimForbidden means that the workload cluster does not permit to claim it.
	ClaimForbidden ClaimStatus = "Forbidden"
)

// differs reports whether b is worth waking those who watch: times alone are not.
func (s State) differs(b State) bool {
	return s.Connected != b.Connected || s.Reason != b.Reason || s.Message != b.Message || s.Claim != b.Claim
}

// ErrNotConnected matches, with errors.Is, each error that Connections.Get returns.
var ErrNotConnected = errors.New("workload cluster is not connected")

// NotConnectedError is why and since when a workload cluster is not connected.
type NotConnectedError struct {
	Cluster client.ObjectKey
	Since   time.Time
	Reason  Reason
	Message string
}

// Error names the cluster and the reason. It leaves the time out, so that it
// may go into a condition.
func (e *NotConnectedError) Error() string {
	return fmt.Sprintf("cluster %q is not connected: %s: %s", e.Cluster, e.Reason, e.Message)
}

// Is makes errors.Is(err, ErrNotConnected) true.
func (e *NotConnectedError) Is(target error) bool { return target == ErrNotConnected }

// IsNotConnected reports whether an error is, or wraps, a NotConnectedError.
func IsNotConnected(err error) bool { return errors.Is(err, ErrNotConnected) }
