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

// keeper keeps one Cluster connected. All that it knows belongs to the
// goroutine of run; the others read view and leave word in secretVersion.
// Attempts to connect and probes run beside it, at most one of each.
type keeper struct {
	cluster  client.ObjectKey
	uid      types.UID
	options  *Options
	log      logr.Logger
	observer nodecache.Observer
	changed  func()
	dial     func(context.Context, call) answer
	probe    func(context.Context, *Connection) *failure

	view          atomic.Pointer[view]
	secretVersion atomic.Pointer[string]
	wake          chan struct{}
	stop          context.CancelFunc
	done          <-chan struct{}
	closing       sync.WaitGroup

	connection *Connection
	lastNodes  *nodecache.Cache
	state      State

	answers     chan answer
	dialAt      time.Time
	dialing     bool
	dialAgain   bool
	attempts    int
	usedVersion string
	plainList   bool
	dialFailure *failure

	verdicts     chan verdict
	probeAt      time.Time
	probing      bool
	unauthorized bool
	probeFailure *failure
}

// view is what other goroutines see of a keeper.
type view struct {
	connection *Connection
	state      State
}

// verdict is how a probe of a Connection ended.
type verdict struct {
	connection *Connection
	failure    *failure
}

// begin fills in what the first iteration of run needs.
func (k *keeper) begin() {
	now := k.options.Clock.Now()
	k.wake = make(chan struct{}, 1)
	k.answers = make(chan answer, 1)
	k.verdicts = make(chan verdict, 1)
	k.dialAt = now
	k.dialFailure = failed(ReasonConnecting, "no attempt to connect has ended yet")
	k.state.DisconnectedSince = now
	k.publish()
}

// secretSeen tells the keeper which version of the kubeconfig Secret exists.
func (k *keeper) secretSeen(version string) {
	k.secretVersion.Store(&version)
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// run keeps the Cluster connected until ctx ends, and returns once nothing of
// the connection is left.
func (k *keeper) run(ctx context.Context) {
	k.done = ctx.Done()
	for ctx.Err() == nil {
		k.launch(ctx)
		timer := k.options.Clock.NewTimer(k.untilNext())
		select {
		case <-ctx.Done():
		case <-k.wake:
			k.onSecret()
		case a := <-k.answers:
			k.onAnswer(a)
		case v := <-k.verdicts:
			k.onVerdict(v)
		case <-timer.C():
		}
		timer.Stop()
		k.publish()
	}
	k.end()
}

func (k *keeper) end() {
	if k.probing {
		<-k.verdicts
	}
	if k.dialing {
		if a := <-k.answers; a.connection != nil {
			a.connection.close()
		}
	}
	if k.connection != nil {
		k.connection.close()
	}
	k.closing.Wait()
}

// launch starts the attempt and the probe that are due.
func (k *keeper) launch(ctx context.Context) {
	now := k.options.Clock.Now()
	if !k.dialing && !k.dialAt.IsZero() && !now.Before(k.dialAt) {
		k.dialing, k.dialAt = true, time.Time{}
		c := call{cluster: k.cluster, plainList: k.plainList, observer: k.observer}
		if k.connection != nil && !k.unauthorized {
			c.present = k.connection.content
		}
		go func() { k.answers <- k.dial(ctx, c) }()
	}
	if k.connection != nil && !k.probing && !now.Before(k.probeAt) {
		k.probing = true
		connection := k.connection
		go func() { k.verdicts <- verdict{connection, k.probe(ctx, connection)} }()
	}
}

// untilNext is how long nothing is due. What is under way ends by itself.
func (k *keeper) untilNext() time.Duration {
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
func (k *keeper) onSecret() {
	seen := k.secretVersion.Load()
	if seen == nil || *seen == "" || *seen == k.usedVersion {
		return
	}
	k.attempts = 0
	k.dialNow()
}

func (k *keeper) dialNow() {
	if k.dialing {
		k.dialAgain = true
		return
	}
	k.dialAt = k.options.Clock.Now()
}

// publish shows the state to other goroutines and wakes the watchers if
// something other than time has changed.
func (k *keeper) publish() {
	state := k.state
	trouble := k.dialFailure
	if trouble == nil || (k.connection != nil && k.probeFailure != nil) {
		trouble = k.probeFailure
	}
	if trouble != nil {
		state.Reason, state.Message = trouble.reason, trouble.message
	}
	before := k.view.Swap(&view{connection: k.connection, state: state})
	if before != nil && (before.connection != k.connection || before.state.differs(state)) {
		k.changed()
	}
}
