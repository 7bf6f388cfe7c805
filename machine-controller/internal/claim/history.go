// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

// Package claim makes sure that one management cluster at a time acts on a workload cluster. A management
// cluster that is restored from a snapshot and runs beside its original has the same Clusters and the same
// credentials, and would drain and delete what the original has created since. Nothing in etcd distinguishes the two,
// so the workload cluster, which both can reach, decides: a Lease in it names the management cluster that acts on it.
//
//	management cluster                          workload cluster
//	History: holder and sequence, ─ written ──▶  Lease: holder and sequence,
//	stored once a minute            after       one for each Cluster object
//
// A claim may be taken over only by a management cluster that has recorded it: its holder is in the History, with a
// sequence number that is at least the claim's. A restarted manager has the record of the process before it. A copy
// has no record of what the original has claimed since the snapshot, and the original has none of what the copy claims.
//
// The workload connections call a Claimer; the safety guard and the machine controller act on the result.
package claim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	record "drover.io/runtime/claim"
	"drover.io/runtime/lease"
)

// maxHolders is how many holders a History keeps: one for each time that another process became the leader.
const maxHolders = 200

// History is the record that a management cluster keeps of its own claims, in a Lease. All exported fields are required.
type History struct {
	// Client reads and writes without a cache.
	Client client.Client
	// Namespace is where the Lease is.
	Namespace string
	// Holder is a name of this process that no process had before.
	Holder string
	Clock  clock.Clock

	mu      sync.RWMutex
	history []record.Mark
	stored  chan struct{}
}

// Start stores a mark at once, and another one every [lease.Period], until ctx is done. The manager calls it while it leads.
func (m *History) Start(ctx context.Context) error {
	return lease.Keep(ctx, m.Clock, m.key(), "storing the sequence number of claims", m.Advance)
}

func (m *History) key() client.ObjectKey {
	return client.ObjectKey{Namespace: m.Namespace, Name: record.HistoryLeaseName}
}

// Advance stores the next mark. A mark is used only after it is stored, so that no claim is ahead of the history.
func (m *History) Advance(ctx context.Context) error {
	var history []record.Mark
	err := lease.Renew(ctx, m.Client, m.Clock, m.key(), m.Holder, func(stored *coordinationv1.Lease) error {
		before, err := record.HistoryOf(stored)
		if err != nil {
			return err
		}
		history = advance(before, m.Holder)
		encoded, err := json.Marshal(history)
		if err != nil {
			return fmt.Errorf("encoding history: %w", err)
		}
		metav1.SetMetaDataAnnotation(&stored.ObjectMeta, record.HistoryAnnotation, string(encoded))
		return nil
	})
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.history == nil {
		defer close(m.first())
	}
	m.history = history
	return nil
}

// Mark returns the latest mark that is stored. It waits for the first one, and fails when ctx ends before: the error says
// what is missing, and not that no answer came in time.
func (m *History) Mark(ctx context.Context) (record.Mark, error) {
	m.mu.Lock()
	first := m.first()
	m.mu.Unlock()
	select {
	case <-first:
	case <-ctx.Done():
		return record.Mark{}, fmt.Errorf("machine-controller has not stored its claims in Lease %s/%s of the management cluster yet: see its log", m.Namespace, record.HistoryLeaseName)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.history[len(m.history)-1], nil
}

// first is closed once there is a mark. The caller holds the lock.
func (m *History) first() chan struct{} {
	if m.stored == nil {
		m.stored = make(chan struct{})
	}
	return m.stored
}

// Contains reports whether a mark was set by this management cluster.
func (m *History) Contains(mark record.Mark) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return record.Contains(m.history, mark)
}

// advance returns the history with the next mark of the holder at its end.
func advance(history []record.Mark, holder string) []record.Mark {
	next := record.Mark{Holder: holder, Sequence: 1}
	if last := len(history) - 1; last >= 0 {
		next.Sequence = history[last].Sequence + 1
		// A process that was suspended while another was the leader continues where it was.
		history = slices.DeleteFunc(slices.Clone(history), func(recorded record.Mark) bool { return recorded.Holder == holder })
	}
	history = append(history[:len(history):len(history)], next)
	return history[max(0, len(history)-maxHolders):]
}
