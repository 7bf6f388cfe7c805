// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package inflight records which requests to create something had no answer. The cloud may still carry out such a
// request: within the window a server that is not found may appear later, and to take that for absence would leak it.
//
// The record only delays conclusions about absence. It is empty after a restart, and an earlier process may have made
// requests: until the window has passed, every machine may have one in flight. The hetzner driver calls it.
package inflight

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"drover.io/infra-providers/driver"
	"drover.io/runtime/expiring"
)

// Window is how long a request may take effect after its answer was lost. Usually it takes seconds.
const Window = 2 * time.Minute

// Requests are the requests of one process. They are safe for concurrent use.
type Requests struct {
	clock      clock.PassiveClock
	started    time.Time
	unanswered expiring.Map[types.UID, struct{}]
}

// New returns the requests of a process that starts now.
func New(clock clock.PassiveClock) *Requests {
	r := &Requests{clock: clock, started: clock.Now()}
	r.unanswered.Clock, r.unanswered.TTL = clock, Window
	return r
}

// AddUnanswered records a request for a machine that had no answer.
func (r *Requests) AddUnanswered(uid types.UID) { r.unanswered.Set(uid, struct{}{}) }

// InFlight reports whether a request for a machine may still take effect. For a machine with a provider ID none can: its
// request was answered.
func (r *Requests) InFlight(id driver.Identity) bool {
	return id.ProviderID == "" && (r.unanswered.Has(id.UID) || r.clock.Since(r.started) < Window)
}
