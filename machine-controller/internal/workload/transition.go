// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import "time"

// onDialResult takes the result of an attempt to connect.
func (k *connector) onDialResult(a dialResult) {
	k.dialing = false
	if a.secretVersion != "" {
		k.usedVersion = a.secretVersion
	}
	switch {
	case a.failure != nil:
		k.onRefusal(a.failure)
	case a.connection != nil:
		if (a.claim == nil || a.claim.Status == ClaimUnknown) && a.connection.content != k.claimedBy {
			k.state.Claim = Claim{} // this kubeconfig may lead to another cluster than the last
		}
		k.onClaim(a.connection, a.claim)
		k.adopt(a.connection)
	default:
		k.attempts, k.dialFailure = 0, nil
	}
	if k.dialAgain {
		k.dialAgain = false
		k.dialAt = k.options.Clock.Now()
	}
}

// onRefusal plans the next attempt. A connection that works stays; one whose
// credentials are refused ends with the first attempt that fails.
func (k *connector) onRefusal(f *failure) {
	now := k.options.Clock.Now()
	k.attempts++
	k.dialFailure = f
	k.dialAt = now.Add(k.options.retryAfter(k.attempts))
	if f.late {
		k.plainList, k.late = !k.plainList, true
	}
	if f.full {
		k.releaseNodes() // they may use the memory that is lacking
	}
	if k.connection == nil {
		k.state.LastProbe = now
		k.state.ConsecutiveFailures++
		k.log.V(1).Info("could not connect to workload cluster", "reason", f.reason, "message", f.message)
		return
	}
	if k.unauthorized {
		k.disconnect(k.probeFailure)
	}
}

// adopt makes a new connection the one in use, and then closes the old one:
// a caller in between gets the one or the other, and both work.
func (k *connector) adopt(next *Connection) {
	now := k.options.Clock.Now()
	old, before := k.connection, k.lastNodes
	k.connection, k.lastNodes = next, nil
	k.attempts, k.dialFailure, k.probeFailure, k.unauthorized, k.late = 0, nil, nil, false, false
	k.probeAt = now.Add(k.options.nextProbeAfter())
	if !k.state.Connected {
		k.state.Connected, k.state.ConnectedSince, k.state.DisconnectedSince = true, now, time.Time{}
	}
	k.state.LastProbe, k.state.LastProbeSuccess, k.state.ConsecutiveFailures = now, now, 0
	k.publish()

	if old != nil {
		before = old.nodes
		grace := k.options.Clock.After(2 * k.options.RequestTimeout)
		k.closing.Go(func() { old.retire(grace, k.done) })
	}
	next.nodes.Announce(before)
	if before != nil {
		before.Release()
	}
	if old == nil {
		k.log.Info("connected to workload cluster", "count", next.nodes.Len())
	} else {
		k.log.Info("replaced connection to workload cluster", "count", next.nodes.Len())
	}
}

// onProbeResult takes the result of a probe.
func (k *connector) onProbeResult(v probeResult) {
	k.probing = false
	if v.connection != k.connection {
		return
	}
	now := k.options.Clock.Now()
	k.probeAt = now.Add(k.options.nextProbeAfter())
	k.state.LastProbe = now
	k.probeFailure = v.failure
	if v.failure == nil {
		k.state.LastProbeSuccess, k.state.ConsecutiveFailures, k.unauthorized = now, 0, false
		k.onClaim(v.connection, v.claim)
		return
	}
	k.state.ConsecutiveFailures++
	switch {
	case v.failure.reason == ReasonUnauthorized:
		// Most likely the kubeconfig was rotated: read it at once.
		k.unauthorized = true
		if !k.dialing {
			k.dialNow()
		}
	case k.state.ConsecutiveFailures >= k.options.FailureThreshold:
		k.disconnect(v.failure)
		k.attempts = 0
		k.dialNow()
	}
}

// releaseNodes releases the memory of the last connection's Nodes: after the next, all are announced.
func (k *connector) releaseNodes() {
	if k.lastNodes != nil {
		k.lastNodes.Release()
		k.lastNodes = nil
	}
}

// disconnect gives the connection up, but keeps its Nodes so that after the
// next connection only those that changed meanwhile are announced.
func (k *connector) disconnect(f *failure) {
	old := k.connection
	k.connection, k.lastNodes, k.unauthorized = nil, old.nodes, false
	k.state.Connected, k.state.ConnectedSince, k.state.DisconnectedSince = false, time.Time{}, k.options.Clock.Now()
	k.closing.Go(old.close)
	k.log.Info("disconnected from workload cluster", "reason", f.reason, "message", f.message)
}
