// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/expiring"
	"drover.io/runtime/lease"
)

const (
	// memorySlack is how much longer the provider before this one may have run than its last heartbeat shows, and
	// how far the cloud's clock may be off.
	memorySlack = 2 * lease.Period
	// createdTTL is how long a Memory keeps what this process has created.
	createdTTL = 24 * time.Hour
	// gapsAnnotation of the Lease has the gaps, as JSON, and maxGaps is how many are kept: the oldest is dropped first.
	gapsAnnotation = "drover.io/provider-gaps"
	maxGaps        = 100
)

// gap is a time in which no provider of this installation was running.
type gap struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

func (g gap) has(at time.Time) bool { return at.After(g.From) && at.Before(g.To) }

// Memory has the times at which a provider of this installation was running, as far as this API server has them. What was
// created in the cloud at any other time was created by another management cluster, although it has the tags of a Cluster
// of this one: one of them is a copy of the other, restored from a snapshot.
//
// It is a Lease whose renewTime is a heartbeat, with an annotation that keeps earlier times in which none was running: what
// was created then is not ours after another restart either. All exported fields are required.
type Memory struct {
	// Client reads and writes without a cache.
	Client client.Client
	// Key names the Lease.
	Key client.ObjectKey
	// Holder names this process.
	Holder string
	Clock  clock.Clock

	mu    sync.Mutex
	known bool
	until time.Time
	gaps  []gap

	setUp sync.Once
	// created are the UIDs of the instances that this process has created, or tried to.
	created *expiring.Map[types.UID, struct{}]
}

func (m *Memory) creations() *expiring.Map[types.UID, struct{}] {
	m.setUp.Do(func() { m.created = &expiring.Map[types.UID, struct{}]{Clock: m.Clock, TTL: createdTTL} })
	return m.created
}

// Start reads when the provider before this one was last running, and renews the heartbeat until ctx is done. The
// manager calls it while it leads.
func (m *Memory) Start(ctx context.Context) error {
	return lease.Keep(ctx, m.Clock, m.Key, "renewing the provider's heartbeat", m.Renew)
}

// Renew writes one heartbeat. The first call reads the one of the provider before, and adds the gap since then.
func (m *Memory) Renew(ctx context.Context) error {
	var last time.Time
	var gaps []gap
	err := lease.Renew(ctx, m.Client, m.Clock, m.Key, m.Holder, func(stored *coordinationv1.Lease) (err error) {
		if m.Known() {
			return nil
		}
		if stored.Spec.RenewTime != nil {
			last = stored.Spec.RenewTime.Time
		}
		gaps, err = addGap(stored, last, m.Clock.Now())
		return err
	})
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.known {
		m.known, m.until, m.gaps = true, last, gaps
	}
	return nil
}

// addGap adds the time since the last heartbeat to the gaps of a Lease, and returns all of them.
func addGap(stored *coordinationv1.Lease, last, now time.Time) (gaps []gap, err error) {
	if text := stored.Annotations[gapsAnnotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &gaps); err != nil {
			return nil, fmt.Errorf("reading the annotation %s: %w", gapsAnnotation, err)
		}
	}
	since := gap{From: last.Add(memorySlack).UTC(), To: now.Add(-memorySlack).UTC()}
	if last.IsZero() || !since.From.Before(since.To) {
		return gaps, nil
	}
	gaps = append(gaps, since)
	gaps = gaps[max(0, len(gaps)-maxGaps):]
	text, err := json.Marshal(gaps)
	if err != nil {
		return nil, err
	}
	if stored.Annotations == nil {
		stored.Annotations = map[string]string{}
	}
	stored.Annotations[gapsAnnotation] = string(text)
	return gaps, nil
}

// Created records that this process creates the instance of a UID.
func (m *Memory) Created(uid types.UID) { m.creations().Set(uid, struct{}{}) }

// Known reports whether it was read when the provider before this one was running.
func (m *Memory) Known() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known
}

// Ours reports whether something in the cloud may have been created by a provider of this installation.
func (m *Memory) Ours(uid types.UID, created time.Time) bool {
	if m.creations().Has(uid) {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known && !created.IsZero() && !created.After(m.until.Add(memorySlack)) &&
		!slices.ContainsFunc(m.gaps, func(g gap) bool { return g.has(created) })
}
