// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// forgetAfter is when the cache is certain to show what was done, or nothing was done.
const forgetAfter = time.Minute

// ledger remembers what was allowed, and lets one decision about a Cluster be made at a
// time, so that two MachineSets never use the same room. The zero value is ready to use.
type ledger struct {
	mu       sync.Mutex
	clusters map[client.ObjectKey]*sync.Mutex
	births   map[types.UID]birth     // by MachineSet
	deaths   map[types.UID]time.Time // by Machine
	crowds   map[types.UID]time.Time // by fleet, since when it has had too many Machines
}

// birth is how many Machines a set was allowed, and which it had before.
type birth struct {
	n     int
	known map[types.UID]bool
	at    time.Time
}

// lock waits until nothing else is decided about the Cluster.
func (l *ledger) lock(cluster client.ObjectKey) (unlock func()) {
	l.mu.Lock()
	if l.clusters == nil {
		l.clusters = map[client.ObjectKey]*sync.Mutex{}
		l.births, l.deaths = map[types.UID]birth{}, map[types.UID]time.Time{}
	}
	if l.clusters[cluster] == nil {
		l.clusters[cluster] = &sync.Mutex{}
	}
	mu := l.clusters[cluster]
	l.mu.Unlock()
	mu.Lock()
	return mu.Unlock
}

// created notes how many Machines the set may create beside those that are known.
func (l *ledger) created(set types.UID, n int, known map[types.UID]bool, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.births, func(_ types.UID, b birth) bool { return at.Sub(b.at) > forgetAfter })
	if n > 0 {
		l.births[set] = birth{n, known, at}
	}
}

// forget drops what was noted for the set: the cache shows it.
func (l *ledger) forget(set types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.births, set)
}

// unseen is how many Machines the set was allowed and are not among those shown.
func (l *ledger) unseen(set types.UID, shown []*clusterv1.Machine, now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, noted := l.births[set]
	if !noted || now.Sub(b.at) > forgetAfter {
		return 0
	}
	left := b.n
	for _, m := range shown {
		if !b.known[m.UID] {
			left--
		}
	}
	return max(0, left)
}

// replaced notes that the Machine is about to be deleted.
func (l *ledger) replaced(machine types.UID, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.deaths, func(_ types.UID, since time.Time) bool { return at.Sub(since) > forgetAfter })
	l.deaths[machine] = at
}

// isReplaced reports whether the Machine was about to be deleted a moment ago.
func (l *ledger) isReplaced(machine types.UID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	since, noted := l.deaths[machine]
	return noted && now.Sub(since) <= forgetAfter
}

// spared drops what was noted for the Machine: it is not being deleted after all.
func (l *ledger) spared(machine types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.deaths, machine)
}

// over is since when the fleet has had too many Machines; zero if it has not.
func (l *ledger) over(fleet types.UID) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.crowds[fleet]
}

// crowded notes since when the fleet has had too many Machines; zero if it has not.
func (l *ledger) crowded(fleet types.UID, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if since.IsZero() {
		delete(l.crowds, fleet)
		return
	}
	if l.crowds == nil {
		l.crowds = map[types.UID]time.Time{}
	}
	l.crowds[fleet] = since
}
