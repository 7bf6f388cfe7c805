// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/machine-controller/internal/workload/nodecache"
)

// connector keeps one Cluster connected. All its fields belong to the
// goroutine of run; the others read view and write secretVersion.
// Attempts to connect and probes run beside it, at most one of each.
type connector struct {
	cluster  client.ObjectKey
	uid      types.UID
	options  *Options
	log      logr.Logger
	observer nodecache.Observer
	changed  func()
	dial     func(context.Context, dialRequest) dialResult
	probe    func(context.Context, *Connection) *failure
	claim    func(context.Context, *Connection) *Claim

	view          atomic.Pointer[view]
	secretVersion atomic.Pointer[string]
	secretChanged chan struct{}
	stop          context.CancelFunc
	done          <-chan struct{}
	// released is true once this manager no longer follows the Cluster.
	released atomic.Bool
	closing  sync.WaitGroup

	connection *Connection
	lastNodes  *nodecache.Cache
	state      State

	dialResults chan dialResult
	dialAt      time.Time
	dialing     bool
	dialAgain   bool
	attempts    int
	usedVersion string
	plainList   bool
	late        bool
	dialFailure *failure

	probeResults chan probeResult
	probeAt      time.Time
	claimAt      time.Time
	// claimedBy is the kubeconfig with which the claim was last found out.
	claimedBy    string
	probing      bool
	unauthorized bool
	probeFailure *failure
}

// view is what other goroutines read of a connector.
type view struct {
	connection *Connection
	state      State
}

// probeResult is how a probe of a Connection ended.
type probeResult struct {
	connection *Connection
	failure    *failure
	// claim is what came of an attempt to claim the cluster; nil without one.
	claim *Claim
}

// initialize fills in what the first iteration of run needs.
func (k *connector) initialize() {
	now := k.options.Clock.Now()
	k.secretChanged = make(chan struct{}, 1)
	k.dialResults = make(chan dialResult, 1)
	k.probeResults = make(chan probeResult, 1)
	k.dialAt = now
	k.dialFailure = failed(ReasonConnecting, "no attempt to connect has ended yet")
	k.state.DisconnectedSince = now
	k.publish()
}

// secretSeen passes on which version of the kubeconfig Secret exists.
func (k *connector) secretSeen(version string) {
	k.secretVersion.Store(&version)
	select {
	case k.secretChanged <- struct{}{}:
	default:
	}
}

// run keeps the Cluster connected until ctx ends, and returns once nothing of
// the connection is left.
func (k *connector) run(ctx context.Context) {
	k.done = ctx.Done()
	for ctx.Err() == nil {
		k.launch(ctx)
		timer := k.options.Clock.NewTimer(k.untilNext())
		select {
		case <-ctx.Done():
		case <-k.secretChanged:
			k.onSecret()
		case a := <-k.dialResults:
			k.onDialResult(a)
		case v := <-k.probeResults:
			k.onProbeResult(v)
		case <-timer.C():
		}
		timer.Stop()
		k.publish()
	}
	k.end()
}

func (k *connector) end() {
	if k.probing {
		<-k.probeResults
	}
	if k.dialing {
		if a := <-k.dialResults; a.connection != nil {
			if k.released.Load() {
				k.release(a.connection) // it may have made the first claim
			}
			a.connection.close()
			a.connection.nodes.Release()
		}
	}
	if k.connection != nil {
		if k.released.Load() {
			k.release(k.connection)
		}
		k.connection.close()
		k.connection.nodes.Release()
	}
	k.releaseNodes()
	k.closing.Wait()
}

// release gives up the claim on the workload cluster, so that another management
// cluster needs no operator to take it over. Where that fails, it does.
func (k *connector) release(connection *Connection) {
	ctx, cancel := context.WithTimeout(context.Background(), k.options.ProbeTimeout)
	defer cancel()
	if err := k.options.Claimer.Release(ctx, connection.claiming, k.cluster); err != nil {
		k.log.Error(err, "releasing the claim on the workload cluster")
	}
}

// examine probes a connection and, if that is due, renews the claim.
func (k *connector) examine(ctx context.Context, connection *Connection, claim bool) {
	v := probeResult{connection: connection, failure: k.probe(ctx, connection)}
	if v.failure == nil && claim {
		v.claim = k.claim(ctx, connection)
	}
	k.probeResults <- v
}

// claimDue reports whether the next probe renews the claim. One that is not held is tried with each probe.
func (k *connector) claimDue(now time.Time) bool {
	return k.state.Claim.Status != ClaimHeld || !now.Before(k.claimAt)
}

// onClaim takes the result of an attempt to claim the workload cluster. One that failed changes nothing that is known.
func (k *connector) onClaim(connection *Connection, claim *Claim) {
	switch {
	case claim == nil:
		return
	case claim.Status == ClaimUnknown:
		if k.state.Claim.Status == ClaimUnknown {
			k.state.Claim = *claim
		}
		return
	}
	k.claimedBy = connection.content
	if before := k.state.Claim; before.Status != claim.Status {
		k.log.Info("claim on workload cluster changed", "status", claim.Status, "previousStatus", before.Status, "message", claim.Message)
	}
	k.state.Claim = *claim
	k.claimAt = k.options.Clock.Now().Add(k.options.ClaimInterval)
}

// launch starts the attempt and the probe that are due.
func (k *connector) launch(ctx context.Context) {
	now := k.options.Clock.Now()
	if !k.dialing && !k.dialAt.IsZero() && !now.Before(k.dialAt) {
		k.dialing, k.dialAt = true, time.Time{}
		c := dialRequest{cluster: k.cluster, plainList: k.plainList, late: k.late, observer: k.observer}
		if k.connection != nil && !k.unauthorized {
			c.present = k.connection.content
		}
		go func() { k.dialResults <- k.dial(ctx, c) }()
	}
	if k.connection != nil && !k.probing && !now.Before(k.probeAt) {
		k.probing = true
		go k.examine(ctx, k.connection, k.claimDue(now))
	}
}

// untilNext is how long nothing is due. What is under way ends by itself.
func (k *connector) untilNext() time.Duration {
	now := k.options.Clock.Now()
	wait := time.Hour
	if !k.dialing && !k.dialAt.IsZero() {
		wait = min(wait, k.dialAt.Sub(now))
	}
	if k.connection != nil && !k.probing {
		wait = min(wait, k.probeAt.Sub(now))
	}
	return max(wait, 0)
}

// onSecret connects at once if the Secret is not the one that was used last.
func (k *connector) onSecret() {
	seen := k.secretVersion.Load()
	if seen == nil || *seen == "" || *seen == k.usedVersion {
		return
	}
	k.attempts = 0
	k.dialNow()
}

func (k *connector) dialNow() {
	if k.dialing {
		k.dialAgain = true
		return
	}
	k.dialAt = k.options.Clock.Now()
}

// publish shows the state to other goroutines and enqueues the watchers' requests if
// something other than time has changed.
func (k *connector) publish() {
	state := k.state
	failure := k.dialFailure
	if failure == nil || (k.connection != nil && k.probeFailure != nil) {
		failure = k.probeFailure
	}
	if failure != nil {
		state.Reason, state.Message = failure.reason, failure.message
	}
	before := k.view.Swap(&view{connection: k.connection, state: state})
	if before != nil && (before.connection != k.connection || before.state.differs(state)) {
		k.changed()
	}
}
