// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drover.io/runtime/expiring"
)

const (
	// heartbeat is the time between two renewals of a Memory.
	heartbeat = time.Minute
	// heartbeatTimeout bounds one renewal, and is the pause after one that failed.
	heartbeatTimeout = 10 * time.Second
	// memorySlack is how much longer the provider before this one may have run than its last heartbeat says, and
	// how far the cloud's clock may be off.
	memorySlack = 2 * heartbeat
	// createdTTL is how long a Memory keeps what this process has created.
	createdTTL = 24 * time.Hour
)

// Memory has the times at which a provider of this installation was running, as far as this API server has them. What was
// created in the cloud at any other time was created by another management cluster, although it has the tags of a Cluster
// of this one: one of them is a copy of the other, restored from a snapshot.
//
// It is a Lease whose renewTime is a heartbeat. All exported fields are required.
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
	for {
		pause := heartbeat
		if err := m.Renew(ctx); err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "renewing the provider's heartbeat", "Lease", klog.KRef(m.Key.Namespace, m.Key.Name))
			pause = heartbeatTimeout
		}
		timer := m.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

// Renew writes one heartbeat. The first call reads the one of the provider before.
func (m *Memory) Renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	lease := &coordinationv1.Lease{}
	err := m.Client.Get(ctx, m.Key, lease)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return fmt.Errorf("reading Lease: %w", err)
	}
	var last time.Time
	if lease.Spec.RenewTime != nil {
		last = lease.Spec.RenewTime.Time
	}
	now := metav1.NewMicroTime(m.Clock.Now())
	lease.Namespace, lease.Name = m.Key.Namespace, m.Key.Name
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &m.Holder, &now
	if missing {
		err = m.Client.Create(ctx, lease)
	} else {
		err = m.Client.Update(ctx, lease)
	}
	if err != nil {
		return fmt.Errorf("writing Lease: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.known {
		m.known, m.until = true, last
	}
	return nil
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
	return m.known && !created.IsZero() && !created.After(m.until.Add(memorySlack))
}
